"""What is measured: how each system is asked to create, to dispatch and to work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from scripts.benchmarks.programs import Program, call
from scripts.benchmarks.servers import Servers
from scripts.benchmarks.ticks import VARIABLE, Ticks

Role = Literal["engine", "yardstick", "peer"]
_AIJOBS = "from engine.cli.process import run; run()"


@dataclass(frozen=True)
class System:
    """One system. ``module`` is run with ``python -m``; its head says which commands it knows."""

    name: str
    module: str
    role: Role
    #: Jobs per call of its bulk API; 0 = it has none.
    bulk: int = 0
    #: Distributions that must be installed.
    needs: Sequence[str] = ()
    #: Slots that one worker process can have.
    max_slots: int = 100_000
    dispatches: bool = False
    python: str = field(default=sys.executable)

    def missing(self) -> str | None:
        """Why it cannot be measured here; None when it can."""
        check = f"import importlib.metadata as m; [m.version(n) for n in {list(self.needs)!r}]"
        done = subprocess.run([self.python, "-c", check], capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"{self.name}: needs {', '.join(self.needs)}"

    def ask(self, servers: Servers, command: str, *numbers: float, timeout_s: float = 900) -> dict[str, float]:
        """Run a command of its module to the end."""
        arguments = [self.python, "-m", self.module, command, *map(str, numbers)]
        # Dispatch alone fills the queue; beside a worker the mark is what it is.
        raised = {"AIJOBS_DISPATCHER__HIGH_WATER_MARK": "10000000"} if command == "dispatch" else {}
        return call(arguments, servers.environment | raised, timeout_s)

    def fill(self, servers: Servers, jobs: int, *, sleep_s: float = 0.0, filler: int = 0) -> dict[str, float]:
        """Create jobs as fast as it can."""
        return self.ask(servers, "create", jobs, max(1, self.bulk), sleep_s, filler)

    def worker(self, servers: Servers, ticks: Ticks, slots: int) -> Program:
        """One worker process with ``slots`` jobs at a time."""
        command = [self.python, "-m", self.module, "worker", str(min(slots, self.max_slots))]
        if self.role == "engine":
            command = _aijobs("worker", "ai-background", "--concurrency", str(slots))
        return Program(command, {**servers.environment, VARIABLE: str(ticks.path)})

    def dispatcher(self, servers: Servers) -> Program:
        """Its dispatcher process."""
        command = [self.python, "-m", self.module, "dispatcher"]
        return Program(_aijobs("dispatcher") if self.role == "engine" else command, servers.environment)


def _aijobs(*arguments: str) -> list[str]:
    return [
        sys.executable, "-c", _AIJOBS, "--app", "scripts.benchmarks.jobs:app", "--log-level", "warning", *arguments,
    ]  # fmt: skip


ENGINE = System("aijobs", "scripts.benchmarks.ours", "engine", bulk=100, dispatches=True)
NAIVE = System("hand-written", "scripts.benchmarks.naive", "yardstick", max_slots=1, dispatches=True)


def _peer(name: str, *needs: str, bulk: int = 0) -> System:
    return System(name, f"scripts.benchmarks.peers.{name}_peer", "peer", bulk=bulk, needs=needs)


PEERS = (
    _peer("celery", "celery", "redis"),
    _peer("taskiq", "taskiq", "taskiq-redis"),
    _peer("procrastinate", "procrastinate", bulk=1000),
    _peer("dbos", "dbos"),
    _peer("oban", "oban", bulk=1000),
)
