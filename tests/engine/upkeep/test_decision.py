"""The remedy for every situation, as a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from engine.lifecycle.views import Overdue
from engine.upkeep.decision import Remedy, remedy

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def overdue(**fields: Any) -> Overdue:
    values: dict[str, Any] = {
        "id": uuid4(), "job_type": "synthetic", "queue_name": "ai-background", "priority": 50,
        "lifecycle_status": "running", "wait_kind": None, "epoch": 1, "attempt_count": 1, "max_attempts": 3,
        "delivery_no": 1, "created_at": NOON, "available_at": NOON, "traceparent": None, "leased": None,
        "cancelling": False,
    }  # fmt: skip
    return Overdue(**(values | fields))


TABLE: list[tuple[dict[str, Any], Remedy]] = [
    ({"leased": True}, Remedy.LEAVE),
    ({"leased": True, "cancelling": True}, Remedy.LEAVE),
    ({"leased": True, "attempt_count": 3}, Remedy.LEAVE),
    ({"leased": False}, Remedy.TAKE_OVER),
    ({"leased": False, "attempt_count": 2}, Remedy.TAKE_OVER),
    ({"leased": False, "attempt_count": 3}, Remedy.END_FAILED),
    ({"leased": False, "attempt_count": 4}, Remedy.END_FAILED),
    ({"leased": False, "cancelling": True}, Remedy.END_CANCELLED),
    ({"leased": False, "cancelling": True, "attempt_count": 3}, Remedy.END_CANCELLED),
    ({"lifecycle_status": "queued", "attempt_count": 0}, Remedy.CHECK_DELIVERY),
    ({}, Remedy.CHECK_DELIVERY),
    *[({"wait_kind": kind}, Remedy.CHECK_DELIVERY) for kind in ("retry", "rate", "delivery")],
    *[({"wait_kind": kind}, Remedy.LEAVE) for kind in ("approval", "tool")],
    *[({"lifecycle_status": final, "leased": leased}, Remedy.LEAVE)
      for final in ("succeeded", "failed", "cancelled") for leased in (None, True, False)],
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), TABLE, ids=lambda v: str(v)[:60])
def test_the_remedy_depends_on_lease_attempts_and_cancel(fields: dict[str, Any], expected: Remedy) -> None:
    """WL-4, WL-5. Only an ended lease makes a job recoverable, only a spent budget ends it."""
    assert remedy(overdue(**fields)) is expected
