"""What is measured: how each system is asked to create, to dispatch and to work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scripts.benchmarks.programs import Program, call
from scripts.benchmarks.servers import Servers
from scripts.benchmarks.ticks import VARIABLE, Ticks

Role = Literal["engine", "yardstick", "peer"]
Store = Literal["postgresql", "redis"]
_AIJOBS = "from engine.cli.process import run; run()"


@dataclass(frozen=True)
class System:
    """One system. ``program`` follows its interpreter; its head says which commands it knows."""

    name: str
    program: Sequence[str]
    role: Role
    #: Jobs per call of its bulk API; 0 = it has none.
    bulk: int = 0
    #: Where it keeps its jobs when that is not the database under test.
    store: Store | None = None
    #: Distributions that must be installed, of Node those packages that it must find.
    needs: Sequence[str] = ()
    #: Slots that one worker process can have.
    max_slots: int = 100_000
    dispatches: bool = False
    interpreter: str = sys.executable

    def missing(self) -> str | None:
        """Why it cannot be measured here; None when it can."""
        check = f"import importlib.metadata as m; [m.version(n) for n in {list(self.needs)!r}]"
        if self._runs([self.interpreter, "-c", check]):
            return None
        return f"{self.name}: needs {', '.join(self.needs)} (pip install 'aijobs[bench]')"

    @staticmethod
    def _runs(command: Sequence[str]) -> bool:
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False

    def ask(self, servers: Servers, command: str, *numbers: float, timeout_s: float = 900) -> dict[str, float]:
        """Run a command of its module to the end."""
        arguments = [self.interpreter, *self.program, command, *map(str, numbers)]
        # Dispatch alone fills the queue; beside a worker the mark is what it is.
        raised = {"AIJOBS_DISPATCHER__HIGH_WATER_MARK": "10000000"} if command == "dispatch" else {}
        return call(arguments, servers.environment | raised, timeout_s)

    def fill(self, servers: Servers, jobs: int, *, sleep_s: float = 0.0, filler: int = 0) -> dict[str, float]:
        """Create jobs as fast as it can."""
        return self.ask(servers, "create", jobs, max(1, self.bulk), sleep_s, filler)

    def worker(self, servers: Servers, ticks: Ticks, slots: int) -> Program:
        """One worker process with ``slots`` jobs at a time."""
        command = [self.interpreter, *self.program, "worker", str(min(slots, self.max_slots))]
        if self.role == "engine":
            command = _aijobs("worker", "ai-background", "--concurrency", str(slots))
        return Program(command, {**servers.environment, VARIABLE: str(ticks.path)})

    def dispatcher(self, servers: Servers) -> Program:
        """Its dispatcher process."""
        command = [self.interpreter, *self.program, "dispatcher"]
        return Program(_aijobs("dispatcher") if self.role == "engine" else command, servers.environment)


class NodeSystem(System):
    """One that Node runs; its packages are looked for in ``NODE_PATH``."""

    def missing(self) -> str | None:
        check = "process.argv.slice(1).forEach(name => require(name))"
        if self._runs([self.interpreter, "-e", check, *self.needs]):
            return None
        return f"{self.name}: needs Node and {', '.join(self.needs)} (npm install; NODE_PATH=…/node_modules)"


def _aijobs(*arguments: str) -> list[str]:
    return [
        sys.executable, "-c", _AIJOBS, "--app", "scripts.benchmarks.jobs:app", "--log-level", "warning", *arguments,
    ]  # fmt: skip


ENGINE = System("aijobs", ("-m", "scripts.benchmarks.ours"), "engine", bulk=100, dispatches=True)
NAIVE = System("hand-written", ("-m", "scripts.benchmarks.naive"), "yardstick", max_slots=1, dispatches=True)


def _peer(name: str, store: Store, *needs: str, bulk: int = 0) -> System:
    program = ("-m", f"scripts.benchmarks.peers.{name}_peer")
    return System(name, program, "peer", bulk=bulk, store=store, needs=needs)


_BULLMQ = NodeSystem(
    "bullmq", ("scripts/benchmarks/peers/bullmq_peer.cjs",), "peer", bulk=1000, store="redis",
    needs=("bullmq", "ioredis"), interpreter="node",
)  # fmt: skip

PEERS = (
    _peer("celery", "redis", "celery", "redis"),
    _peer("taskiq", "redis", "taskiq", "taskiq-redis"),
    _BULLMQ,
    _peer("procrastinate", "postgresql", "procrastinate", bulk=1000),
    _peer("dbos", "postgresql", "dbos"),
    _peer("oban", "postgresql", "oban", bulk=1000),
)
