"""The mother of the kit's processes: everything is imported once, then each child is one fork away.

It has one thread, one pipe in (orders and signals) and one out (events, one line of JSON each). Signals go
through it because it alone knows which of its children are still there: a number that was collected may
belong to somebody else. When the pipe in closes, however that comes, all children are killed.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import selectors
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

from engine.crashkit import child
from engine.crashkit.options import Order
from outbox.base.heap import settle_heap

_IN: Final = 0
_OUT: Final = 1
_FAILED: Final = 70

#: What the first connection would import; a driver that is not installed is not needed either.
_LATE: Final = ("pymysql.cursors", "psycopg", "sqlite3", "outbox.transports.rq", "cryptography.fernet")


class Zygote:
    """Forks, signals and collects children until its input ends."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._input = b""

    def serve(self) -> None:
        """Obey until the pipe closes."""
        bell, ringer = os.pipe()
        os.set_blocking(bell, False)
        os.set_blocking(ringer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ringer, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(_IN, selectors.EVENT_READ)
            selector.register(bell, selectors.EVENT_READ)
            try:
                # A kit that is killed may be gone before it has heard everything.
                with suppress(BrokenPipeError):
                    child.speaker(_OUT, -1)("up")
                    while self._turn(selector, bell):
                        pass
            finally:
                self._end()

    def _turn(self, selector: selectors.BaseSelector, bell: int) -> bool:
        for key, _ in selector.select():
            if key.fd == bell:
                with suppress(BlockingIOError):
                    os.read(bell, 4096)
                self._collect()
            elif not self._obey():
                return False
        return True

    def _obey(self) -> bool:
        data = os.read(_IN, 65536)
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            wanted = json.loads(line)
            if "order" in wanted:
                self._fork(wanted)
            else:
                self._signal(wanted["child"], wanted["signal"])
        return bool(data)

    def _fork(self, wanted: dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            _become(wanted)
        self._numbers[pid] = wanted["child"]
        self._pids[wanted["child"]] = pid
        child.speaker(_OUT, wanted["child"])("started", pid=pid)

    def _signal(self, number: int, what: int) -> None:
        if number in self._pids:
            os.kill(self._pids[number], what)

    def _collect(self) -> None:
        flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        while self._numbers:
            pid, status = os.waitpid(-1, flags)
            if pid == 0:
                return
            self._report(pid, status)

    def _report(self, pid: int, status: int) -> None:
        say = child.speaker(_OUT, self._numbers[pid])
        if os.WIFSTOPPED(status):
            say("stopped")
        elif os.WIFCONTINUED(status):
            say("continued")
        else:
            number = self._numbers.pop(pid)
            del self._pids[number]
            say("ended", code=os.waitstatus_to_exitcode(status))

    def _end(self) -> None:
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in self._numbers:
            os.waitpid(pid, 0)


def _become(wanted: dict[str, Any]) -> NoReturn:
    """Be the child that was ordered; never returns into the zygote's code."""
    code = _FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), _IN)
        os.dup2(os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
        order = Order.from_json(wanted["order"])
        code = child.run(order, child.speaker(_OUT, wanted["child"]))
    except BaseException:  # noqa: BLE001 - whatever it was, it ends here and is in the log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run as a process: ``python -c 'from engine.crashkit.zygote import main; main()'``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _LATE:
        with suppress(ImportError):
            import_module(name)
    # Once for all children: each would look through what it was born with, and so make a copy of it.
    settle_heap()
    Zygote().serve()
