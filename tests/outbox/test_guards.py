"""What is read first and written afterwards: the write repeats the condition, whatever came in between.

Row locks keep rivals out on most ways; a server that drops them without a word (DB-4), a new statement or another
isolation must not turn a settled event back. So here the rival works inside the very transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from outbox.base.later import Shortfall
from outbox.events import EventType, NewEvent
from outbox.states import EventStatus
from tests.support.faults import after_statement
from tests.support.world import World

Act = Callable[[World, sa.Connection, NewEvent], object]

#: act -> the state it looks for, and the state the event has been moved to when it writes
ACTS: dict[str, tuple[EventStatus, EventStatus, Act]] = {
    "claim": (
        EventStatus.PENDING, EventStatus.OBSOLETE,
        lambda w, c, e: w.app.outbox.claim(c, e.queue_name, [EventType.ENQUEUE], limit=9, owner="late")[1],
    ),
    "release": (
        EventStatus.PROCESSING, EventStatus.PUBLISHED,
        lambda w, c, _: w.app.outbox.release_expired(c, ttl_ms=-1_000),
    ),
    "prune": (
        EventStatus.DISCARDED, EventStatus.PENDING,
        lambda w, c, _: w.app.outbox.prune(c, EventStatus.DISCARDED, older_ms=-1_000),
    ),
    "retire": (
        EventStatus.DEAD, EventStatus.PENDING,
        lambda w, c, _: w.app.outbox.retire(c, lambda _job, _number: sa.false()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTS)
def test_event_that_moves_between_the_read_and_the_write_is_left_alone(shared_world: World, name: str) -> None:
    """OB-8, DB-4."""
    world = shared_world
    looked_for, moved_to, act = ACTS[name]
    event = NewEvent(EventType.ENQUEUE, uuid4(), "synthetic", f"guard-{name}", 50, 1)
    world.run(lambda conn: world.app.outbox.append(conn, [event]))
    world.change("outbox_event", {"id": event.id}, status=looked_for.value, **_held(world, looked_for))
    table = world.table("outbox_event")
    move = sa.update(table).where(table.c.id == event.id).values(status=moved_to.value)

    def unit(conn: sa.Connection) -> object:
        with after_statement(world.engine, "FROM outbox_event", lambda: conn.execute(move)):
            return act(world, conn, event)

    assert not world.run(unit)

    [row] = world.rows("outbox_event", id=event.id)
    assert row["status"] == moved_to


def test_a_delivery_that_moves_under_its_lock_is_not_claimed_and_neither_is_its_batch(shared_world: World) -> None:
    """DB-4. The dispatcher's claim takes what it has read, or nothing; the next round looks again."""
    world = shared_world
    queue = "guard-deliveries"
    moved, other = (NewEvent(EventType.ENQUEUE, uuid4(), "synthetic", queue, 50, 1) for _ in range(2))
    world.run(lambda conn: world.app.outbox.append(conn, [moved, other]))
    table = world.table("outbox_event")
    move = sa.update(table).where(table.c.id == moved.id).values(status="obsolete")

    def unit(conn: sa.Connection) -> object:
        with after_statement(world.engine, "FROM outbox_event", lambda: conn.execute(move)):
            return world.app.outbox.claim_deliveries(conn, queue, limit=9, owner="late")

    with pytest.raises(Shortfall):
        world.run(unit)

    assert {row["status"] for row in world.rows("outbox_event", queue_name=queue)} == {"pending"}


def _held(world: World, status: EventStatus) -> dict[str, Any]:
    if status is not EventStatus.PROCESSING:
        return {}
    return {"claim_token": uuid4(), "locked_by": "gone", "locked_at": world.app.uow.read(world.app.clock.read)}
