"""THE ONLY WRITER OF STATUS: one method per move, one conditional statement per method.

Every method takes the caller's connection and never commits. What a claim writes later is fenced by its
:class:`Lease`: id, epoch and ``running`` stand in the WHERE, and zero rows has a named meaning (design 2, 6).
Locks are taken in one order: job, then claim, then output; the outbox comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from engine.lifecycle import candidates
from engine.lifecycle import statements as sql
from engine.lifecycle.births import Birth, birth, born
from engine.lifecycle.candidates import ClaimedJob
from engine.lifecycle.claim_log import ClaimLog
from engine.lifecycle.claims import decide_claim
from engine.lifecycle.lease import Claim, Fenced, Lease, Refusal, by_epoch
from engine.lifecycle.values import Failure, NewJob
from outbox.base.clock import DatabaseClock
from registry.job import LifecycleStatus, StartReason, WaitKind

#: How a claim ended that fell silent.
_LEASE_LOST = Failure("LEASE_LOST")


class AiJobLifecycleRepository:
    """Moves jobs through their life. See ``states.MOVES`` for which method makes which move."""

    def __init__(self, clock: DatabaseClock) -> None:
        self._clock = clock
        self._claims = ClaimLog(clock)

    # -------------------------------------------------------------- creating

    def insert(self, conn: sa.Connection, jobs: Sequence[NewJob]) -> list[Birth]:
        """-> queued; returns the rows that are there now under the ids of ``jobs``.

        A row whose idempotency digest exists already is left out without an error (CI-1).
        """
        rows = [job.row() for job in jobs]
        if sql.INSERT_JOB.returns(conn):
            return born(jobs, sql.INSERT_JOB.fetch(conn, rows, now_us=self._clock.us()))
        sql.INSERT_JOB.execute(conn, rows, now_us=self._clock.us())
        return self.births(conn, [job.id for job in jobs])

    def insert_unkeyed(self, conn: sa.Connection, jobs: Sequence[NewJob]) -> Callable[[], list[Birth]]:
        """:meth:`insert` of jobs that no key keeps out; what it returns gives the rows, after COMMIT at the latest."""
        if not sql.INSERT_JOB.returns(conn):
            births = self.insert(conn, jobs)
            return lambda: births
        found = sql.INSERT_JOB.fetch_later(conn, [job.row() for job in jobs], now_us=self._clock.us())
        return lambda: born(jobs, found())

    def births(self, conn: sa.Connection, job_ids: Sequence[UUID]) -> list[Birth]:
        """What the database stamped on those of ``job_ids`` that exist."""
        return [birth(row) for row in conn.execute(sql.BIRTHS, {"ids": list(job_ids)})] if job_ids else []

    def holders(
        self, conn: sa.Connection, digests: Sequence[bytes], *, locking: bool = False
    ) -> dict[bytes, Birth]:
        """Which job holds each of ``digests``; a locking read sees a rival's commit everywhere (CI-1)."""
        query = sql.HOLDERS_LOCKED if locking else sql.HOLDERS
        rows = [birth(row) for row in conn.execute(query, {"digests": list(digests)})]
        return {row.idempotency_digest: row for row in rows if row.idempotency_digest is not None}

    def withdraw(self, conn: sa.Connection, job_ids: Sequence[UUID]) -> None:
        """Take back rows inserted in this very transaction, whose snapshot and event were not."""
        if job_ids:
            conn.execute(sql.WITHDRAW, {"ids": list(job_ids)})

    def give_up_key(self, conn: sa.Connection, job_id: UUID) -> bool:
        """A failed job lets go of its key, so that a new job may take it (``on_failed="new"``, X48)."""
        return conn.execute(sql.GIVE_UP_KEY, {"job_id": job_id}).rowcount == 1

    # -------------------------------------------------------------- claiming

    def claim(
        self, conn: sa.Connection, deliveries: Mapping[UUID, int], *, worker: str, lease_ms: int
    ) -> dict[UUID, ClaimedJob | Refusal]:
        """queued, or running without a live lease -> running under a new epoch, for each job that may.

        ``deliveries`` maps job ids to the delivery number at hand. Answers for every id, with the inputs. The rows
        are read under their locks, decided by :func:`decide_claim`, and written by one update that repeats the
        whole condition; were it ever to disagree, at the latest the COMMIT raises a
        :class:`~outbox.base.later.Shortfall`, and so it does where half of the lease is over by then.
        """
        found = candidates.lock(conn, list(deliveries), self._clock)
        answers: dict[UUID, ClaimedJob | Refusal] = dict.fromkeys(deliveries, Refusal.MISSING)
        at, lease = max((row.now for row in found), default=None), timedelta(milliseconds=lease_ms)
        abandoned = []
        for row in found:
            job = row.candidate
            decision = decide_claim(job, delivery_no=deliveries[job.id])
            if isinstance(decision, Refusal):
                answers[job.id] = decision
                continue
            assert at is not None
            answers[job.id] = candidates.claimed(row, job.claimed(decision), worker, at, lease)
            if job.leased is False:
                abandoned.append(Lease(job.id, job.epoch))
        answers |= candidates.held_up(conn, [job_id for job_id, answer in answers.items() if answer is Refusal.MISSING])
        claims = [answer.claim for answer in answers.values() if isinstance(answer, ClaimedJob)]
        if at is not None and claims:
            self._claims.end(conn, abandoned, _LEASE_LOST)
            self._take(conn, claims, worker, at, lease)
        return answers

    def claim_untouched(
        self, conn: sa.Connection, job_id: UUID, *, job_type: str, worker: str, lease_ms: int
    ) -> Callable[[], ClaimedJob]:
        """Claim a job of ``job_type`` for its first delivery, taking for granted that nothing has happened to it.

        On MariaDB it is one trip with COMMIT, after which what is returned gives the job. Where something has
        happened, or somebody holds the row at this moment, at the latest COMMIT raises a
        :class:`~outbox.base.later.Shortfall`, and :meth:`claim` tells what it is.
        """
        claim = Claim(Lease(job_id, 1), 1, StartReason.FIRST)
        sql.FREE.fetch_later(conn, [job_id], expect=1)
        times = self._times(lease_ms)
        sql.TAKE_UNTOUCHED.write(conn, [job_id], expect=1, known_type=job_type, worker=worker, **times)
        self._claims.begin(conn, [claim], worker)
        return candidates.taken(conn, claim, worker, self._clock)

    def _take(self, conn: sa.Connection, claims: list[Claim], worker: str, at: datetime, lease: timedelta) -> None:
        # A lease is at least three heartbeats long, so half of it is enough to be renewed in.
        times = {"at": at, "lease_ends": at + lease, "latest": at + lease / 2, "now_us": self._clock.us()}
        for counted in (0, 1):
            group = [c for c in claims if c.start_reason.counts_as_attempt == bool(counted)]
            if not group:
                continue
            before = by_epoch([Lease(c.lease.job_id, c.lease.epoch - 1) for c in group])
            # The rows were read under their locks, so any other count is a defect of ours: it undoes all of this.
            sql.TAKE.write(conn, before, expect=len(group), worker=worker, counted=counted, **times)
        self._claims.begin(conn, claims, worker)

    def held(self, conn: sa.Connection, leases: Sequence[Lease], worker: str) -> set[Lease]:
        """Those of ``leases`` that ``worker`` holds: after a claim whose COMMIT was not answered (CI-9)."""
        return {Lease(*row) for row in sql.HELD.fetch(conn, by_epoch(leases), worker=worker)} if leases else set()

    def retry_in_place(
        self, conn: sa.Connection, lease: Lease, failure: Failure, *, worker: str, lease_ms: int, waited_ms: int = 0
    ) -> Claim | Fenced:
        """running -> running: the next attempt here is a new claim; the one before it ended ``waited_ms`` ago."""
        row = conn.execute(sql.ATTEMPTS, {"job_id": lease.job_id}).first()
        parameters = self._times(lease_ms) | {"job_id": lease.job_id, "held_epoch": lease.epoch}
        if row is None or conn.execute(sql.RETRY_IN_PLACE, parameters).rowcount != 1:
            return self.fenced(conn, lease)
        self._claims.end(conn, [lease], failure, ago_ms=waited_ms)
        claim = Claim(Lease(lease.job_id, lease.epoch + 1), row.attempt_count + 1, StartReason.RETRY)
        self._claims.begin(conn, [claim], worker)
        return claim

    # -------------------------------------------------------------- while it runs

    def heartbeat(self, conn: sa.Connection, leases: Sequence[Lease], *, lease_ms: int) -> None:
        """Renew ``leases`` in one statement; :meth:`alive` tells which of them were still ours."""
        if leases:
            sql.HEARTBEAT.execute(conn, by_epoch(leases), **self._times(lease_ms))

    def alive(
        self, conn: sa.Connection, leases: Sequence[Lease], *, locking: bool = False
    ) -> dict[Lease, bool]:
        """Those of ``leases`` that still hold, and whether a cancel was requested; the others are lost.

        ``locking`` keeps them from being lost until the caller's transaction ends: the fence of writes to
        other tables.
        """
        if not leases:
            return {}
        rows = (sql.ALIVE_LOCKED if locking else sql.ALIVE).fetch(conn, by_epoch(leases))
        return {Lease(job_id, epoch): asked is not None for job_id, epoch, asked in rows}

    def report_progress(self, conn: sa.Connection, lease: Lease, percent: int, note: str | None) -> bool:
        """Write progress; it never goes back within an attempt. False when the claim is lost (X77)."""
        parameters = {"job_id": lease.job_id, "held_epoch": lease.epoch, "percent": percent, "note": note}
        return conn.execute(sql.PROGRESS, parameters).rowcount == 1

    def park(
        self, conn: sa.Connection, lease: Lease, kind: WaitKind, *, delay_ms: int, reason: StartReason,
        failure: Failure | None = None, look_after_ms: int,
    ) -> int | Fenced:  # fmt: skip
        """running -> running, parked without lease or slot; returns the delivery number that will wake it.

        The caller writes the event with that number in the same transaction (for a timed wait). Refused where
        no attempt is left for ``reason``.
        """
        parameters = {
            "job_id": lease.job_id, "held_epoch": lease.epoch, "kind": kind.value, "reason": reason.value,
            "counted": int(reason.counts_as_attempt), "available_us": self._clock.us(delay_ms),
            "look_us": self._clock.us(delay_ms + look_after_ms),
        }  # fmt: skip
        if conn.execute(sql.PARK, parameters).rowcount != 1:
            return self.fenced(conn, lease)
        self._claims.end(conn, [lease], failure)
        return self._delivery_no(conn, lease.job_id)

    def release(self, conn: sa.Connection, lease: Lease, *, look_after_ms: int) -> int | Fenced:
        """running -> running without a lease: handed back at shutdown, using no attempt (WL-17)."""
        parameters = {"job_id": lease.job_id, "held_epoch": lease.epoch, "look_us": self._clock.us(look_after_ms)}
        if conn.execute(sql.RELEASE, parameters).rowcount != 1:
            return self.fenced(conn, lease)
        self._claims.end(conn, [lease], None)
        return self._delivery_no(conn, lease.job_id)

    # -------------------------------------------------------------- ending

    def mark_succeeded(self, conn: sa.Connection, leases: Sequence[Lease]) -> int:
        """running -> succeeded for those whose claim holds and whose cancel was not asked (X37); returns how many."""
        done = sql.SUCCEED.execute(conn, by_epoch(leases), now_us=self._clock.us())
        if done:
            self._claims.end(conn, leases, None)
        return done

    def mark_all_succeeded(self, conn: sa.Connection, leases: Sequence[Lease]) -> None:
        """:meth:`mark_succeeded`, or at the latest with COMMIT a :class:`~outbox.base.later.Shortfall`."""
        sql.SUCCEED.write(conn, by_epoch(leases), expect=len(leases), now_us=self._clock.us())
        self._claims.end(conn, leases, None)

    def mark_failed(self, conn: sa.Connection, lease: Lease, failure: Failure) -> bool:
        """running -> failed under the claim; False when the claim is lost or a cancel came first."""
        parameters = self._ending(lease) | failure.columns()
        done = conn.execute(sql.FAIL, parameters).rowcount == 1
        if done:
            self._claims.end(conn, [lease], failure)
        return done

    def mark_cancelled(self, conn: sa.Connection, lease: Lease) -> bool:
        """running -> cancelled under the claim; False when the claim is lost, or nobody asked for a cancel."""
        done = conn.execute(sql.CANCEL_RUNNING, self._ending(lease)).rowcount == 1
        if done:
            self._claims.end(conn, [lease], None)
        return done

    def request_cancel(self, conn: sa.Connection, job_id: UUID) -> LifecycleStatus | None:
        """queued or parked -> cancelled at once; running -> its worker is asked.

        Returns the state after that, or None when the job had ended already or is missing.
        """
        parameters = {"job_id": job_id, "now_us": self._clock.us()}
        # Held still: between the two statements it could be parked, or claimed, and be missed by both.
        conn.execute(sql.EPOCH, parameters)
        if conn.execute(sql.CANCEL_IDLE, parameters).rowcount:
            return LifecycleStatus.CANCELLED
        return LifecycleStatus.RUNNING if conn.execute(sql.ASK_CANCEL, parameters).rowcount else None

    # -------------------------------------------------------------- recovery (upkeep)

    def unlocked(self, conn: sa.Connection, job_ids: Sequence[UUID]) -> set[UUID]:
        """Those of ``job_ids`` whose rows nobody else holds; locks them for the caller's transaction."""
        return set(conn.execute(sql.UNLOCKED, {"ids": list(job_ids)}).scalars())

    def take_over(self, conn: sa.Connection, lease: Lease, *, look_after_ms: int) -> int | None:
        """running with an ended lease -> running without one, epoch raised; returns the next delivery number.

        None when the row changed meanwhile: it was renewed, finished or claimed (WL-3).
        """
        parameters = {
            "job_id": lease.job_id, "held_epoch": lease.epoch, "now_us": self._clock.us(),
            "look_us": self._clock.us(look_after_ms),
        }  # fmt: skip
        if conn.execute(sql.TAKE_OVER, parameters).rowcount != 1:
            return None
        self._claims.end(conn, [lease], _LEASE_LOST)
        return self._delivery_no(conn, lease.job_id)

    def end_abandoned(
        self, conn: sa.Connection, lease: Lease, status: LifecycleStatus, failure: Failure | None
    ) -> bool:
        """running with an ended lease -> failed (attempts used up, ``failure`` says how) or cancelled (asked).

        False when the row changed meanwhile, a cancel that came or was not asked included.
        """
        words = sql.ending_words(status)
        parameters = self._ending(lease) | {"final": status.value, "shadow": words["shadow"]}
        parameters |= failure.columns() if failure else Failure(None).columns(outcome=words["ended_outcome"])
        done = conn.execute(sql.END_ABANDONED, parameters).rowcount == 1
        if done:
            self._claims.end(conn, [lease], failure or _LEASE_LOST)
        return done

    def redeliver(
        self, conn: sa.Connection, job_id: UUID, delivery_no: int, *, look_after_ms: int
    ) -> int | None:
        """A job without lease and ticket gets the next delivery number; None when it moved on meanwhile."""
        look_us = self._clock.us(look_after_ms)
        parameters = {"job_id": job_id, "old_delivery": delivery_no, "look_us": look_us}
        done = conn.execute(sql.REDELIVER, parameters).rowcount == 1
        return delivery_no + 1 if done else None

    def stamp_delivered(self, conn: sa.Connection, job_ids: Sequence[UUID], *, look_after_ms: int) -> None:
        """Note when upkeep should ask whether a delivered job was ever claimed (OB-9)."""
        if job_ids:
            sql.DELIVERED.write(conn, job_ids, look_us=self._clock.us(look_after_ms))

    def look_later(self, conn: sa.Connection, job_ids: Sequence[UUID], *, look_after_ms: int) -> None:
        """Nothing to do for these now; upkeep looks again after ``look_after_ms``."""
        if job_ids:
            sql.LOOK_LATER.execute(
                conn, job_ids, look_us=self._clock.us(look_after_ms), now_us=self._clock.us()
            )

    def claim_doomed(self, conn: sa.Connection, job_id: UUID, worker: str) -> Lease | None:
        """Claim a job that can never start, to fail it in the same transaction (X03); counts no attempt."""
        row = conn.execute(sql.EPOCH, {"job_id": job_id}).first()
        parameters = self._times(0) | {"job_id": job_id, "worker": worker}
        if row is None or conn.execute(sql.CLAIM_DOOMED, parameters).rowcount != 1:
            return None
        lease = Lease(job_id, row.epoch + 1)
        self._claims.begin(conn, [Claim(lease, row.attempt_count, StartReason.RESUME)], worker)
        return lease

    # -------------------------------------------------------------- why a write was refused

    def ended_by(self, conn: sa.Connection, lease: Lease, status: LifecycleStatus) -> bool:
        """Whether this very claim has ended the job as ``status``: its COMMIT was not answered (CI-9)."""
        row = conn.execute(sql.STATE, {"job_id": lease.job_id}).first()
        return row is not None and row.epoch == lease.epoch and row.lifecycle_status == status

    def fenced(self, conn: sa.Connection, lease: Lease) -> Fenced:
        """Name the reason why a fenced write of ``lease`` changed nothing."""
        row = conn.execute(sql.STATE, {"job_id": lease.job_id}).first()
        if row is None:
            return Fenced.MISSING
        if row.lifecycle_status != LifecycleStatus.RUNNING:
            return Fenced.FINAL
        if row.epoch == lease.epoch and row.cancel_requested_at is not None:
            return Fenced.CANCELLED
        return Fenced.LOST

    # -------------------------------------------------------------- parameters

    def _times(self, lease_ms: int) -> dict[str, Any]:
        return {"now_us": self._clock.us(), "lease_us": self._clock.us(lease_ms)}

    def _ending(self, lease: Lease) -> dict[str, Any]:
        return {"job_id": lease.job_id, "held_epoch": lease.epoch, "now_us": self._clock.us()}

    @staticmethod
    def _delivery_no(conn: sa.Connection, job_id: UUID) -> int:
        return int(conn.execute(sql.DELIVERY_NO, {"job_id": job_id}).scalar_one())
