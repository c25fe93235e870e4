"""A transport that can be away, refuse single tickets, forget everything and hear old puts again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from outbox.errors import TicketRefused, TransportUnavailable
from outbox.transports.base import PutResult, SteerableTransport, Ticket
from outbox.transports.memory import MemoryTransport
from outbox.transports.rq import RqTransport

_names = itertools.count(1)


class Wayward:
    """Passes everything on to a real transport, and misbehaves when told to."""

    def __init__(self, make: Callable[[], SteerableTransport]) -> None:
        self._make = make
        self._inner = make()
        self._passed_ms = 0
        #: Every ticket that was put.
        self.put: list[Ticket] = []
        #: Jobs whose tickets are refused as malformed.
        self.refused: set[UUID] = set()
        self.down = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_many(
        self, tickets: Sequence[Ticket], *, if_idle: bool = False
    ) -> list[PutResult | TicketRefused]:
        if self.down:
            raise TransportUnavailable("away", reason="drill")
        good = [ticket for ticket in tickets if ticket.job_id not in self.refused]
        self.put += good
        answers = iter(self._inner.put_many(good, if_idle=if_idle))
        return [
            TicketRefused("malformed", ticket_id=ticket.ticket_id)
            if ticket.job_id in self.refused
            else next(answers)
            for ticket in tickets
        ]

    def advance(self, ms: int) -> None:
        self._passed_ms += ms
        self._inner.advance(ms)

    def lose_everything(self) -> None:
        """As a flushed Redis does."""
        self._inner.close()
        self._inner = self._make()
        self._inner.advance(self._passed_ms)

    def start_again(self) -> None:
        """Forget what a former walk did, too."""
        self.lose_everything()
        self.put.clear()
        self.refused.clear()
        self.down = False

    def tickets(self, queue: str) -> tuple[list[str], list[str]]:
        """The ids of all tickets, and of those that wait in their order."""
        if isinstance(self._inner, MemoryTransport):
            waiting = [place[2] for place in self._inner._queue(queue).waiting]
            return list(self._inner._entries), waiting
        redis = self._inner._broker._commands  # type: ignore[attr-defined]
        jobs = [
            key.decode().rpartition(":")[2]
            for key in redis.scan_iter("rq:job:*")
            if b":cancel:" not in key
        ]
        return jobs, [id_.decode() for id_ in redis.lrange(f"rq:queue:{queue}", 0, -1)]


def wayward_memory() -> Wayward:
    return Wayward(MemoryTransport)


def wayward_rq() -> Wayward:
    """RQ's data model and our scripts on a server in this process."""
    return Wayward(lambda: RqTransport.fake(f"fakeredis://walk-{next(_names)}"))
