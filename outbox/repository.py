"""Every statement on ``outbox_event``. Methods take the caller's connection and never commit (CI-7).

Each move is one conditional update; what it says about who may make it stands in its WHERE. A dispatcher's
claim carries a token, and everything it does later is fenced by it (X64).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox.base.bulk import RowInsert
from outbox.base.clock import DatabaseClock, epoch_ms, moment, stamp
from outbox.base.ids import HOST_SKEW_MS, id_of_moment, new_id
from outbox.base.keyed import Keyed, one_of, words
from outbox.base.prepared import Prepared
from outbox.base.unindexed import unindexed
from outbox.events import ClaimedDelivery, ClaimedEvent, EventType, NewEvent
from outbox.models import OUTBOX_EVENT
from outbox.scores import Score, score_expression
from outbox.states import EventStatus

#: From the columns of a job's id and a delivery number: whether somebody waits for that delivery.
Awaited = Callable[[sa.ColumnElement[UUID], sa.ColumnElement[int]], sa.ColumnElement[bool]]

_C = OUTBOX_EVENT.c
#: The state as a condition of changes by key; the index on it belongs to the queries.
_STATUS = unindexed(_C.status)
_PENDING, _PUBLISHED = EventStatus.PENDING.value, EventStatus.PUBLISHED.value

_INSERT = RowInsert(
    OUTBOX_EVENT,
    ["id", "event_type", "aggregate_id", "job_type", "queue_name", "subscriber", "priority", "delivery_no",
     "traceparent", "dedupe_digest", "payload", "status"],
    expressions={
        "deliver_score": score_expression(),
        "available_at": sa.func.coalesce(
            sa.bindparam("available_at", type_=_C.available_at.type), stamp("available_us")
        ),
        "created_at": stamp("now_us"),
    },
    constants={"attempt_count": 0},
)  # fmt: skip

_CLAIMED = (
    _C.id, _C.event_type, _C.aggregate_id, _C.job_type, _C.queue_name, _C.priority, _C.delivery_no,
    _C.deliver_score, _C.attempt_count, _C.traceparent, _C.subscriber, _C.payload,
)  # fmt: skip

#: The columns of a ClaimedDelivery in their order; its queue is the one that was asked for.
_DELIVERY = (
    _C.id, _C.aggregate_id, _C.job_type, _C.delivery_no, _C.deliver_score, _C.attempt_count, _C.traceparent,
)  # fmt: skip


def _due(columns: Sequence[sa.ColumnElement[Any]], event_type: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return (
        sa.select(*columns)
        .where(
            _C.status == EventStatus.PENDING,
            _C.queue_name == sa.bindparam("queue"),
            # The score bounds the scan; whether a row is due is said by its time alone.
            _C.deliver_score <= epoch_ms("now_us") + sa.bindparam("reach_ms", type_=sa.BigInteger()),
            _C.available_at <= moment("now_us"),
            event_type,
        )
        .order_by(_C.deliver_score, _C.id)
        .limit(sa.bindparam("limit", type_=sa.Integer()))
        # Only an optimisation: the conditional update below is the guard (DB-4).
        .with_for_update(skip_locked=True)
    )


_DUE = _due(_CLAIMED, _C.event_type.in_(sa.bindparam("event_types", expanding=True)))

_DUE_DELIVERIES = Prepared(_due(_DELIVERY, _C.event_type == EventType.ENQUEUE))

_TAKE = Keyed(
    sa.update(OUTBOX_EVENT)
    .where(one_of(_C.id), _STATUS == EventStatus.PENDING)
    .values(
        status=EventStatus.PROCESSING.value,
        claim_token=sa.bindparam("token", type_=_C.claim_token.type),
        locked_by=sa.bindparam("owner"),
        locked_at=stamp("now_us"),
    )
)

_TAKEN = Keyed(
    sa.select(_C.id).where(
        one_of(_C.id), _C.claim_token == sa.bindparam("token", type_=_C.claim_token.type)
    )
)

_HELD = (
    one_of(_C.id),
    _STATUS == EventStatus.PROCESSING,
    _C.claim_token == sa.bindparam("held_token", type_=_C.claim_token.type),
)

_PUBLISH = Keyed(
    sa.update(OUTBOX_EVENT)
    .where(*_HELD)
    .values(
        status=_PUBLISHED, published_at=stamp("now_us"), claim_token=None, last_error=None
    )
)

_FREED: dict[str, Any] = {"claim_token": None, "locked_by": None, "locked_at": None}

_GIVE_BACK = Keyed(
    sa.update(OUTBOX_EVENT)
    .where(*_HELD)
    .values(
        status=_PENDING, last_error=sa.bindparam("error"),
        available_at=stamp("available_us"), **_FREED,
    )
)  # fmt: skip

_REFUSE = Keyed(
    sa.update(OUTBOX_EVENT)
    .where(*_HELD)
    # In this order: MySQL assigns from left to right, and the state depends on the count before.
    .ordered_values(
        (
            _C.status,
            sa.case(
                (_C.attempt_count + 1 >= sa.bindparam("max_attempts"), EventStatus.DEAD.value),
                else_=_PENDING,
            ),
        ),
        (_C.attempt_count, _C.attempt_count + 1),
        (_C.available_at, stamp("available_us")),
        (_C.last_error, sa.bindparam("error")),
        *((_C[name], value) for name, value in _FREED.items()),
    )
)

_EXPIRED = (
    sa.select(_C.id)
    .where(_C.status == EventStatus.PROCESSING, _C.locked_at < moment("expired_us"))
    # In no order: by id the server might walk the whole table instead of the few rows in this state.
    .limit(sa.bindparam("limit"))
    # A dispatcher that stands still while it marks its batch keeps nobody else's from being released.
    .with_for_update(skip_locked=True)
)

_RELEASE = Keyed(
    sa.update(OUTBOX_EVENT)
    .where(one_of(_C.id), _STATUS == EventStatus.PROCESSING, _C.locked_at < moment("expired_us"))
    .values(status=_PENDING, **_FREED)
)

_OBSOLETE = Keyed(
    sa.update(OUTBOX_EVENT)
    .where(
        one_of(_C.aggregate_id),
        _C.event_type == sa.bindparam("enqueue"),
        _STATUS.in_(words(EventStatus.PENDING, EventStatus.DEAD)),
    )
    .values(status=EventStatus.OBSOLETE.value)
)

#: A delivery: of another event that is dead somebody has to be told, whatever became of its job.
_DEAD_DELIVERIES = sa.select(_C.id).where(_C.status == EventStatus.DEAD, _C.event_type == EventType.ENQUEUE)

_RETIRE = Keyed(
    sa.update(OUTBOX_EVENT).where(one_of(_C.id), _STATUS == EventStatus.DEAD).values(status=EventStatus.OBSOLETE.value)
)

_REVIVE = (
    sa.update(OUTBOX_EVENT)
    .where(_C.id == sa.bindparam("event_id", type_=_C.id.type), _C.status == EventStatus.DEAD)
    .values(
        status=_PENDING, attempt_count=0, available_at=stamp("available_us"), **_FREED
    )
)

_DISCARD = (
    sa.update(OUTBOX_EVENT)
    .where(_C.id == sa.bindparam("event_id", type_=_C.id.type), _C.status == EventStatus.DEAD)
    .values(status=EventStatus.DISCARDED.value, last_error=sa.bindparam("reason"))
)

#: From the oldest id up: ids begin with a host's clock, so this bounds the walk; the database's time decides.
_PRUNABLE = (
    sa.select(_C.id)
    .where(
        _C.id < sa.bindparam("bound", type_=_C.id.type),
        sa.bindparam("status") == _STATUS,
        _C.created_at < moment("before_us"),
        # A dead delivery is waited for by its job; once it is not, it becomes obsolete.
        sa.or_(_STATUS != EventStatus.DEAD, _C.event_type != EventType.ENQUEUE),
    )
    .order_by(_C.id)
    .limit(sa.bindparam("limit"))
)

_PRUNE = Keyed(sa.delete(OUTBOX_EVENT).where(one_of(_C.id), sa.bindparam("status") == _STATUS))


class OutboxRepository:
    """The only writer of ``outbox_event``."""

    def __init__(self, clock: DatabaseClock, *, priority_step_ms: int = 1_000) -> None:
        """``priority_step_ms``: how long a wait is worth one step of priority (design 8)."""
        self._clock = clock
        self._score = Score(priority_step_ms)

    # -------------------------------------------------------------- writing events

    def append(self, conn: sa.Connection, events: Sequence[NewEvent]) -> None:
        """Write ``events`` in the caller's transaction, as many as there are in one statement."""
        if events:
            _INSERT.write(conn, [self._row(event) for event in events], now_us=self._clock.us())

    def _row(self, event: NewEvent) -> dict[str, Any]:
        return {
            "id": event.id,
            "event_type": event.event_type,
            "aggregate_id": event.job_id,
            "job_type": event.job_type,
            "queue_name": event.queue_name,
            "subscriber": event.subscriber,
            "priority": event.priority,
            "delivery_no": event.delivery_no,
            "traceparent": event.traceparent,
            "dedupe_digest": event.dedupe_digest,
            "payload": event.payload,
            "status": _PUBLISHED if event.published else _PENDING,
            "available_at": event.available_at,
            "available_us": self._clock.us(event.delay_ms),
            **self._score.parameters(event),
        }

    # -------------------------------------------------------------- a dispatcher's claim

    def claim(
        self, conn: sa.Connection, queue: str, event_types: Collection[str], *, limit: int, owner: str
    ) -> tuple[UUID, list[ClaimedEvent]]:
        """Claim up to ``limit`` due events of ``queue``, lowest score first; returns the token too.

        Event types that are not named stay pending and block nothing (OB-4).
        """
        rows = conn.execute(_DUE, self._due(queue, limit) | {"event_types": list(event_types)})
        token, found = new_id(), [ClaimedEvent(*row) for row in rows]
        if not found:
            return token, []
        ids = [event.id for event in found]
        taken = _TAKE.execute(conn, ids, token=token, owner=owner, now_us=self._clock.us())
        if taken != len(ids):
            mine = {event_id for [event_id] in _TAKEN.fetch(conn, ids, token=token)}
            found = [event for event in found if event.id in mine]
        return token, found

    def claim_deliveries(
        self, conn: sa.Connection, queue: str, *, limit: int, owner: str
    ) -> tuple[UUID, list[ClaimedDelivery]]:
        """:meth:`claim` for a dispatcher: deliveries of jobs, and only what their tickets need.

        All that was read is taken, or nothing: should a row have changed under its lock, at the latest the
        COMMIT raises a :class:`~outbox.base.later.Shortfall`.
        """
        rows = _DUE_DELIVERIES.fetch(conn, **self._due(queue, limit))
        token, ids = new_id(), [event_id for event_id, *_ in rows]
        if ids:
            _TAKE.write(conn, ids, expect=len(ids), token=token, owner=owner, now_us=self._clock.us())
        return token, [ClaimedDelivery._make((*row, queue)) for row in rows]

    def _due(self, queue: str, limit: int) -> dict[str, Any]:
        return {
            "queue": queue, "limit": limit, "now_us": self._clock.us(), "reach_ms": self._score.reach_ms,
        }  # fmt: skip

    def mark_published(self, conn: sa.Connection, ids: Sequence[UUID], token: UUID) -> int:
        """processing -> published for those of ``ids`` still held under ``token``; returns how many."""
        return _PUBLISH.execute(conn, ids, held_token=token, now_us=self._clock.us()) if ids else 0

    def mark_all_published(self, conn: sa.Connection, ids: Sequence[UUID], token: UUID) -> int:
        """:meth:`mark_published` where all of ``ids`` are still held; so many it returns.

        Where one is not, at the latest the COMMIT raises a :class:`~outbox.base.later.Shortfall`.
        """
        _PUBLISH.write(conn, ids, expect=len(ids), held_token=token, now_us=self._clock.us())
        return len(ids)

    def give_back(
        self, conn: sa.Connection, ids: Sequence[UUID], token: UUID, error: str, *, delay_ms: int = 0
    ) -> int:
        """processing -> pending without using an attempt: the trouble was not the event's (OB-2)."""
        parameters = {"held_token": token, "error": error[:255], "available_us": self._clock.us(delay_ms)}
        return _GIVE_BACK.execute(conn, ids, **parameters) if ids else 0

    def refuse(
        self, conn: sa.Connection, event_id: UUID, token: UUID, error: str, *, max_attempts: int, delay_ms: int
    ) -> int:
        """processing -> pending after ``delay_ms``, or -> dead at the limit: the event itself is to blame."""
        parameters = {"held_token": token, "error": error[:255], "available_us": self._clock.us(delay_ms)}
        return _REFUSE.execute(conn, [event_id], max_attempts=max_attempts, **parameters)

    def release_expired(self, conn: sa.Connection, *, ttl_ms: int, limit: int = 500) -> int:
        """processing -> pending where the claim is older than ``ttl_ms``: its dispatcher died (OB-7).

        Reads ids first and updates by primary key in order, so that it meets no dispatcher crosswise (OB-8).
        """
        parameters = {"expired_us": self._clock.us(-ttl_ms)}
        ids = sorted(conn.execute(_EXPIRED, parameters | {"limit": limit}).scalars())
        return _RELEASE.execute(conn, ids, **parameters) if ids else 0

    # -------------------------------------------------------------- jobs that end, operators, retention

    def mark_obsolete(self, conn: sa.Connection, job_ids: Sequence[UUID], enqueue: str) -> None:
        """pending or dead -> obsolete for the deliveries of jobs that end in this transaction (X38)."""
        if job_ids:
            _OBSOLETE.write(conn, job_ids, enqueue=enqueue)

    def retire(self, conn: sa.Connection, awaited: Awaited, *, limit: int = 500) -> int:
        """dead -> obsolete for deliveries that are not ``awaited``: their jobs ended or came back another way.

        A delivery that is waited for no more never will be again, so the update need not repeat it (OB-3).
        """
        waited_for = awaited(_C.aggregate_id, _C.delivery_no)
        ids = sorted(conn.execute(_DEAD_DELIVERIES.where(sa.not_(waited_for)).limit(limit)).scalars())
        return _RETIRE.execute(conn, ids) if ids else 0

    def revive(self, conn: sa.Connection, event_id: UUID) -> bool:
        """dead -> pending with a fresh budget; False when the event is not dead (OB-3)."""
        parameters = {"event_id": event_id, "available_us": self._clock.us()}
        return conn.execute(_REVIVE, parameters).rowcount == 1

    def discard(self, conn: sa.Connection, event_id: UUID, reason: str) -> bool:
        """dead -> discarded; False when the event is not dead. What becomes of its job is the engine's."""
        return conn.execute(_DISCARD, {"event_id": event_id, "reason": reason[:255]}).rowcount == 1

    def prune(self, conn: sa.Connection, status: EventStatus, *, older_ms: int, limit: int = 500) -> int:
        """Delete up to ``limit`` events of ``status`` created more than ``older_ms`` ago (OB-11).

        For a ``status`` that is settled, or dead: then all but deliveries, which go with their jobs' ends.
        """
        oldest_kept = self._clock.read(conn).timestamp() * 1000 - older_ms
        parameters = {
            "status": status.value, "before_us": self._clock.us(-older_ms), "limit": limit,
            "bound": id_of_moment(round(oldest_kept) + HOST_SKEW_MS),
        }  # fmt: skip
        ids = list(conn.execute(_PRUNABLE, parameters).scalars())
        return _PRUNE.execute(conn, ids, status=status.value) if ids else 0
