"""From a delivery to a claim: what may run runs, everything else is a quiet no-op or comes again."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox.transports.base import Ticket
from tests.support.wait import eventually
from tests.support.world import QUEUE, World


def ticket(job_id: object, *, job_type: str = "synthetic", delivery_no: int = 1) -> Ticket:
    return Ticket(
        job_id=job_id,  # type: ignore[arg-type]
        job_type=job_type, queue_name=QUEUE, delivery_no=delivery_no, deliver_score=1, created_at_ms=1,
    )  # fmt: skip


def test_a_row_that_somebody_holds_for_a_moment_is_claimed_right_after(
    world: World, database_kind: str
) -> None:
    """The dispatcher marks a delivery that a fast worker has already: no deferral may cost half a minute."""
    if database_kind == "sqlite":
        pytest.skip("one writer at a time")
    job = world.create()
    with world.engine.connect() as holder, world.working():
        holder.execute(sa.select(world.table("ai_job").c.id).with_for_update())
        world.transport.put_many([ticket(job.id)])
        eventually(lambda: world.count("delivery.busy"))
        holder.rollback()
        eventually(lambda: world.job(job.id).is_final, timeout=10)

    assert world.job(job.id).lifecycle_status == "succeeded"
