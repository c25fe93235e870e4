"""The kit's judgement as a table: each broken promise is seen, and by its own invariant only."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from engine.crashkit.controlled import CONTROLLED
from engine.crashkit.evidence import CallRow, ClaimRow, EventRow, Evidence, Harm, JobFacts
from engine.crashkit.faults import CATALOGUE
from engine.crashkit.invariants import INVARIANTS, Case, judge
from engine.crashkit.options import Job
from outbox.base.points import Point
from tests.architecture.source import project

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=1)

FIRST = ClaimRow(1, "first", "w1", NOON)
SECOND = ClaimRow(2, "crash", "w2", LATER)
ENQUEUED = EventRow("ai.job.enqueue", "published", 1)
COMPLETED = EventRow("ai.job.completed", "published", 0)

GOOD = JobFacts(
    id=UUID(int=1), key="j", job_type="crashkit_call", status="succeeded", error_code=None, attempt_count=1,
    max_attempts=3, epoch=1, held=False, finished_at=LATER, snapshots=1, outputs=1, artifacts=1, effects=(1,),
    events=(ENQUEUED, COMPLETED), claims=(FIRST,), calls=(CallRow("op", "w1"),), intents=("op",),
)  # fmt: skip

#: A worker was lost in the middle of its call, and another one has done the job.
TAKEN_OVER = replace(
    GOOD, epoch=2, attempt_count=2, effects=(2,), claims=(FIRST, SECOND),
    calls=(CallRow("op", "w1"), CallRow("op", "w2")), intents=("op", "op"),
)  # fmt: skip


def judged(job: JobFacts, *, wanted: str = "succeeded", harmed: dict[str, datetime] | None = None, **evidence: Any) -> set[str]:  # noqa: E501
    case = Case(
        {"j": Job(key="j", ends=wanted)}, Evidence((job,), **evidence), Harm(dict(harmed or {}))
    )
    return {breach.invariant for breach in judge(case)}


def test_what_went_right_is_no_breach() -> None:
    assert judged(GOOD) == set()
    assert judged(TAKEN_OVER, harmed={"w1": LATER}) == set()


BROKEN: list[tuple[str, JobFacts, dict[str, Any]]] = [
    ("every_job_ends_right", GOOD, {"wanted": "failed"}),
    ("every_job_ends_right", replace(GOOD, held=True), {}),
    ("created_whole_or_not_at_all", replace(GOOD, snapshots=0), {}),
    ("created_whole_or_not_at_all", GOOD, {"orphans": 1}),
    ("one_effect_for_each_success", replace(GOOD, effects=(1, 1)), {}),
    ("one_effect_for_each_success", replace(GOOD, artifacts=0), {}),
    ("one_effect_for_each_success", replace(GOOD, outputs=2), {}),
    ("the_last_claim_wrote_the_result", replace(TAKEN_OVER, effects=(1,)), {"harmed": {"w1": LATER}}),
    ("one_terminal_event", replace(GOOD, events=(ENQUEUED, COMPLETED, COMPLETED)), {}),
    ("one_terminal_event", replace(GOOD, events=(ENQUEUED,)), {}),
    ("the_outbox_is_settled", replace(GOOD, events=(ENQUEUED._replace(status="processing"), COMPLETED)), {}),
    ("the_outbox_is_settled", replace(GOOD, events=(ENQUEUED._replace(status="dead"), COMPLETED)), {}),
    ("attempts_are_counted_once", replace(GOOD, attempt_count=2), {}),
    ("attempts_are_counted_once", replace(TAKEN_OVER, max_attempts=1), {"harmed": {"w1": LATER}}),
    ("no_call_without_its_intent", replace(GOOD, intents=()), {}),
    ("calls_are_repeated_for_a_reason", TAKEN_OVER, {}),
    # harmed, but before it had claimed the job
    ("calls_are_repeated_for_a_reason", TAKEN_OVER, {"harmed": {"w1": NOON - timedelta(seconds=1)}}),
    ("redis_is_clean", GOOD, {"leftovers": ("crashkit:job:x",)}),
]


@pytest.mark.parametrize(("invariant", "job", "circumstances"), BROKEN)
def test_each_broken_promise_is_seen(invariant: str, job: JobFacts, circumstances: dict[str, Any]) -> None:
    assert judged(job, **circumstances) == {invariant}


def test_missing_job_is_seen() -> None:
    case = Case({"j": Job(key="j")}, Evidence(()))

    assert {breach.invariant for breach in judge(case)} == {"one_job_for_each_key"}


def test_job_that_lost_every_worker_it_may_lose_has_ended_right() -> None:
    lost = replace(
        GOOD, status="failed", error_code="LEASE_LOST", effects=(), artifacts=0, outputs=0, max_attempts=1,
        events=(ENQUEUED, EventRow("ai.job.failed", "published", 0)),
    )  # fmt: skip

    assert judged(lost, harmed={"w1": LATER}) == set()
    assert judged(lost) == {"every_job_ends_right"}


def test_table_breaks_every_invariant() -> None:
    assert {rule.__name__ for rule in INVARIANTS} == {row[0] for row in BROKEN} | {"one_job_for_each_key"}


# -- the catalogue -----------------------------------------------------------------------


def test_every_point_of_the_path_is_killed_at() -> None:
    killed = {fault.name.removeprefix("kill ") for fault in CATALOGUE if fault.name.startswith("kill ")}
    # one fault kills upkeep at both of its points in turn
    together = {Point.UPKEEP_AFTER_READ.value, Point.UPKEEP_AFTER_TAKE_OVER.value}

    assert {point.value for point in Point} - together == killed - {"upkeep.*"}


def test_every_point_is_passed_by_the_code_that_it_names() -> None:
    passed = {
        ast.unparse(node.args[0]).removeprefix("Point.")
        for module in project()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "point"
    }

    assert passed == {point.name for point in Point}


def test_controls_name_invariants() -> None:
    names = {rule.__name__ for rule in INVARIANTS}

    assert {control.breaks for control in CONTROLLED} <= names
