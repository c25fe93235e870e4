"""What a lost claim may not write, and how it learns why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.lifecycle import views
from engine.lifecycle.conformance.words import FAILURE, LEASE_MS, WORKER, Bench, Promises, Situation
from engine.lifecycle.lease import Fenced, Lease
from outbox.base.later import Shortfall
from registry.job import LifecycleStatus

_WRITES = (
    "retry_in_place", "heartbeat", "report_progress", "park", "wait", "release", "mark_succeeded",
    "mark_failed", "mark_cancelled",
)  # fmt: skip


class FencePromises(Promises):
    """Zero rows is an answer with a name."""

    @pytest.mark.parametrize("write", _WRITES)
    def test_a_worker_that_was_taken_over_writes_nothing(self, bench: Bench, write: str) -> None:
        """WL-1. A stalls past its lease, B takes over: every write of A is refused, B's job untouched."""
        stalled = bench.a_job(Situation.ENDED)
        bench.claim(stalled.job_id, worker="worker-b")
        before = bench.row(stalled.job_id)

        assert not bench.run(bench.acts()[write], stalled)
        assert bench.row(stalled.job_id) == before

    @pytest.mark.parametrize("write", _WRITES)
    def test_a_worker_whose_job_was_ended_by_another_writes_nothing(
        self, bench: Bench, write: str
    ) -> None:
        """WL-1, WL-8. Final states never change."""
        stalled = bench.a_job(Situation.ENDED)
        winner = bench.claim(stalled.job_id, worker="worker-b")
        bench.run(bench.acts()["mark_succeeded"], winner)
        before = bench.row(stalled.job_id)

        for lease in (stalled, winner):
            assert not bench.run(bench.acts()[write], lease)
        assert bench.row(stalled.job_id) == before

    @pytest.mark.parametrize(
        ("situation", "older", "reason"),
        [
            (Situation.LIVE, 1, Fenced.LOST),
            (Situation.FREE, 1, Fenced.LOST),
            (Situation.PARKED, 0, Fenced.LOST),
            (Situation.ASKED, 0, Fenced.CANCELLED),
            (Situation.ASKED, 1, Fenced.LOST),
            (Situation.SUCCEEDED, 0, Fenced.FINAL),
            (Situation.CANCELLED, 1, Fenced.FINAL),
        ],
    )
    def test_a_refusal_names_its_reason(
        self, bench: Bench, situation: Situation, older: int, reason: Fenced
    ) -> None:
        """Lost, final, cancelled: each asks for something else of the worker."""
        lease = bench.a_job(situation)
        stale = replace(lease, epoch=lease.epoch - older)

        answer = bench.uow.run(
            lambda conn: bench.lifecycle.retry_in_place(
                conn, stale, FAILURE, worker=WORKER, lease_ms=LEASE_MS
            )
        )

        assert answer is reason

    def test_a_missing_job_is_named_too(self, bench: Bench) -> None:
        """The row may have been deleted by an operator."""
        lease = bench.insert()
        bench.run(bench.acts()["withdraw"], lease)

        assert bench.uow.run(lambda conn: bench.lifecycle.fenced(conn, lease)) is Fenced.MISSING

    def test_a_batch_of_endings_tells_a_shortfall(self, bench: Bench) -> None:
        """The caller of a shared transaction rolls back when one of its jobs may not succeed."""
        held, lost, asked = (
            bench.a_job(s) for s in (Situation.LIVE, Situation.FREE, Situation.ASKED)
        )

        done = bench.uow.run(lambda conn: bench.lifecycle.mark_succeeded(conn, [held, lost, asked]))

        assert done == 1
        assert bench.status(held.job_id) is LifecycleStatus.SUCCEEDED
        assert bench.status(lost.job_id) is bench.status(asked.job_id) is LifecycleStatus.RUNNING

    def test_endings_that_share_a_transaction_all_succeed_or_none(self, bench: Bench) -> None:
        held, also, asked = (bench.a_job(s) for s in (Situation.LIVE, Situation.LIVE, Situation.ASKED))
        end = bench.lifecycle.mark_all_succeeded

        with pytest.raises(Shortfall):
            bench.uow.run(lambda conn: end(conn, [held, asked]))
        assert bench.status(held.job_id) is LifecycleStatus.RUNNING

        bench.uow.run(lambda conn: end(conn, [held, also]))
        assert bench.status(held.job_id) is bench.status(also.job_id) is LifecycleStatus.SUCCEEDED

    def test_a_heartbeat_renews_what_is_held_and_nothing_else(self, bench: Bench) -> None:
        """One statement for all; a lost lease is not renewed by its neighbours."""
        held, asked = bench.a_job(Situation.LIVE), bench.a_job(Situation.ASKED)
        lost = bench.a_job(Situation.HANDED_BACK)
        stale = replace(held, epoch=held.epoch + 1)
        untouched = bench.row(lost.job_id)
        leases = [held, asked, lost, stale]

        bench.uow.run(lambda conn: bench.lifecycle.heartbeat(conn, leases, lease_ms=9 * LEASE_MS))
        alive = bench.uow.read(lambda conn: bench.lifecycle.alive(conn, leases))

        assert alive == {held: False, asked: True}
        assert bench.row(lost.job_id) == untouched
        bench.clock.advance(8 * LEASE_MS)
        assert not bench.run(bench.acts()["take_over"], held)

    def test_two_heartbeats_in_one_tick_both_say_still_owner(self, bench: Bench) -> None:
        """DB-1. Rows matched or rows changed: the answer does not depend on it."""
        lease = bench.a_job(Situation.LIVE)

        for _ in range(3):
            assert bench.run(bench.acts()["heartbeat"], lease)

    def test_progress_never_goes_back_within_an_attempt(self, bench: Bench) -> None:
        """X77. Reports may arrive in any order; a new attempt begins at nothing."""
        lease = bench.a_job(Situation.LIVE)

        def report(lease: Lease, percent: int) -> int:
            bench.uow.run(lambda conn: bench.lifecycle.report_progress(conn, lease, percent, None))
            row = bench.row(lease.job_id)
            assert row is not None
            return int(row["progress"])

        assert [report(lease, p) for p in (40, 20, 40, 60)] == [40, 40, 40, 60]
        bench.run(bench.acts()["release"], lease)
        assert report(bench.claim(lease.job_id), 10) == 10

    @pytest.mark.parametrize("meanwhile", ["heartbeat", "mark_succeeded", "mark_failed", "release"])
    @pytest.mark.parametrize("remedy", ["take_over", "end_failed"])
    def test_upkeep_leaves_a_job_alone_that_moved_after_it_was_read(
        self, bench: Bench, remedy: str, meanwhile: str
    ) -> None:
        """WL-3. The write repeats the whole condition: epoch, state, lease ended."""
        lease = bench.a_job(Situation.ENDED)
        bench.run(bench.acts()[meanwhile], lease)
        before = bench.row(lease.job_id)

        assert not bench.run(bench.acts()[remedy], lease)
        assert bench.row(lease.job_id) == before

    @pytest.mark.parametrize("remedy", ["take_over", "end_failed"])
    def test_upkeep_leaves_a_job_alone_that_was_claimed_after_it_was_read(
        self, bench: Bench, remedy: str
    ) -> None:
        """WL-3."""
        lease = bench.a_job(Situation.ENDED)
        bench.claim(lease.job_id, worker="worker-b")
        before = bench.row(lease.job_id)

        assert not bench.run(bench.acts()[remedy], lease)
        assert bench.row(lease.job_id) == before

    def test_a_claim_recognises_the_end_it_wrote_itself(self, bench: Bench) -> None:
        """CI-9. After a COMMIT without an answer, "was it me?" has an answer."""
        lease = bench.a_job(Situation.SUCCEEDED)

        def by(epoch: int, status: LifecycleStatus) -> bool:
            return bench.uow.read(
                lambda conn: bench.lifecycle.ended_by(conn, replace(lease, epoch=epoch), status)
            )

        assert by(lease.epoch, LifecycleStatus.SUCCEEDED)
        assert not by(lease.epoch, LifecycleStatus.FAILED)
        assert not by(lease.epoch - 1, LifecycleStatus.SUCCEEDED)

    @pytest.mark.parametrize("situation", [Situation.PARKED, Situation.HANDED_BACK])
    def test_a_cancel_that_ends_a_job_is_nobody_elses_end(self, bench: Bench, situation: Situation) -> None:
        """The claim before it has not written this end, and must not take it for its own."""
        lease = bench.a_job(situation)
        bench.run(bench.acts()["request_cancel"], lease)

        ended = bench.uow.run(lambda conn: bench.lifecycle.ended_by(conn, lease, LifecycleStatus.CANCELLED))

        assert not ended

    def test_an_end_takes_everything_off_the_row_that_belongs_to_a_living_job(self, bench: Bench) -> None:
        """No lease without running, no outcome without an end, and upkeep never looks again."""
        outcomes = {
            Situation.SUCCEEDED: "ok", Situation.FAILED: "error", Situation.CANCELLED: "cancelled",
        }  # fmt: skip
        for situation, outcome in outcomes.items():
            row = bench.row(bench.a_job(situation).job_id)
            assert row is not None
            gone = ("locked_by", "lock_until", "wait_kind", "upkeep_at")
            assert [row[name] for name in gone] == [None] * 4, situation
            assert row["finished_at"] >= row["created_at"]
            assert row["outcome"] == outcome
        queued = bench.row(bench.insert().job_id)
        assert queued is not None
        assert (queued["outcome"], queued["finished_at"]) == (None, None)

    def test_a_failure_is_written_with_its_texts(self, bench: Bench) -> None:
        """One for users, one for engineers, one code for programs."""
        lease = bench.a_job(Situation.FAILED)

        view = bench.uow.read(lambda conn: views.find(conn, lease.job_id))

        assert view is not None
        assert (view.error_code, view.public_error_message) == (FAILURE.code, FAILURE.public)
        assert view.internal_error_message == FAILURE.internal
