"""A signal is heard whichever thread the kernel hands it to, and by the process that it was sent to."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Iterator

import pytest

from outbox.base.signals import on_signals

WANTED = (signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def told() -> Iterator[queue.SimpleQueue[int]]:
    heard: queue.SimpleQueue[int] = queue.SimpleQueue()
    restore = on_signals(WANTED, heard.put)
    yield heard
    restore()


def test_signal_that_another_thread_catches_is_heard_while_the_main_thread_waits(
    told: queue.SimpleQueue[int],
) -> None:
    """As of a process that is thawed and told to stop in one go. The handler itself runs when the wait is over."""

    def catch() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    threading.Thread(target=catch).start()

    assert told.get(timeout=20) == signal.SIGUSR1


def test_each_signal_is_told_once_and_in_turn(told: queue.SimpleQueue[int]) -> None:
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        os.kill(os.getpid(), number)
        assert told.get(timeout=20) == number
    assert told.empty()


def test_signal_of_a_forked_child_is_the_childs_alone(told: queue.SimpleQueue[int]) -> None:
    """Handlers that use processes end them with signals; the worker is not meant."""
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(5)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGUSR1
    assert told.empty()


def test_handlers_of_before_come_back() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: heard.append(number))
    try:
        on_signals(WANTED, lambda _number: None)()
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert heard == [signal.SIGUSR1]
