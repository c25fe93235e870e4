"""Child processes for tests: real ones, with captured output, to be killed and frozen by pid, always reaped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support import reaper
from tests.support.programs import clean_environment
from tests.support.wait import PATIENCE_S, eventually

ROOT = Path(__file__).resolve().parent.parent.parent

_CALL = """
import importlib, json, sys
module, name, arguments = sys.argv[1:]
getattr(importlib.import_module(module), name)(*json.loads(arguments))
"""


class Child:
    """One child process; its standard output and error are one text."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, name=f"child-{process.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """What it has printed so far."""
        with self._news:
            return "".join(self._lines)

    def wait_for_output(self, text: str, timeout: float = PATIENCE_S) -> str:
        """Return the first line that contains `text`. Raises AssertionError after `timeout` s or when it ended."""

        def found() -> str | None:
            return next((line for line in self._lines if text in line), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or self._ended, timeout)
            line = found()
        assert line is not None, f"{text!r} was not printed:\n{self.output}"
        return line.rstrip("\n")

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """Return the exit code (negative: the signal's number). Raises AssertionError after `timeout` seconds."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout:g} s:\n{self.output}") from None
        self._reader.join(timeout)
        reaper.forget(self.pid)
        return code

    def check(self, timeout: float = PATIENCE_S) -> str:
        """Wait for a good end and return the output. Raises AssertionError for another exit code than 0."""
        code = self.wait(timeout)
        assert code == 0, f"exit code {code}:\n{self.output}"
        return self.output

    def send(self, line: str) -> None:
        """Write one line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        """Send it a signal, such as `signal.SIGTERM`."""
        self._process.send_signal(number)

    def kill(self) -> int:
        """SIGKILL, frozen or not; returns the exit code when it is gone."""
        self._process.kill()
        return self.wait()

    def freeze(self) -> None:
        """SIGSTOP; returns when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: self._state() == "T", message=lambda: f"{self.pid} stands still")

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it and all processes of its session, and collect them."""
        with suppress(ProcessLookupError):
            # its session is its own: whatever it started and left is in this group
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    def _state(self) -> str:
        text = Path(f"/proc/{self.pid}/stat").read_text(errors="replace")
        return text.rpartition(")")[2].split()[0]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class Children:
    """Starts children and collects them all on `close`. `environment` is added to every child's."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(environment or {})
        self._children: list[Child] = []

    def call(
        self, function: Callable[..., Any], *arguments: Any, env: Mapping[str, str] | None = None
    ) -> Child:
        """Run a module-level function in a new Python process; the arguments travel as JSON."""
        place = (function.__module__, function.__qualname__)
        assert "." not in place[1], f"{place[1]} is not at the top of its module"
        return self.python("-c", _CALL, *place, json.dumps(arguments), env=env)

    def python(self, *arguments: str, env: Mapping[str, str] | None = None) -> Child:
        """Run this Python with the arguments, unbuffered, with the project on its path."""
        return self.command([sys.executable, "-X", "faulthandler", *arguments], env=env)

    def aijobs(self, *arguments: str, env: Mapping[str, str] | None = None) -> Child:
        """Run the command line `aijobs` with the arguments."""
        call = "from engine.cli.process import run; run()"
        return self.python("-c", call, *arguments, env=env)

    def command(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path = ROOT
    ) -> Child:
        """Run any command; the environment is this process's without AIJOBS_*, PG*, MYSQL_* and REDIS*."""
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=clean_environment() | self._python_environment() | dict(env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            bufsize=1,
            start_new_session=True,
        )
        reaper.watch(process.pid)
        child = Child(process)
        self._children.append(child)
        return child

    def close(self) -> None:
        """Kill and collect every child."""
        for child in self._children:
            child.close()
        self._children.clear()

    def _python_environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **self._environment}
