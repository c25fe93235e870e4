"""The hint after a commit is sent by a thread that nobody waits for, except whoever closes what it uses."""

from __future__ import annotations

import multiprocessing
import sys
import threading

import pytest

from engine.intake.wake import WakeHint, dispatcher_channel
from outbox.transports.memory import MemoryTransport


class SlowTransport(MemoryTransport):
    """Takes its time over a hint, and says whether it was closed meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.sending = threading.Event()
        self.go_on = threading.Event()
        self.closed_meanwhile = False
        self.sent = threading.Event()

    def wake(self, channel: str) -> None:
        self.sending.set()
        self.go_on.wait(10)
        super().wake(channel)
        self.sent.set()

    def close(self) -> None:
        self.closed_meanwhile = self.sending.is_set() and not self.sent.is_set()


def test_the_transport_is_not_closed_under_the_hands_of_a_hint() -> None:
    transport = SlowTransport()
    hint = WakeHint(transport)
    hint.send(["a"])
    assert transport.sending.wait(10)

    def close() -> None:
        hint.close()
        transport.close()

    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.1)
    transport.go_on.set()
    closing.join(10)

    assert transport.sent.wait(10)
    assert not transport.closed_meanwhile


def test_a_hint_that_nobody_asked_for_is_closed_at_once() -> None:
    WakeHint(MemoryTransport()).close()


def test_a_program_that_ends_after_its_last_job_has_sent_its_hint() -> None:
    transport = SlowTransport()
    transport.go_on.set()
    hint = WakeHint(transport)
    hint.send(["a"])
    assert transport.sending.wait(10)
    # It rests between two hints now; this one is asked for meanwhile.
    hint.send(["b"])
    hint.close()

    assert transport.wait_wake([dispatcher_channel("b")], 0) == dispatcher_channel("b")


def test_a_hint_names_each_queue_once() -> None:
    transport = MemoryTransport()
    hint = WakeHint(transport)
    for _ in range(3):
        hint.send(["a", "b"])
        hint.send(["b"])
    hint.close()

    channels = [dispatcher_channel(queue) for queue in ("a", "b", "c")]
    assert [transport.wait_wake(channels, 0) for _ in range(3)] == [*channels[:2], None]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_sends_hints_of_its_own() -> None:
    """TR-13. Servers that load the application before they fork leave their threads behind."""
    transport = MemoryTransport()
    hint = WakeHint(transport)
    hint.send(["a"])
    assert transport.wait_wake([dispatcher_channel("a")], 10_000)

    def child() -> None:
        hint.send(["b"])
        sys.exit(0 if transport.wait_wake([dispatcher_channel("b")], 10_000) else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    hint.close()


def test_nothing_is_sent_after_the_end() -> None:
    transport = MemoryTransport()
    hint = WakeHint(transport)
    hint.close()
    hint.send(["a"])
    assert transport.wait_wake([dispatcher_channel("a")], 0) is None


def test_a_process_that_can_start_no_thread_goes_on_without_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1. The job is committed by then: an error would say that there is none."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    transport = MemoryTransport()
    hint = WakeHint(transport)
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuse)
        hint.send(["a"])
    hint.send(["b"])
    hint.close()

    channels = [dispatcher_channel(queue) for queue in ("a", "b")]
    assert [transport.wait_wake(channels, 0) for _ in range(2)] == channels
