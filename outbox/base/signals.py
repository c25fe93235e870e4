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
    return _Watch(numbers, act).end


class _Watch:
    """The wake-up descriptor, the thread that reads it, and what stood there before."""

    def __init__(
        self, numbers: Iterable[signal.Signals], act: Callable[[signal.Signals], None]
    ) -> None:
        self._act = act
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._over = False
        # Something must stand for a handler, or the signal would do what it does by default.
        self._before = {number: signal.signal(number, lambda *_: None) for number in numbers}
        self._waker = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)
        threading.Thread(target=self._watch, name="aijobs-signals", daemon=True).start()

    def end(self) -> None:
        self._over = True
        signal.set_wakeup_fd(self._waker)
        self._put_back()
        with self._theirs:
            self._theirs.send(bytes([_OVER]))

    def _watch(self) -> None:
        with self._ours:
            while (told := self._ours.recv(1)) and told[0] != _OVER:
                if told[0] in self._before:
                    self._act(signal.Signals(told[0]))

    def _forget(self) -> None:
        """In a forked child: its signals are its own, and would otherwise be told here."""
        if not self._over:
            signal.set_wakeup_fd(-1)
            self._put_back()

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
