"""Cancelling, repeating, reading and waiting: what a caller may ask of a job that exists."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from engine.errors import (
    JobAlreadyCancelledError,
    JobNotCancellableError,
    JobNotFoundError,
    JobNotRetryableError,
    SnapshotGoneError,
    WaitTimeoutError,
)
from engine.intake.commands import JobOverrides
from engine.lifecycle.values import Failure
from registry.definition import JobDefinition
from registry.job import LifecycleStatus, StartReason, WaitKind
from registry.prompt import PromptTemplate
from tests.engine.intake.samples import Anything, Nothing, handler
from tests.support.faults import after_statement
from tests.support.world import World


def fail(world: World, job_id: Any) -> None:
    lease = world.claim(job_id)
    assert world.run(lambda conn: world.app.lifecycle.mark_failed(conn, lease, Failure("PROVIDER_ERROR")))


def succeed(world: World, job_id: Any) -> None:
    lease = world.claim(job_id)
    assert world.run(lambda conn: world.app.lifecycle.mark_succeeded(conn, [lease]))


def park(world: World, lease: Any) -> object:
    return world.run(
        lambda conn: world.app.lifecycle.park(
            conn, lease, WaitKind.RETRY, delay_ms=60_000, reason=StartReason.RETRY, look_after_ms=1_000
        )
    )


class TestCancelling:
    """X34, X35: at once where nobody works, on request where somebody does."""

    def test_a_queued_job_is_cancelled_at_once(self, world: World) -> None:
        """Its delivery becomes obsolete, and the end is announced in the same transaction."""
        job = world.create()

        after = world.app.jobs.request_cancel(job.id)

        assert (after.lifecycle_status, after.outcome) == ("cancelled", "cancelled")
        assert [event.status for event in world.deliveries(job.id)] == ["obsolete"]
        assert [event.event_type for event in world.endings(job.id)] == ["ai.job.cancelled"]
        world.dispatch()
        assert world.depth() == 0

    def test_a_running_job_is_asked_once(self, world: World) -> None:
        lease = world.claimed()

        first = world.app.jobs.request_cancel(lease.job_id)
        again = world.app.jobs.request_cancel(lease.job_id)

        assert first.lifecycle_status is LifecycleStatus.RUNNING
        assert first.cancel_requested_at is not None
        assert again == first
        assert world.endings(lease.job_id) == []

    def test_a_parked_job_is_cancelled_at_once(self, world: World) -> None:
        lease = world.claimed()
        assert park(world, lease) == 2

        after = world.app.jobs.request_cancel(lease.job_id)

        assert (after.lifecycle_status, after.wait_kind) == ("cancelled", None)
        assert len(world.endings(lease.job_id)) == 1

    @pytest.mark.databases("mariadb", "postgresql")
    def test_a_job_that_is_parked_meanwhile_is_cancelled_all_the_same(
        self, world: World, make_world: Callable[..., World], database_kind: str
    ) -> None:
        """WL-8. Between "nobody holds it" and "ask its worker" the worker may let it go."""
        other = make_world()
        lease = world.claimed()
        thread = threading.Thread(target=lambda: park(other, lease))

        def park_meanwhile() -> None:
            thread.start()
            # With the row locked the park comes second, and that is fine too.
            thread.join(0.5)

        with after_statement(world.engine, "cancel_requested_at=coalesce", park_meanwhile):
            after = world.app.jobs.request_cancel(lease.job_id)
        thread.join()

        assert after.cancel_requested_at is not None

    @pytest.mark.parametrize("ending", ["succeeded", "failed"])
    def test_an_ended_job_cannot_be_cancelled(self, shared_world: World, ending: str) -> None:
        job = shared_world.create()
        (succeed if ending == "succeeded" else fail)(shared_world, job.id)

        with pytest.raises(JobNotCancellableError, match=ending):
            shared_world.app.jobs.request_cancel(job.id)
        assert shared_world.job(job.id).lifecycle_status == ending

    def test_a_cancelled_job_says_so(self, shared_world: World) -> None:
        job = shared_world.create()
        shared_world.app.jobs.request_cancel(job.id)

        with pytest.raises(JobAlreadyCancelledError):
            shared_world.app.jobs.request_cancel(job.id)
        assert len(shared_world.endings(job.id)) == 1

    def test_a_type_may_refuse_to_be_cancelled_while_it_runs(self, world: World) -> None:
        world.app.register(
            JobDefinition.simple("firm", input=Anything, output=Nothing, handler=handler, cancellable=False)
        )
        waiting, running = (world.create(job_type="firm", payload={}) for _ in range(2))
        world.claim(running.id)

        with pytest.raises(JobNotCancellableError, match="while they run"):
            world.app.jobs.request_cancel(running.id)
        assert world.app.jobs.request_cancel(waiting.id).lifecycle_status == "cancelled"

    def test_somebody_elses_job_does_not_exist(self, shared_world: World) -> None:
        job = shared_world.create(user_id="owner")

        for who, job_id in (("thief", job.id), (None, uuid4())):
            with pytest.raises(JobNotFoundError):
                shared_world.app.jobs.request_cancel(job_id, user_id=who)
        assert shared_world.app.jobs.request_cancel(job.id, user_id="owner").lifecycle_status == "cancelled"

    def test_a_rolled_back_cancel_did_not_happen(self, world: World) -> None:
        job = world.create()
        with Session(world.engine) as session:
            world.app.jobs.request_cancel(job.id, session=session)
            session.rollback()

        assert world.job(job.id).lifecycle_status == "queued"
        assert [event.status for event in world.deliveries(job.id)] == ["pending"]

    def test_cancelling_needs_no_redis(self, make_world: Callable[..., World]) -> None:
        """X36. The column is the truth; the hint only speeds it up."""
        world = make_world("redis://127.0.0.1:1/0")
        job = world.create()

        assert world.app.jobs.request_cancel(job.id).lifecycle_status == "cancelled"
        assert world.count("cancel.hint_failed") == 1


class TestRepeating:
    """X75: a manual retry is a new job that points back."""

    @pytest.mark.parametrize("how", ["failed", "cancelled"])
    def test_a_retry_is_a_new_job_with_the_same_input(self, world: World, how: str) -> None:
        job = world.create(
            key="k", user_id="u", target_type="t", target_id="x", payload={"value": [1, None, "é"]},
            overrides=JobOverrides(priority=7, output_schema_version="9"),
        )  # fmt: skip
        fail(world, job.id) if how == "failed" else world.app.jobs.request_cancel(job.id)

        again = world.app.jobs.retry_as_new(job.id)

        assert again.created
        assert again.job.retry_of_job_id == job.id
        same = ("user_id", "job_type", "target_type", "target_id", "priority", "output_schema_version")
        assert [getattr(again.job, name) for name in same] == [getattr(job, name) for name in same]
        assert (again.job.idempotency_key, again.job.attempt_count) == (None, 0)
        snapshots = {row["job_id"]: row["content_hash"] for row in world.rows("ai_job_snapshot")}
        assert snapshots[again.job.id] == snapshots[job.id]
        assert world.job(job.id).lifecycle_status == how
        world.settle()
        assert world.output(again.job.id) == {"value": [1, None, "é"]}

    def test_a_retry_keeps_the_prompt_version_while_there_is_one(self, world: World) -> None:
        """What the caller chose stays chosen; what this release does not have any more would only fail again."""
        world.app.prompts.add("synthetic", PromptTemplate("special", "Echo.", "{{value}}"))
        kept, gone = (
            world.create(overrides=JobOverrides(prompt_version=version)) for version in ("special", "withdrawn")
        )
        for job in (kept, gone):
            world.app.jobs.request_cancel(job.id)

        versions = [world.app.jobs.retry_as_new(job.id).job.prompt_version for job in (kept, gone)]

        assert versions == ["special", None]

    def test_only_failed_and_cancelled_jobs_are_repeated(self, shared_world: World) -> None:
        queued, running, done = (shared_world.create() for _ in range(3))
        shared_world.claim(running.id)
        succeed(shared_world, done.id)

        for job in (queued, running, done):
            with pytest.raises(JobNotRetryableError):
                shared_world.app.jobs.retry_as_new(job.id)
        with pytest.raises(JobNotFoundError):
            shared_world.app.jobs.retry_as_new(uuid4())

    def test_without_its_input_a_job_cannot_be_repeated(self, world: World) -> None:
        job = world.create()
        fail(world, job.id)
        world.change("ai_job_snapshot", {"job_id": job.id}, content=None)

        with pytest.raises(SnapshotGoneError):
            world.app.jobs.retry_as_new(job.id)

    def test_a_retry_joins_the_callers_transaction(self, world: World) -> None:
        job = world.create()
        fail(world, job.id)
        with Session(world.engine) as session:
            world.app.jobs.retry_as_new(job.id, session=session)
            session.rollback()

        assert world.counts()["ai_job"] == 1


class TestReading:
    """Polling."""

    def test_a_job_is_only_its_owners(self, shared_world: World) -> None:
        job = shared_world.create(user_id="owner")

        assert shared_world.app.jobs.get(job.id, user_id="owner") == job
        with pytest.raises(JobNotFoundError):
            shared_world.app.jobs.get(job.id, user_id="thief")
        with pytest.raises(JobNotFoundError):
            shared_world.app.jobs.get(uuid4())

    def test_an_output_is_there_when_the_job_has_succeeded(self, world: World) -> None:
        job = world.create(payload={"value": {"a": [1.5, "ü"]}})
        assert world.output(job.id) is None

        world.settle()

        assert world.output(job.id) == {"value": {"a": [1.5, "ü"]}}
        assert world.output(uuid4()) is None

    def test_waiting_ends_with_the_job(self, world: World) -> None:
        job = world.create()
        with world.working():
            world.dispatch()
            assert world.app.jobs.wait(job.id, timeout=timedelta(seconds=20)).lifecycle_status == "succeeded"

    def test_waiting_too_long_leaves_the_job_alone(self, shared_world: World) -> None:
        job = shared_world.create()

        with pytest.raises(WaitTimeoutError, match="queued"):
            shared_world.app.jobs.wait(job.id, timeout=0.02)
        assert shared_world.job(job.id).lifecycle_status == "queued"
