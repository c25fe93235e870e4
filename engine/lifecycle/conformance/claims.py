"""Who may claim, what counts as an attempt, and how epochs and delivery numbers grow."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa

from engine.lifecycle import views
from engine.lifecycle.candidates import ClaimedJob
from engine.lifecycle.conformance.words import (
    ANY_DELIVERY,
    FAILURE,
    LEASE_MS,
    LOOK_MS,
    WORKER,
    Bench,
    Promises,
    Situation,
    new_job,
)
from engine.lifecycle.lease import Claim, Fenced, Lease, Refusal
from outbox.base.later import Shortfall
from registry.job import LifecycleStatus, StartReason, WaitKind

_REFUSALS = {
    Situation.DELAYED: Refusal.NOT_DUE,
    Situation.LIVE: Refusal.LEASED,
    Situation.ASKED: Refusal.LEASED,
    Situation.PARKED: Refusal.NOT_DUE,
    Situation.WAITING: Refusal.WAITING,
    Situation.SUCCEEDED: Refusal.FINAL,
    Situation.FAILED: Refusal.FINAL,
    Situation.CANCELLED: Refusal.FINAL,
}

#: situation -> why the claim starts, and whether that uses an attempt.
_REASONS = {
    Situation.QUEUED: (StartReason.FIRST, 1),
    Situation.ENDED: (StartReason.CRASH, 2),
    Situation.FREE: (StartReason.CRASH, 2),
    Situation.HANDED_BACK: (StartReason.RESUME, 1),
    Situation.PARKED_DUE: (StartReason.RETRY, 2),
}


class ClaimPromises(Promises):
    """Claims, attempts, epochs, delivery numbers."""

    def test_a_claim_is_a_lease_by_the_databases_clock(self, bench: Bench) -> None:
        """WL-7. The lease ends one lease time after the claim, on the one clock."""
        job_id = bench.insert().job_id
        before = bench.uow.read(bench.clock.read)

        claim = bench.try_claim(job_id, worker="worker-b")

        after = bench.uow.read(bench.clock.read)
        assert claim == Claim(Lease(job_id, 1), 1, StartReason.FIRST)
        row = bench.row(job_id)
        assert row is not None
        lease = timedelta(milliseconds=LEASE_MS)
        slack = timedelta(milliseconds=2)
        assert before + lease - slack <= row["lock_until"] <= after + lease + slack
        assert row["locked_by"] == "worker-b"
        assert (row["lifecycle_status"], row["epoch"], row["attempt_count"]) == ("running", 1, 1)

    @pytest.mark.parametrize("situation", [Situation.QUEUED, Situation.PARKED_DUE], ids=lambda s: s.name.lower())
    def test_what_a_claim_tells_is_what_is_stored(self, bench: Bench, situation: Situation) -> None:
        """The worker is not told by a second look, so the first one and the move have to agree on everything."""
        job_id = bench.a_job(situation).job_id

        def claim(conn: sa.Connection) -> ClaimedJob | Refusal:
            answers = bench.lifecycle.claim(conn, {job_id: ANY_DELIVERY}, worker=WORKER, lease_ms=LEASE_MS)
            return answers[job_id]

        told = bench.uow.run(claim)

        assert isinstance(told, ClaimedJob)
        assert told.job == bench.uow.read(lambda conn: views.find(conn, job_id))

    @pytest.mark.parametrize("part", [1.0, 0.9, 0.5], ids=lambda part: f"{part:.0%}")
    def test_a_claimer_that_stood_still_gets_no_lease_that_is_old(self, bench: Bench, part: float) -> None:
        """WL-7. Between its look and its move a process may be frozen, with the rows locked."""
        stood_ms = LEASE_MS * part
        job_id = bench.insert().job_id

        def claim(conn: sa.Connection) -> object:
            sa.event.listen(conn, "after_cursor_execute", lambda *_: bench.clock.advance(stood_ms), once=True)
            return bench.lifecycle.claim(conn, {job_id: 1}, worker=WORKER, lease_ms=LEASE_MS)

        with pytest.raises(Shortfall):
            bench.uow.run(claim)

        assert bench.status(job_id) is LifecycleStatus.QUEUED

    @pytest.mark.parametrize("situation", _REFUSALS, ids=lambda s: s.name.lower())
    def test_a_refused_claim_says_why(self, bench: Bench, situation: Situation) -> None:
        """WL-9. None of these is an error."""
        lease = bench.a_job(situation)

        assert bench.try_claim(lease.job_id) is _REFUSALS[situation]

    @pytest.mark.parametrize("situation", _REASONS, ids=lambda s: s.name.lower())
    def test_only_first_starts_retries_and_crashes_use_attempts(
        self, bench: Bench, situation: Situation
    ) -> None:
        """Ground rule 10: attempts are counted at the claim, by its reason."""
        lease = bench.a_job(situation)

        claim = bench.try_claim(lease.job_id)

        reason, attempt = _REASONS[situation]
        assert claim == Claim(Lease(lease.job_id, lease.epoch + 1), attempt, reason)
        row = bench.row(lease.job_id)
        assert row is not None
        assert row["attempt_count"] == attempt

    def test_a_rate_limit_uses_no_attempt(self, bench: Bench) -> None:
        """WL-12. Rate limiting has no part in the budget."""
        lease = bench.a_job(Situation.LIVE)
        park = bench.lifecycle.park
        bench.uow.run(lambda conn: park(
            conn, lease, WaitKind.RATE, delay_ms=0, reason=StartReason.RATE, look_after_ms=LOOK_MS
        ))  # fmt: skip

        claim = bench.try_claim(lease.job_id)

        assert claim == Claim(Lease(lease.job_id, 2), 1, StartReason.RATE)

    def test_a_crash_beyond_the_last_attempt_is_not_started(self, bench: Bench) -> None:
        """Upkeep ends such a job; a worker must not run it once more."""
        lease = bench.claim(bench.insert(max_attempts=1).job_id)
        bench.clock.advance(LEASE_MS + 1)

        assert bench.try_claim(lease.job_id) is Refusal.EXHAUSTED
        assert bench.status(lease.job_id) is LifecycleStatus.RUNNING

    def test_a_job_is_parked_for_no_attempt_that_it_has_not_got(self, bench: Bench) -> None:
        """It would be brought back and refused for ever; a wait that uses none is for every job."""
        lease = bench.claim(bench.insert(max_attempts=1).job_id)
        before = bench.row(lease.job_id)

        def park(kind: WaitKind, reason: StartReason) -> int | Fenced:
            it = bench.lifecycle
            return bench.uow.run(
                lambda conn: it.park(conn, lease, kind, delay_ms=0, reason=reason, look_after_ms=LOOK_MS)
            )

        assert isinstance(park(WaitKind.RETRY, StartReason.RETRY), Fenced)
        assert bench.row(lease.job_id) == before
        assert park(WaitKind.RATE, StartReason.RATE) == 2

    def test_a_hand_back_of_the_last_attempt_goes_on(self, bench: Bench) -> None:
        """WL-17. Handing back uses no attempt, not even when there is none left."""
        lease = bench.claim(bench.insert(max_attempts=1).job_id)
        bench.uow.run(lambda conn: bench.lifecycle.release(conn, lease, look_after_ms=LOOK_MS))

        claim = bench.try_claim(lease.job_id)

        assert claim == Claim(Lease(lease.job_id, 2), 1, StartReason.RESUME)

    def test_the_start_after_a_silent_end_of_a_resumed_claim_counts(self, bench: Bench) -> None:
        """What a claim was for says nothing about how it ended."""
        lease = bench.a_job(Situation.HANDED_BACK)
        bench.claim(lease.job_id)
        bench.clock.advance(LEASE_MS + 1)

        claim = bench.try_claim(lease.job_id)

        assert claim == Claim(Lease(lease.job_id, 3), 2, StartReason.CRASH)

    def test_an_old_delivery_claims_nothing(self, bench: Bench) -> None:
        """OB-7. A delivery that a newer one has replaced is a no-op; the newest works."""
        lease = bench.a_job(Situation.FREE)

        assert bench.try_claim(lease.job_id, delivery_no=1) is Refusal.STALE
        assert isinstance(bench.try_claim(lease.job_id, delivery_no=2), Claim)

    def test_a_batch_is_answered_job_by_job(self, bench: Bench) -> None:
        """One statement claims what may run; the rest is refused by name."""
        leases = {s: bench.a_job(s) for s in (Situation.QUEUED, Situation.LIVE, Situation.SUCCEEDED)}
        free = bench.a_job(Situation.HANDED_BACK)
        missing = new_job().id
        wanted = {lease.job_id: 9 for lease in [*leases.values(), free]} | {missing: 1}

        answers = bench.uow.run(
            lambda conn: bench.lifecycle.claim(conn, wanted, worker=WORKER, lease_ms=LEASE_MS)
        )

        assert isinstance(answers[leases[Situation.QUEUED].job_id], ClaimedJob)
        assert isinstance(answers[free.job_id], ClaimedJob)
        assert answers[leases[Situation.LIVE].job_id] is Refusal.LEASED
        assert answers[leases[Situation.SUCCEEDED].job_id] is Refusal.FINAL
        assert answers[missing] is Refusal.MISSING
        assert len(answers) == 5

    def test_every_way_back_raises_the_delivery_number_once(self, bench: Bench) -> None:
        """OB-10. Each way back writes a delivery of its own."""
        numbers = []
        lease = bench.a_job(Situation.LIVE)
        numbers.append(bench.run(bench.acts()["release"], lease))
        lease = bench.claim(lease.job_id)
        numbers.append(bench.run(bench.acts()["park"], lease))
        bench.clock.advance(LEASE_MS + 1)
        lease = bench.claim(lease.job_id)
        bench.clock.advance(LEASE_MS + 1)
        numbers.append(bench.run(bench.acts()["take_over"], lease))
        numbers.append(bench.run(bench.acts()["redeliver"], lease))

        assert numbers == [2, 3, 4, 5]
        row = bench.row(lease.job_id)
        assert row is not None
        assert row["delivery_no"] == 5

    def test_a_redelivery_is_written_once_however_many_ask(self, bench: Bench) -> None:
        """OB-9. Two upkeeps that saw the same job deliver it once."""
        lease = bench.a_job(Situation.QUEUED)
        redeliver = bench.lifecycle.redeliver

        def ask(conn: sa.Connection) -> int | None:
            return redeliver(conn, lease.job_id, 1, look_after_ms=LOOK_MS)

        assert bench.uow.run(ask) == 2
        assert bench.uow.run(ask) is None

    def test_claims_are_recorded_with_their_end(self, bench: Bench) -> None:
        """Every start leaves a row: its reason, its number, how it ended, what the next may be told."""
        lease = bench.a_job(Situation.LIVE)
        again = bench.uow.run(
            lambda conn: bench.lifecycle.retry_in_place(
                conn, lease, FAILURE, worker=WORKER, lease_ms=LEASE_MS
            )
        )
        assert again == Claim(Lease(lease.job_id, 2), 2, StartReason.RETRY)
        bench.clock.advance(LEASE_MS + 1)
        last = bench.claim(lease.job_id)
        bench.run(bench.acts()["mark_succeeded"], last)

        claims = bench.uow.read(lambda conn: views.claims(conn, lease.job_id))
        assert [(c.epoch, c.attempt_no, c.start_reason, c.error_code) for c in claims] == [
            (1, 1, "first", "PROVIDER_ERROR"),
            (2, 2, "retry", "LEASE_LOST"),
            (3, 3, "crash", None),
        ]
        assert all(c.ended_at is not None for c in claims)
        assert claims[0].errors == '["say it in French"]'

    def test_a_retry_in_place_needs_an_attempt_that_is_left(self, bench: Bench) -> None:
        """The budget stands in the statement, whatever the worker believes."""
        lease = bench.claim(bench.insert(max_attempts=1).job_id)

        assert not bench.run(bench.acts()["retry_in_place"], lease)

    def test_a_doomed_job_is_claimed_without_an_attempt(self, bench: Bench) -> None:
        """X03. It is claimed only to be failed in the same transaction."""
        lease = bench.a_job(Situation.WAITING)

        doomed = bench.uow.run(lambda conn: bench.lifecycle.claim_doomed(conn, lease.job_id, WORKER))

        row = bench.row(lease.job_id)
        assert row is not None
        assert doomed == Lease(lease.job_id, lease.epoch + 1)
        assert (row["attempt_count"], row["wait_kind"]) == (1, None)
        assert bench.run(bench.acts()["mark_failed"], doomed)

    def test_what_a_worker_holds_is_known_to_the_database(self, bench: Bench) -> None:
        """CI-9. After a claim whose COMMIT was not answered the worker asks what it holds."""
        mine, lost = bench.a_job(Situation.LIVE), bench.a_job(Situation.FREE)
        other = bench.claim(bench.insert().job_id, worker="worker-b")

        held = bench.uow.read(lambda conn: bench.lifecycle.held(conn, [mine, lost, other], WORKER))

        assert held == {mine}

    def test_racing_claimers_share_no_job(self, bench: Bench) -> None:
        """DB-4. The conditional update decides, with or without SKIP LOCKED."""
        jobs = [new_job() for _ in range(40)]
        bench.uow.run(lambda conn: bench.lifecycle.insert(conn, jobs))
        won: list[UUID] = []
        gate, lock = threading.Barrier(8), threading.Lock()

        def race(worker: str) -> None:
            gate.wait()
            for start in range(0, 40, 10):
                batch = {job.id: 1 for job in jobs[start : start + 10]}
                answers = bench.uow.run(
                    lambda conn, batch=batch: bench.lifecycle.claim(  # type: ignore[misc]
                        conn, batch, worker=worker, lease_ms=LEASE_MS
                    )
                )
                with lock:
                    won.extend(job for job, answer in answers.items() if isinstance(answer, ClaimedJob))

        threads = [threading.Thread(target=race, args=(f"worker-{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(won) == sorted(job.id for job in jobs)
