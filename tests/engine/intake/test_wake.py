"""The hint after a commit is sent by a thread that nobody waits for, except whoever closes what it uses."""

from __future__ import annotations

import threading

from engine.intake.wake import WakeHint
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
    hint.send()
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
