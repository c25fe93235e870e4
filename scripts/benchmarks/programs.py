"""Child processes of a measurement: what they used, and that none is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support import reaper

ROOT = Path(__file__).resolve().parents[2]
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProgramFailed(Exception):
    """A child ended badly; the text holds the end of its output."""


class Program:
    """A process that runs until it is stopped; its memory is watched."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        # In the session of all others: Linux may share the CPU between sessions before it shares it between threads
        # (autogroup), and then a server with work from many clients waits behind each of them.
        self._process = subprocess.Popen(
            list(command), cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
            stdout=self._output, stderr=subprocess.STDOUT, process_group=0,
        )  # fmt: skip
        reaper.watch(self._process.pid)
        self.peak_rss = 0
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def cpu_s(self) -> float:
        """Seconds of CPU that it and its children have used."""
        return sum(cpu_s(pid) for pid in _group(self._process.pid))

    def stop(self) -> None:
        """Ask it to end, then make it end."""
        self._ended.set()
        self._watcher.join()
        for number, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
            if _group(self._process.pid):
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        reaper.forget(self._process.pid)
        self._output.close()

    def tail(self) -> str:
        """The end of what it printed."""
        self._output.flush()
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.peak_rss = max(self.peak_rss, sum(_rss(pid) for pid in _group(self._process.pid)))


def call(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    """Run a child to its end and return the JSON object on the last line it printed."""
    done = subprocess.run(
        list(command), cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=timeout_s, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise ProgramFailed(f"{' '.join(command)}\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def cpu_s(pid: int) -> float:
    """Seconds of CPU of one process, and of its children that have ended."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICK if fields else 0.0


def family_cpu_s(pid: int) -> float:
    """Seconds of CPU of a server and its present children (PostgreSQL has one for each connection)."""
    children = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _parent(int(path.name)) == pid]
    return cpu_s(pid) + sum(cpu_s(child) for child in children)


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _group(leader: int) -> list[int]:
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if (fields := _stat(pid)) and int(fields[2]) == leader and fields[0] != "Z"]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
