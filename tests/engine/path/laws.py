"""What holds after every step of a walk, whatever was done: read from the rows, not asked of the engine."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle.states import LEGACY, LEGACY_CANCEL_REQUESTED
from outbox.states import EventStatus
from registry.job import FINAL_STATUSES, LifecycleStatus
from tests.support.world import World

Row = dict[str, Any]

_ENDINGS = {
    "succeeded": "ai.job.completed",
    "failed": "ai.job.failed",
    "cancelled": "ai.job.cancelled",
}
_COUNTED = ("first", "retry", "crash")
#: States of an event that are left by nothing.
_SETTLED = (EventStatus.PUBLISHED, EventStatus.OBSOLETE, EventStatus.DISCARDED)


class Rows:
    """The tables at one moment, by job."""

    def __init__(self, world: World) -> None:
        names = ("ai_job", "outbox_event", "ai_job_claim", "ai_job_output", "ai_job_snapshot")
        queries = [sa.select(world.table(name)) for name in names]
        found = world.app.uow.read(
            lambda conn: [conn.execute(query).mappings().all() for query in queries]
        )
        jobs, events, claims, outputs, snapshots = ([dict(row) for row in rows] for rows in found)
        self.jobs: dict[UUID, Row] = {row["id"]: row for row in jobs}
        self.events: dict[UUID, Row] = {row["id"]: row for row in events}
        self.claims = claims
        self.outputs = Counter(row["job_id"] for row in outputs)
        self.snapshots = Counter(row["job_id"] for row in snapshots)

    def events_of(self, job_id: UUID) -> list[Row]:
        return [event for event in self.events.values() if event["aggregate_id"] == job_id]

    def deliveries(self, job_id: UUID) -> list[Row]:
        return [
            event for event in self.events_of(job_id) if event["event_type"] == "ai.job.enqueue"
        ]

    def claims_of(self, job_id: UUID) -> list[Row]:
        return [claim for claim in self.claims if claim["job_id"] == job_id]

    def of_job(self, job_id: UUID) -> tuple[Any, ...]:
        """Everything that is stored about a job."""
        events = sorted((e["id"].hex, e["status"]) for e in self.events_of(job_id))
        return self.jobs[job_id], self.claims_of(job_id), self.outputs[job_id], events


def is_final(row: Row) -> bool:
    return row["lifecycle_status"] in {status.value for status in FINAL_STATUSES}


def check(before: Rows, now: Rows) -> None:
    """Every law, for every job."""
    assert before.jobs.keys() <= now.jobs.keys()
    keys = Counter(
        row["idempotency_digest"] for row in now.jobs.values() if row["idempotency_digest"]
    )
    assert all(count == 1 for count in keys.values()), "a key has two jobs"
    assert {event["aggregate_id"] for event in now.events.values()} <= now.jobs.keys()
    for job_id, row in now.jobs.items():
        _its_row_is_sound(row)
        _it_was_created_whole(row, now)
        _its_end_is_told_once(row, now)
        _its_attempts_are_counted(row, now)
        if job_id in before.jobs:
            _it_only_moved_on(before, now, job_id)
    for event_id, event in before.events.items():
        _event_only_moved_on(event, now.events[event_id])


def _its_row_is_sound(row: Row) -> None:
    status = LifecycleStatus(row["lifecycle_status"])
    held = row["lock_until"] is not None
    assert held == (row["locked_by"] is not None)
    assert not held or status is LifecycleStatus.RUNNING
    assert not (held and row["wait_kind"]), "parked with a lease"
    assert (row["outcome"] is None) == (not is_final(row)) == (row["finished_at"] is None)
    assert (row["upkeep_at"] is None) <= (is_final(row) or status is LifecycleStatus.QUEUED)
    asked = row["cancel_requested_at"] is not None and status is LifecycleStatus.RUNNING
    assert row["status"] == (LEGACY_CANCEL_REQUESTED if asked else LEGACY[status])
    assert status is not LifecycleStatus.QUEUED or row["epoch"] == 0


def _it_was_created_whole(row: Row, now: Rows) -> None:
    assert now.snapshots[row["id"]] == 1
    numbers = sorted(event["delivery_no"] for event in now.deliveries(row["id"]))
    # Every way back wrote its event, and only one.
    assert numbers == list(range(1, row["delivery_no"] + 1))


def _its_end_is_told_once(row: Row, now: Rows) -> None:
    told = [
        e["event_type"] for e in now.events_of(row["id"]) if e["event_type"] != "ai.job.enqueue"
    ]
    assert told == ([_ENDINGS[row["lifecycle_status"]]] if is_final(row) else [])
    assert now.outputs[row["id"]] == (1 if row["lifecycle_status"] == "succeeded" else 0)


def _its_attempts_are_counted(row: Row, now: Rows) -> None:
    claims = now.claims_of(row["id"])
    counted = sum(1 for claim in claims if claim["start_reason"] in _COUNTED)
    assert row["attempt_count"] == counted <= row["max_attempts"]
    assert len({claim["epoch"] for claim in claims}) == len(claims)
    assert max((claim["epoch"] for claim in claims), default=0) <= row["epoch"]
    living = [claim for claim in claims if claim["ended_at"] is None]
    assert [c["epoch"] for c in living] == ([row["epoch"]] if row["lock_until"] is not None else [])


def _it_only_moved_on(before: Rows, now: Rows, job_id: UUID) -> None:
    old, new = before.jobs[job_id], now.jobs[job_id]
    if is_final(old):
        assert new == old | {"idempotency_digest": new["idempotency_digest"]}, (
            "an ended job was changed"
        )
        assert before.outputs[job_id] == now.outputs[job_id]
        assert before.claims_of(job_id) == now.claims_of(job_id)
    elif is_final(new):
        # One that a dispatcher holds at that moment may come back to "pending"; it finds nothing to do.
        waiting = [event["id"] for event in before.deliveries(job_id) if event["status"] in ("pending", "dead")]
        left = [now.events[id_]["status"] for id_ in waiting if id_ in now.events]
        assert not {"pending", "dead"} & set(left), "a delivery waits for a job that has ended"
    for name in ("epoch", "delivery_no", "attempt_count"):
        assert new[name] >= old[name], f"{name} fell"
    assert old["lifecycle_status"] == "queued" or new["lifecycle_status"] != "queued"
    assert old["cancel_requested_at"] in (None, new["cancel_requested_at"]), (
        "a cancel was forgotten"
    )


def _event_only_moved_on(old: Row, new: Row) -> None:
    if old["status"] in _SETTLED:
        assert new["status"] == old["status"], "a settled event came back"
    if new["status"] == EventStatus.PROCESSING:
        assert new["claim_token"] is not None
