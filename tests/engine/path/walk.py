"""A walk: one world, the hands that hold its jobs, and what ought to have become of each job.

The walk keeps its own account of every job (`Fate`) by the rules alone: who owns it, until when, how it ended.
Each act says beforehand what it must come to; the rows are compared with the account after every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from engine.errors import IdempotencyConflictError, JobNotRetryableError
from engine.intake.commands import CreatedJob, CreateJobInput, JobOverrides
from engine.lifecycle.lease import Claim
from engine.pipeline.project import Ending
from engine.pipeline.work import History, Work
from engine.upkeep.errors import OutboxEventState
from engine.upkeep.operations import By
from engine.worker.assembly import make_outbox_dispatcher
from outbox.base.points import Point, arm
from outbox.base.tables import METADATA
from outbox.transports.base import Settlement
from registry import JobDefinition
from registry.errors import AiJobsError
from registry.job import StartReason
from tests.engine.path.account import (
    ATTEMPTS,
    DELAY,
    LEASE,
    RATE_WAIT,
    RETRY_WAIT,
    Fate,
    Hand,
    killed_at,
)
from tests.engine.path.laws import Row, Rows, check, is_final
from tests.engine.path.staff import Staff, produced
from tests.engine.path.wayward import Wayward
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.world import QUEUE, World

_ME = By(actor="walker", edge="cli")
_ENDED = {"succeed": "succeeded", "fail": "failed", "cancel": "cancelled"}


class Walk:
    """The world, its actors, and the account."""

    def __init__(self, world: World, transport: Wayward) -> None:
        self.world, self.app, self.transport = world, world.app, transport
        self.app.register(
            JobDefinition.simple(
                "walk",
                input=Ask,
                output=Answer,
                handler=lambda ctx: Answer(),
                max_retries=ATTEMPTS - 1,
            )
        )
        self.app.start()
        self.staff = Staff(self.app)
        self.start_again()

    def start_again(self) -> None:
        """An empty database, an empty transport, and nobody who remembers."""
        arm(None)
        self.world.run(_empty)
        self.transport.start_again()
        self.now = 0.0
        self.fates: dict[UUID, Fate] = {}
        self.keys: dict[str, tuple[UUID, tuple[int, int]]] = {}
        self.hands: list[Hand] = []
        self.rows = Rows(self.world)

    # -- creators ------------------------------------------------------------------------------

    def create(
        self, key: str | None, value: int, *, delayed: bool, priority: int, killed: Point | None
    ) -> None:
        due = self.now + (DELAY if delayed else 0)
        wanted = self._wanted(key, value, delayed, priority)
        content = value, priority
        if key in self.keys and self.keys[key][1] != content:
            with pytest.raises(IdempotencyConflictError):
                self.app.jobs.create_job(wanted)
            return
        made: list[CreatedJob] = []
        with killed_at(killed):
            made.append(self.app.jobs.create_job(wanted))
        new = Rows(self.world).jobs.keys() - self.fates.keys()
        assert len(new) == (0 if key in self.keys or killed is Point.CREATE_BEFORE_COMMIT else 1)
        for job_id in new:
            self.fates[job_id] = Fate(due)
            if key is not None:
                self.keys[key] = job_id, content
        if made and key in self.keys:
            assert made[0].job.id == self.keys[key][0]
        assert not made or made[0].created == bool(new)

    def _wanted(self, key: str | None, value: int, delayed: bool, priority: int) -> CreateJobInput:
        now = self.app.uow.read(self.app.clock.read)
        return CreateJobInput(
            user_id="user-1", job_type="walk", target_type="note", target_id="note", payload={"value": value},
            idempotency_key=key, available_at=now + timedelta(seconds=DELAY) if delayed else None,
            overrides=JobOverrides(priority=priority),
        )  # fmt: skip

    def retry_as_new(self, job_id: UUID) -> None:
        if self.fates[job_id].status in ("failed", "cancelled"):
            made = self.app.jobs.retry_as_new(job_id)
            assert made.job.retry_of_job_id == job_id
            self.fates[made.job.id] = Fate(self.now)
        else:
            with pytest.raises(JobNotRetryableError):
                self.app.jobs.retry_as_new(job_id)

    def cancel(self, job_id: UUID) -> None:
        fate = self.fates[job_id]
        if fate.status in _ENDED.values():
            with pytest.raises(AiJobsError):
                self.app.jobs.request_cancel(job_id)
            return
        answer = self.app.jobs.request_cancel(job_id)
        fate.asked = True
        if fate.owner is None:
            fate.ended("cancelled")
            fate.epoch += 1
        assert answer.lifecycle_status == fate.status

    # -- dispatchers ---------------------------------------------------------------------------

    def dispatch(self, *, killed: Point | None = None) -> None:
        """A dispatcher that starts now: breakers of former ones are not its own."""
        dispatcher = make_outbox_dispatcher(self.app, owner="dispatcher")
        with killed_at(killed):
            while dispatcher.run_once():
                pass

    # -- workers -------------------------------------------------------------------------------

    def take(self, limit: int, *, dies: bool = False) -> None:
        """Tickets, then claims; `dies`: with the tickets in hand."""
        self.transport.recover(QUEUE)
        deliveries = self.transport.claim(QUEUE, limit, "worker", LEASE * 1000)
        if dies or not deliveries:
            return
        prepared = self.staff.preparer.prepare(self.app.registry.queue(QUEUE), deliveries)
        for work in prepared.claimed:
            self._note_claim(work)
            self.hands.append(Hand(work))
        self.transport.finish_many(
            "worker", [(delivery, Settlement.FINISHED) for delivery in prepared.settled]
        )
        self.transport.defer_many(prepared.deferred)

    def _note_claim(self, work: Work) -> None:
        fate, before = self.fates[work.job.id], self.rows.jobs[work.job.id]
        assert fate.status in ("queued", "running"), "an ended job was claimed"
        assert fate.owner is None or fate.until <= self.now, "a live lease was taken"
        assert fate.due <= self.now, "a job was started before its time"
        assert work.delivery is not None
        assert work.delivery.ticket.delivery_no == before["delivery_no"], (
            "an old delivery was worked on"
        )
        reason = StartReason.CRASH if fate.owner is not None else fate.next
        fate.attempts += reason.counts_as_attempt
        assert (work.claim.start_reason, work.claim.attempt_no) == (reason, fate.attempts)
        assert work.lease.epoch == fate.epoch + 1
        fate.claimed(work.lease.epoch, self.now)
        fate.next = StartReason.CRASH

    def beat(self, hand: Hand) -> None:
        lease = hand.work.lease
        self.world.run(
            lambda conn: self.app.lifecycle.heartbeat(conn, [lease], lease_ms=LEASE * 1000)
        )
        alive = self.app.uow.read(lambda conn: self.app.lifecycle.alive(conn, [lease]))
        fate = self.fates[lease.job_id]
        assert alive == ({lease: fate.asked} if fate.owner == lease.epoch else {})
        if alive:
            fate.until = self.now + LEASE
        if hand.work.delivery is not None:
            self.transport.heartbeat("worker", [hand.work.delivery], LEASE * 1000)

    def report(self, hand: Hand, percent: int) -> None:
        lease = hand.work.lease
        before = self.rows.jobs[lease.job_id]
        done = self.world.run(
            lambda conn: self.app.lifecycle.report_progress(conn, lease, percent, None)
        )
        owned = self.fates[lease.job_id].owner == lease.epoch
        assert done == (owned and percent >= before["progress"])

    # -- writes of a claim ---------------------------------------------------------------------

    def finish(self, hand: Hand, how: str, *, settles: bool) -> None:
        """Write under a claim, which may be lost long since."""
        work, expected = hand.work, self._expected(hand, how)
        before = None if expected else Rows(self.world).of_job(work.job.id)
        answer = self.staff.write(work, how)
        if isinstance(answer, Claim):
            assert expected == "again"
            hand.work = work.again(answer, History())
        else:
            assert answer == (expected or Ending.FENCED), (how, answer, expected)
            hand.gone = True
        self._note(hand, how, answer)
        if expected is None:
            assert Rows(self.world).of_job(work.job.id) == before, "a late write landed"
        if settles and work.delivery is not None and not isinstance(answer, Claim):
            self.transport.finish_many("worker", [(work.delivery, Settlement.FINISHED)])

    def finish_together(self, hands: Sequence[Hand]) -> None:
        """Results that share a transaction: a lost claim among them costs the others nothing."""
        expected = [self._expected(hand, "succeed") or Ending.FENCED for hand in hands]
        answers = self.staff.projection.commit_many([produced(hand.work) for hand in hands])
        assert answers == expected
        for hand, answer in zip(hands, answers, strict=True):
            assert isinstance(answer, Ending)
            hand.gone = True
            self._note(hand, "succeed", answer)

    def die_in_the_final_transaction(self, hand: Hand) -> None:
        expected = self._expected(hand, "succeed") or Ending.FENCED
        hand.gone = True
        with killed_at(Point.WORKER_BEFORE_COMMIT):
            # A result that is refused comes to no such point.
            assert self.staff.projection.commit(produced(hand.work)) == expected
            self._note(hand, "succeed", expected)

    def _expected(self, hand: Hand, how: str) -> str | None:
        """What the write must come to; None: it is refused and nothing changes."""
        fate, epoch = self.fates[hand.work.job.id], hand.work.lease.epoch
        if fate.status in _ENDED.values():
            # Its own end, told again after an answer to COMMIT was lost.
            same = fate.status == _ENDED.get(how) and fate.epoch == epoch
            return fate.status if same else None
        if fate.owner != epoch or (how == "cancel" and not fate.asked):
            return None
        if how == "release":
            return Ending.LEFT
        if fate.asked:
            return Ending.CANCELLED
        if how in ("again", "retry") and fate.attempts >= ATTEMPTS:
            # Decided wrongly: there is no further attempt to wait for.
            return None
        return {"succeed": Ending.SUCCEEDED, "fail": Ending.FAILED, "again": "again"}.get(
            how, Ending.LEFT
        )

    def _note(self, hand: Hand, how: str, answer: Any) -> None:
        fate = self.fates[hand.work.job.id]
        if isinstance(answer, Claim):
            fate.attempts += 1
            fate.claimed(answer.lease.epoch, self.now)
        elif answer == Ending.LEFT:
            waits = {
                "retry": (StartReason.RETRY, RETRY_WAIT),
                "rate": (StartReason.RATE, RATE_WAIT),
            }
            reason, wait = waits.get(how, (StartReason.RESUME, None))
            fate.left(reason, None if wait is None else self.now + wait)
        elif answer != Ending.FENCED:
            fate.ended(str(answer))

    # -- time, upkeep, operators ----------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.app.clock.advance(seconds * 1000)
        self.transport.advance(round(seconds * 1000))

    def upkeep(self, *, killed: Point | None = None) -> None:
        with killed_at(killed):
            healer = self.staff.healer
            while healer.heal_jobs() or healer.release_claims() or healer.retire_deliveries():
                pass
        rows = Rows(self.world).jobs
        for job_id, fate in self.fates.items():
            if fate.owner is None or fate.until > self.now:
                continue
            if killed is not None and rows[job_id]["epoch"] == fate.epoch:
                continue
            fate.epoch += 1
            if fate.asked:
                fate.ended("cancelled")
            elif fate.attempts >= ATTEMPTS:
                fate.ended("failed")
            else:
                fate.left(StartReason.CRASH)

    def redeliver(self, event: Row) -> None:
        try:
            self.staff.operations.redeliver(event["id"], by=_ME)
        except OutboxEventState:
            assert event["status"] != "dead"

    def discard(self, event: Row) -> None:
        fate, job = self.fates[event["aggregate_id"]], self.rows.jobs[event["aggregate_id"]]
        if event["status"] != "dead":
            with pytest.raises(OutboxEventState):
                self.staff.operations.discard(event["id"], by=_ME, reason="a walk")
            return
        self.staff.operations.discard(event["id"], by=_ME, reason="a walk")
        live = fate.owner is not None and fate.until > self.now
        if not is_final(job) and event["delivery_no"] == job["delivery_no"] and not live:
            fate.ended("cancelled" if fate.asked else "failed")
            fate.epoch += 1

    # -- looking -------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare everything that is stored with the laws and with the account."""
        before, self.rows = self.rows, Rows(self.world)
        check(before, self.rows)
        assert self.rows.jobs.keys() == self.fates.keys()
        for job_id, fate in self.fates.items():
            row = self.rows.jobs[job_id]
            found = (
                row["lifecycle_status"],
                row["epoch"],
                row["attempt_count"],
                row["lock_until"] is not None,
            )
            assert found == (fate.status, fate.epoch, fate.attempts, fate.owner is not None)
            assert (row["cancel_requested_at"] is not None) == fate.asked
        known, waiting = self.transport.tickets(QUEUE)
        assert {UUID(id_.rpartition("__")[2]) for id_ in known} <= self.fates.keys(), (
            "a ticket of no job"
        )
        assert len(set(known)) == len(known)
        assert len(set(waiting)) == len(waiting), "a ticket waits twice"

    def open_jobs(self) -> list[UUID]:
        return [job_id for job_id, row in self.rows.jobs.items() if not is_final(row)]


def _empty(conn: sa.Connection) -> None:
    for table in reversed(METADATA.sorted_tables):
        if table.name.startswith(("ai_job", "outbox_event", "audit_log")):
            conn.execute(table.delete())
