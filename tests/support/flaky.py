"""Switches around a true transport: away, slow, refusing single tickets, or deaf after the deed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from outbox.errors import TicketRefused, TransportUnavailable
from outbox.transports.base import PutResult, SteerableTransport, Ticket


class FlakyTransport:
    """Passes everything on to `inner`, except where a switch says otherwise."""

    def __init__(self, inner: SteerableTransport) -> None:
        self.inner = inner
        #: every call fails before it reaches the broker
        self.away = False
        #: puts reach the broker, and their answers are lost
        self.deaf = False
        #: whose tickets the broker refuses
        self.refuses: Callable[[Ticket], bool] = lambda _ticket: False
        #: on whose tickets the client itself stumbles, for the whole batch
        self.stumbles: Callable[[Ticket], bool] = lambda _ticket: False
        #: called inside each put, before it is carried out
        self.during_put: Callable[[], object] = lambda: None
        self.puts: list[list[Ticket]] = []
        #: how often it was asked how deep its queues are
        self.depths = 0
        self._lock = threading.Lock()

    def put_many(
        self, tickets: Sequence[Ticket], *, if_idle: bool = False
    ) -> list[PutResult | TicketRefused]:
        self._reach()
        if any(map(self.stumbles, tickets)):
            raise ValueError("a client that cannot encode this")
        self.during_put()
        with self._lock:
            self.puts.append(list(tickets))
        good = [ticket for ticket in tickets if not self.refuses(ticket)]
        answers = iter(self.inner.put_many(good, if_idle=if_idle))
        if self.deaf:
            raise TransportUnavailable("the answer was lost")
        return [
            TicketRefused("not this one", ticket_id=ticket.ticket_id)
            if self.refuses(ticket)
            else next(answers)
            for ticket in tickets
        ]

    def depth(self, queues: Sequence[str]) -> dict[str, int]:
        self.depths += 1
        self._reach()
        return self.inner.depth(queues)

    def _reach(self) -> None:
        if self.away:
            raise TransportUnavailable("no connection")

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **options: Any) -> Any:
            if name not in ("advance", "close"):
                self._reach()
            return attribute(*arguments, **options)

        return call
