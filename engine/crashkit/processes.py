"""The kit's child processes, seen from the kit: started, watched, killed, frozen, collected."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from engine.crashkit.errors import KitStuckError
from engine.crashkit.options import Order

_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from engine.crashkit.zygote import main; main()"
)
_PATIENCE_S: Final = 60.0

Event = dict[str, Any]


class Child:
    """One process of the kit. Its events are what it said and what was seen of it."""

    def __init__(self, number: int, order: Order, log: Path, send: Callable[[Event], None]) -> None:
        self.order = order
        self.log = log
        self._number = number
        self._send = send
        self._events: list[Event] = []
        self._news = threading.Condition()

    @property
    def name(self) -> str:
        return self.order.name

    # -------------------------------------------------------------- what it says

    def hear(self, event: Event) -> None:
        """Note an event; called by the reader."""
        with self._news:
            self._events.append(event)
            self._news.notify_all()

    def count(self, event: str, **more: Any) -> int:
        """How often ``event`` was heard so far."""
        with self._news:
            return sum(1 for e in self._events if _fits(e, event, more))

    def facts(self) -> dict[str, int]:
        """The telemetry it told on, counted."""
        found: dict[str, int] = {}
        with self._news:
            for event in self._events:
                if event["event"] == "fact":
                    found[event["fact"]] = found.get(event["fact"], 0) + event["count"]
        return found

    def wait(self, event: str, *, times: int = 1, timeout_s: float = _PATIENCE_S, **more: Any) -> Event:
        """Wait until ``event`` was heard ``times`` times. Raises :class:`KitStuckError`."""

        def heard() -> list[Event]:
            return [e for e in self._events if _fits(e, event, more)]

        with self._news:
            self._news.wait_for(lambda: len(heard()) >= times or self._has_ended(), timeout_s)
            found = heard()
        if len(found) < times:
            self._show_threads()
            raise KitStuckError(f"{self.name}: no {event!r} {more or ''}\n{self.log_tail()}")
        return found[times - 1]

    @property
    def ended(self) -> bool:
        return self.count("ended") > 0

    def _has_ended(self) -> bool:
        return any(e["event"] == "ended" for e in self._events)

    def log_tail(self) -> str:
        """The end of what it wrote to its log."""
        return self.log.read_text(errors="replace")[-6_000:] if self.log.exists() else ""

    def _show_threads(self) -> None:
        """Have it write to its log where each of its threads stands."""
        size = len(self.log_tail())
        self._signal(signal.SIGUSR1)
        with suppress(KitStuckError):
            until(lambda: len(self.log_tail()) > size, timeout_s=2, what=lambda: "a dump")

    # -------------------------------------------------------------- what is done to it

    def wait_end(self, timeout_s: float = _PATIENCE_S) -> int:
        """Wait until it is gone; returns its exit code, or minus the signal's number."""
        return int(self.wait("ended", timeout_s=timeout_s)["code"])

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._signal(signal.SIGKILL)
        self.wait_end()

    def freeze(self) -> None:
        """SIGSTOP; returns when it stands still."""
        times = self.count("stopped") + 1
        self._signal(signal.SIGSTOP)
        self.wait("stopped", times=times)

    def thaw(self) -> None:
        """SIGCONT; returns when it goes on."""
        times = self.count("continued") + 1
        self._signal(signal.SIGCONT)
        self.wait("continued", times=times)

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self._signal(signal.SIGTERM)

    def stop(self, timeout_s: float = _PATIENCE_S) -> int:
        """SIGTERM; returns the exit code."""
        self.ask_to_stop()
        return self.wait_end(timeout_s)

    def _signal(self, number: int) -> None:
        self._send({"child": self._number, "signal": int(number)})


class Processes:
    """Starts children through the zygote. A context manager; leaving it ends every child."""

    def __init__(self, folder: Path) -> None:
        """``folder`` takes the children's logs."""
        self._folder = folder
        self._children: list[Child] = []
        self._lock = threading.Lock()
        self._up = threading.Event()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        log = (self._folder / "zygote.log").open("ab")
        with log:
            # Its own session: a Ctrl-C is for the kit alone, which then ends it.
            self._zygote = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-c", _START, json.dumps(sys.path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="crashkit-events", daemon=True)
        self._reader.start()
        if not self._up.wait(_PATIENCE_S) or self._zygote.poll() is not None:
            text = (self._folder / "zygote.log").read_text(errors="replace")[-2_000:]
            self.__exit__()
            raise KitStuckError(f"the kit's processes cannot be started\n{text}")
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._zygote is not None
        assert self._reader is not None
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.close()
        try:
            self._zygote.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._zygote.kill()
            self._zygote.wait()
        self._reader.join(_PATIENCE_S)
        self._zygote.stdout.close()

    def start(self, order: Order) -> Child:
        """Start the process that ``order`` describes; returns at once."""
        with self._lock:
            number = len(self._children)
            child = Child(number, order, self._folder / f"{order.name}.log", self._send)
            self._children.append(child)
        self._send({"child": number, "order": order.to_json(), "log": str(child.log)})
        return child

    @property
    def children(self) -> list[Child]:
        """Everyone that was ever started."""
        with self._lock:
            return list(self._children)

    def _send(self, what: Event) -> None:
        assert self._zygote is not None
        assert self._zygote.stdin is not None
        with self._lock:
            self._zygote.stdin.write(json.dumps(what).encode() + b"\n")
            self._zygote.stdin.flush()

    def _read(self) -> None:
        assert self._zygote is not None
        assert self._zygote.stdout is not None
        for line in self._zygote.stdout:
            self._hear(json.loads(line))
        # Nobody is left to say anything.
        for child in self.children:
            child.hear({"event": "ended", "code": -signal.SIGKILL})
        self._up.set()

    def _hear(self, event: Event) -> None:
        if event["event"] == "up":
            self._up.set()
        else:
            self.children[event["child"]].hear(event)


def _fits(event: Event, name: str, more: dict[str, Any]) -> bool:
    return event["event"] == name and all(event.get(key) == value for key, value in more.items())


def until(
    ready: Callable[[], bool], *, timeout_s: float, what: Callable[[], str], interval_s: float = 0.05
) -> None:
    """Wait until ``ready()``. Raises :class:`KitStuckError` with ``what()`` was waited for."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline:
            raise KitStuckError(f"not within {timeout_s:g} s: {what()}")
        time.sleep(interval_s)


def log_folder(root: Path) -> Path:
    """A folder for one run's logs below ``root``, for this user only."""
    folder = root / f"aijobs-crashkit-{os.getpid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
