"""What waits in the outbox, by queue: for operators and metrics. Two small reads along the dispatcher's index."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from outbox.models import OUTBOX_EVENT
from outbox.states import EventStatus

_C = OUTBOX_EVENT.c

_WAITING = (
    sa.select(_C.queue_name, sa.func.count(), sa.func.min(_C.available_at))
    .where(_C.status == EventStatus.PENDING.value)
    .group_by(_C.queue_name)
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Events of one queue that have not been handed on; ``since`` is when the first became, or becomes, due."""

    count: int
    since: datetime


def waiting(conn: sa.Connection) -> dict[str, Waiting]:
    """Pending events by queue; queues without any are left out."""
    return {name: Waiting(count, since) for name, count, since in conn.execute(_WAITING)}
