"""Signals, told on a thread of their own.

Python runs a signal's handler on the main thread, once that wakes up. The kernel however may hand a signal to any
thread, as to one that stands when the process is thawed, and a main thread that waits for a lock then never hears
of it. What the interpreter writes at once, whichever thread was hit, is a byte for the wake-up descriptor.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Final

_OVER: Final = 0


def on_signals(
    numbers: Iterable[signal.Signals], act: Callable[[signal.Signals], None]
) -> Callable[[], None]:
    """Call ``act(number)`` on a thread for each of these signals from now on; only for the main thread.

    Returns what ends that and puts the handlers of before back.
    """
    wanted = frozenset(numbers)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    over: list[bool] = []
    # Something must stand for a handler, or the signal would do what it does by default.
    before = {number: signal.signal(number, lambda *_: None) for number in wanted}
    waker = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)

    def forget() -> None:
        """In a forked child: its signals are its own, and would otherwise be told here."""
        if not over:
            signal.set_wakeup_fd(-1)
            put_back()

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def watch() -> None:
        with ours:
            while (told := ours.recv(1)) and told[0] != _OVER:
                if told[0] in wanted:
                    act(signal.Signals(told[0]))

    def restore() -> None:
        over.append(True)
        signal.set_wakeup_fd(waker)
        put_back()
        with theirs:
            theirs.send(bytes([_OVER]))

    os.register_at_fork(after_in_child=forget)
    threading.Thread(target=watch, name="aijobs-signals", daemon=True).start()
    return restore
