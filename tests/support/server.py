"""What all private servers have in common: one process, one port, one folder, and the ways to hurt it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support import reaper
from tests.support.programs import ServerFailed, clean_environment, find_program
from tests.support.wait import eventually

HOST = "127.0.0.1"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0


def free_port() -> int:
    """A TCP port of the loopback interface that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def work_folder() -> Path:
    """A new folder with a short path (a Unix socket's path has 107 bytes) that other users may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="aijobs-"))
    folder.chmod(0o711)
    reaper.remove_at_end(folder)
    return folder


class Server:
    """One server process. Use as a context manager, or call `start` and `close`."""

    program = ""
    patterns: tuple[str, ...] = ()
    #: asks the server to close connections and end in good order
    stop_signal = signal.SIGTERM
    #: what a client raises while the server is still starting
    not_ready: tuple[type[Exception], ...] = ()

    def __init__(self, *, options: Mapping[str, str] | None = None) -> None:
        self.host = HOST
        self.port = free_port()
        self.options = dict(options or {})
        self.folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the process and return when it answers a query. Data of an earlier run is kept."""
        if self.running:
            return self
        binary = find_program(self.program, *self.patterns)
        if self.folder is None:
            self.folder = work_folder()
            self._create_data()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(binary),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
                # Out of reach of Ctrl-C, and in one session with its clients: see scripts/benchmarks/programs.py.
                process_group=0,
            )
        reaper.watch(self._process.pid)
        eventually(
            self._is_ready,
            START_TIMEOUT_S,
            message=lambda: f"{self.program} answers\n{self.log_tail()}",
        )
        return self

    def stop(self) -> None:
        """End the process in good order; clients see closed connections. Returns when it is gone."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End the process and its children like a power cut (SIGKILL). Returns when they are gone."""
        if self._process is None:
            return
        family = self._family()
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reap()
        eventually(
            lambda: not any(is_alive(pid) for pid in family),
            STOP_TIMEOUT_S,
            message="children are gone",
        )

    def restart(self) -> Self:
        """Stop (if running) and start again on the same port with the same data."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Freeze the process and its children (SIGSTOP): connections stay open and nothing answers."""
        self._paused = True
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT)."""
        for pid in reversed(self._family()):
            # a child may have ended since it was listed
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._paused = False

    def heal(self) -> Self:
        """Make it run and answer again, whatever was done to it."""
        # Most tests leave it alone, and finding its family means reading every process of the machine.
        if self._paused and self.running:
            self.resume()
        return self.start()

    def close(self) -> None:
        """Kill the server and delete its folder."""
        self.kill()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- questions --------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        return (self.host, self.port)

    def log_tail(self, lines: int = 30) -> str:
        path = self._home / "log"
        return (
            "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
            if path.exists()
            else ""
        )

    # -- for subclasses ---------------------------------------------------------------------------

    def _create_data(self) -> None:
        pass

    def _command(self, binary: str) -> list[str]:
        raise NotImplementedError

    def _ping(self) -> None:
        raise NotImplementedError

    # -- inner ------------------------------------------------------------------------------------

    @property
    def _home(self) -> Path:
        assert self.folder is not None, "the server was never started"
        return self.folder

    def _is_ready(self) -> bool:
        if not self.running:
            tail = self.log_tail()
            self._reap()
            raise ServerFailed(f"{self.program} ended at start:\n{tail}")
        try:
            self._ping()
        except (OSError, *self.not_ready):
            return False
        return True

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        if self.running:
            self.resume()
            self._process.send_signal(number)
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        reaper.forget(self._process.pid)
        self._process = None

    @staticmethod
    def _tell_family(family: list[int], number: int) -> None:
        for pid in family:
            # a session's process ends whenever its client leaves
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _family(self) -> list[int]:
        """The process and its descendants, parents first."""
        children = children_by_parent()
        family = [self.pid] if self.running else []
        for pid in family:
            family.extend(children.get(pid, ()))
        return family


def children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            after_name = path.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(path.parent.name))
    return children


def is_alive(pid: int) -> bool:
    """Whether the process runs (a zombie, which only its parent's wait can clear, does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
