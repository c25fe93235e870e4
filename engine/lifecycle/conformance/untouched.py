"""Claims without a look: of a job that has just been created, and of no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from engine.lifecycle import views
from engine.lifecycle.candidates import ClaimedJob
from engine.lifecycle.conformance.words import LEASE_MS, WORKER, Bench, Promises, Situation
from engine.lifecycle.lease import Claim, Lease
from engine.lifecycle.models import AI_JOB
from outbox.base.ids import new_id
from outbox.base.later import Shortfall
from registry.job import LifecycleStatus, StartReason


class UntouchedPromises(Promises):
    """What ``claim_untouched`` takes, and what it leaves alone."""

    def test_a_new_job_is_claimed_unseen(self, bench: Bench) -> None:
        job_id = bench.insert().job_id

        told = _take(bench, job_id)

        assert told.claim == Claim(Lease(job_id, 1), 1, StartReason.FIRST)
        assert told.job == bench.uow.read(lambda conn: views.find(conn, job_id))
        assert told.job.locked_by == WORKER
        assert told.snapshot is None

    def test_it_leaves_the_row_and_the_log_of_any_first_claim(self, bench: Bench) -> None:
        """But for its times: who comes later cannot tell the two apart."""
        unseen, seen = bench.insert().job_id, bench.insert().job_id
        _take(bench, unseen)
        bench.claim(seen)

        assert _lasting(bench.row(unseen)) == _lasting(bench.row(seen))
        logs = [bench.uow.read(lambda conn, x=x: views.claims(conn, x)) for x in (unseen, seen)]  # type: ignore[misc]
        assert [[(c.epoch, c.attempt_no, c.start_reason, c.worker) for c in log] for log in logs] == [
            [(1, 1, StartReason.FIRST, WORKER)]
        ] * 2

    @pytest.mark.parametrize(
        "situation", [s for s in Situation if s is not Situation.QUEUED], ids=lambda s: s.name.lower()
    )
    def test_a_job_to_which_something_has_happened_is_left_as_it_is(self, bench: Bench, situation: Situation) -> None:
        lease = bench.a_job(situation)
        before = bench.row(lease.job_id)

        _refused(bench, lease.job_id)

        assert bench.row(lease.job_id) == before

    @pytest.mark.parametrize("what", ["missing", "of another type", "delivered anew"])
    def test_what_is_not_what_the_ticket_says_is_left_as_it_is(self, bench: Bench, what: str) -> None:
        lease = Lease(new_id(), 0) if what == "missing" else bench.insert()
        if what == "delivered anew":
            assert bench.run(bench.acts()["redeliver"], lease)
        before = bench.row(lease.job_id)

        _refused(bench, lease.job_id, job_type="other" if what == "of another type" else "synthetic")

        assert bench.row(lease.job_id) == before

    def test_a_row_that_somebody_holds_is_not_waited_for(self, bench: Bench) -> None:
        """Where a waiter would get an error of another kind, seconds later."""
        job_id = bench.insert().job_id
        if bench.uow.engine.dialect.name == "sqlite":
            pytest.skip("one writer at a time")
        with _held(bench, job_id):
            _refused(bench, job_id)

        assert bench.status(job_id) is LifecycleStatus.QUEUED

    def test_racing_claimers_of_both_kinds_share_no_job(self, bench: Bench) -> None:
        """DB-4."""
        ids = [bench.insert().job_id for _ in range(20)]
        won: list[UUID] = []
        gate, lock = threading.Barrier(6), threading.Lock()

        def race(number: int) -> None:
            gate.wait()
            for job_id in ids:
                try:
                    got = _take(bench, job_id) if number % 2 else bench.try_claim(job_id, delivery_no=1)
                except Shortfall:
                    continue
                if isinstance(got, ClaimedJob | Claim):
                    with lock:
                        won.append(job_id)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(won) == len(set(won))
        left = {job_id for job_id in ids if bench.status(job_id) is LifecycleStatus.QUEUED}
        assert set(won) | left == set(ids)


def _take(bench: Bench, job_id: UUID, *, job_type: str = "synthetic") -> ClaimedJob:
    take: Callable[..., Callable[[], ClaimedJob]] = bench.lifecycle.claim_untouched
    return bench.uow.run(
        lambda conn: take(conn, job_id, job_type=job_type, worker=WORKER, lease_ms=LEASE_MS)
    )()


def _refused(bench: Bench, job_id: UUID, **how: Any) -> None:
    with pytest.raises(Shortfall):
        _take(bench, job_id, **how)


def _lasting(row: dict[str, Any] | None) -> dict[str, Any]:
    assert row is not None
    own = {"id", "idempotency_key", "idempotency_digest"}
    return {name: value for name, value in row.items() if name not in own and not name.endswith("_at")} | {
        # PostgreSQL reads its clock for each of the two.
        "lock_until": round((row["lock_until"] - row["locked_at"]).total_seconds())
    }


@contextmanager
def _held(bench: Bench, job_id: UUID) -> Iterator[None]:
    with bench.uow.engine.begin() as conn:
        conn.execute(sa.select(AI_JOB.c.id).where(AI_JOB.c.id == job_id).with_for_update()).all()
        yield
