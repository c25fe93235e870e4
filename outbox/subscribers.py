"""Terminal events for subscribers: the same table, the same claim, another receiver than Redis (design 8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from uuid import UUID

from outbox.base.backoff import exponential
from outbox.base.db import UnitOfWork
from outbox.base.telemetry import Telemetry
from outbox.dispatcher import DispatchOptions
from outbox.events import SUBSCRIBER_QUEUE, ClaimedEvent, EventType
from outbox.repository import OutboxRepository

#: Takes one event, at least once; what it raises counts against the event.
Subscriber = Callable[[ClaimedEvent], None]

TERMINAL = (EventType.COMPLETED, EventType.FAILED, EventType.CANCELLED)

#: How long an event waits whose subscriber this process does not know, in ms.
_UNROUTABLE_MS = 30_000


class SubscriberDelivery:
    """Hands events to in-process subscribers, each on its own: one that fails holds up no other."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        outbox: OutboxRepository,
        subscribers: Mapping[str, Subscriber],
        owner: str,
        telemetry: Telemetry,
        options: DispatchOptions | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uow = uow
        self._outbox = outbox
        self._subscribers = subscribers
        self._owner = owner
        self._telemetry = telemetry
        self._options = options or DispatchOptions()
        self._monotonic = monotonic

    def run_once(self) -> bool:
        """Deliver one batch; returns whether another may find something at once."""
        token, events = self._uow.run(
            lambda conn: self._outbox.claim(
                conn, SUBSCRIBER_QUEUE, TERMINAL, limit=self._options.batch, owner=self._owner
            ),
            repeatable=True,
        )
        # Well inside the claim, or others would deliver the rest of the batch a second time (OB-5).
        deadline = self._monotonic() + self._options.claim_ttl_ms / 2000
        for event in events:
            if self._monotonic() > deadline:
                self._give_back(event, token, "OUT_OF_TIME", 0)
            else:
                self._deliver(event, token)
        return len(events) == self._options.batch

    def _deliver(self, event: ClaimedEvent, token: UUID) -> None:
        subscriber = self._subscribers.get(event.subscriber)
        if subscriber is None:
            # Of another release: the event waits for a process that knows it (OB-4).
            self._give_back(event, token, "UNROUTABLE", _UNROUTABLE_MS)
            self._telemetry.emit("outbox.unroutable", job_id=str(event.job_id))
            return
        try:
            subscriber(event)
        except BaseException as error:  # noqa: BLE001 - whatever a subscriber raises counts against its event
            self._refuse(event, token, type(error).__name__)
        else:
            self._uow.run(
                lambda conn: self._outbox.mark_published(conn, [event.id], token), repeatable=True
            )
            self._telemetry.emit("outbox.published", job_id=str(event.job_id))

    def _give_back(self, event: ClaimedEvent, token: UUID, why: str, delay_ms: int) -> None:
        self._uow.run(
            lambda conn: self._outbox.give_back(conn, [event.id], token, why, delay_ms=delay_ms),
            repeatable=True,
        )

    def _refuse(self, event: ClaimedEvent, token: UUID, why: str) -> None:
        limit = self._options
        delay = exponential(event.attempt_count + 1, base_ms=limit.backoff_ms, limit_ms=limit.backoff_limit_ms)
        self._uow.run(
            lambda conn: self._outbox.refuse(
                conn, event.id, token, why, max_attempts=limit.max_attempts, delay_ms=delay
            ),
            repeatable=True,
        )
        self._telemetry.emit("outbox.refused", job_id=str(event.job_id), code=why)
