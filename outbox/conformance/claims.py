"""Which events a dispatcher is given, in which order, and that no two are given the same."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox.conformance.words import Desk, Promises
from outbox.events import EventType, NewEvent


class ClaimPromises(Promises):
    """Claims, order, dedupe."""

    def test_due_events_come_in_the_order_of_their_scores(self, desk: Desk) -> None:
        """Design 8. One step of priority is worth a second of waiting; equal scores keep their order."""
        now = desk.uow.read(desk.clock.read)
        wanted = [(50, 0), (40, 0), (50, -20), (0, 0), (50, 0), (100, -120)]
        events = [
            desk.event(priority=priority, score_ms=int(now.timestamp() * 1000) + wait * 1000)
            for priority, wait in wanted
        ]
        desk.append(*events)

        _, found = desk.claim()

        ranks = [events[n].id for n in (5, 3, 2, 1, 0, 4)]
        assert [event.id for event in found] == ranks

    def test_events_of_one_moment_keep_their_order(self, desk: Desk) -> None:
        """DB-7. Created within one transaction, claimed in that order."""
        events = [desk.event() for _ in range(20)]
        desk.append(*events)

        assert [event.id for event in desk.claim()[1]] == [event.id for event in events]

    def test_an_event_is_not_due_before_its_time(self, desk: Desk) -> None:
        """TR-7. Due times live in the database, and nowhere else."""
        now = desk.uow.read(desk.clock.read)
        delayed, planned = desk.event(delay_ms=5_000), desk.event(available_at=now + timedelta(seconds=10))
        desk.append(delayed, planned)

        assert desk.claim()[1] == []
        desk.clock.advance(5_001)
        assert [event.id for event in desk.claim()[1]] == [delayed.id]
        desk.clock.advance(5_001)
        assert [event.id for event in desk.claim()[1]] == [planned.id]

    def test_a_later_start_waits_from_its_own_time_on(self, desk: Desk) -> None:
        """A delayed job does not overtake those that were due before it."""
        now = desk.uow.read(desk.clock.read)
        planned = desk.appended(available_at=now + timedelta(seconds=10))
        desk.clock.advance(9_000)
        earlier = desk.appended()
        desk.clock.advance(2_000)

        assert [event.id for event in desk.claim()[1]] == [earlier.id, planned.id]

    def test_a_claim_takes_no_more_than_its_limit_and_only_its_queue(self, desk: Desk) -> None:
        other = desk.appended(queue_name="elsewhere")
        events = [desk.appended() for _ in range(5)]

        first, second, third = (desk.claim(limit=2)[1] for _ in range(3))

        assert [[e.id for e in part] for part in (first, second, third)] == [
            [events[0].id, events[1].id], [events[2].id, events[3].id], [events[4].id],
        ]  # fmt: skip
        assert desk.row(other)["status"] == "pending"

    def test_a_claimed_event_carries_all_that_was_written(self, desk: Desk) -> None:
        event = desk.appended(priority=7, delivery_no=3, traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")

        _, [found] = desk.claim()

        assert (found.id, found.job_id, found.event_type) == (event.id, event.job_id, EventType.ENQUEUE)
        assert (found.priority, found.delivery_no, found.traceparent) == (7, 3, event.traceparent)
        row = desk.row(event)
        assert row["payload"] == (
            f'{{"jobId":"{event.job_id}","jobType":"synthetic","priority":7,"queueName":"{desk.queue}"}}'
        )
        assert (row["status"], row["locked_by"]) == ("processing", "dispatcher-a")
        assert row["claim_token"] is not None

    def test_an_unknown_event_type_stays_pending_and_blocks_nobody(self, desk: Desk) -> None:
        """OB-4. It is never ticked off; who knows it gets it."""
        strange = [desk.event(event_type="ai.job.of.tomorrow", priority=0) for _ in range(5)]
        desk.append(*strange)
        known = desk.appended(priority=100)

        assert [event.id for event in desk.claim(limit=2)[1]] == [known.id]
        assert all(desk.row(event)["status"] == "pending" for event in strange)
        assert all(desk.row(event)["attempt_count"] == 0 for event in strange)
        assert len(desk.claim(types=["ai.job.of.tomorrow"])[1]) == 5

    def test_another_delivery_is_another_event(self, desk: Desk) -> None:
        """OB-10. The dedupe key covers event type, job, delivery and subscriber."""
        job_id = uuid4()
        desk.append(
            desk.event(job_id=job_id),
            desk.event(job_id=job_id, delivery_no=2),
            desk.event(job_id=job_id, event_type=EventType.COMPLETED),
            desk.event(job_id=job_id, event_type=EventType.COMPLETED, subscriber="a"),
            desk.event(job_id=job_id, event_type=EventType.COMPLETED, subscriber="b"),
        )

        assert len(desk.claim(types=list(EventType))[1]) == 5

    def test_the_same_delivery_cannot_be_written_twice(self, desk: Desk) -> None:
        """X45. It is an error, not a silent no-op: a job must not be committed without its delivery."""
        event = desk.appended()

        with pytest.raises(sa.exc.IntegrityError):
            desk.append(desk.event(job_id=event.job_id))

    def test_an_event_committed_late_is_not_skipped(self, desk: Desk) -> None:
        """OB-1. Inserted first, committed last, with later events handled in between."""
        if desk.uow.engine.dialect.name == "sqlite":
            pytest.skip("one writer at a time: the order of inserts is the order of commits")
        early = desk.event()
        with desk.uow.engine.connect() as conn:
            desk.outbox.append(conn, [early])
            later = [desk.appended() for _ in range(3)]
            assert [event.id for event in desk.claim()[1]] == [event.id for event in later]
            conn.commit()

        assert [event.id for event in desk.claim()[1]] == [early.id]

    def test_an_event_of_a_transaction_that_failed_does_not_exist(self, desk: Desk) -> None:
        """CI-7. Events stand and fall with the facts they tell."""

        def unit(conn: sa.Connection) -> None:
            desk.outbox.append(conn, [desk.event()])
            raise LookupError

        with pytest.raises(LookupError):
            desk.uow.run(unit)
        assert desk.claim()[1] == []

    def test_a_claim_is_not_blocked_by_somebody_elses_locks(self, desk: Desk) -> None:
        """OB-6, DB-3. Rows that another transaction holds are left for later."""
        if desk.uow.engine.dialect.name == "sqlite":
            pytest.skip("one writer at a time")
        held, free = desk.appended(), desk.appended()
        with desk.uow.engine.connect() as conn:
            _, [taken] = desk.outbox.claim(conn, desk.queue, [EventType.ENQUEUE], limit=1, owner="slow")
            assert taken.id == held.id
            assert [event.id for event in desk.claim()[1]] == [free.id]
            conn.rollback()

        assert [event.id for event in desk.claim()[1]] == [held.id]

    def test_racing_dispatchers_share_no_event(self, desk: Desk) -> None:
        """DB-4, OB-5. Six claimers, 120 events, batches of seven."""
        events: list[NewEvent] = [desk.event() for _ in range(120)]
        desk.append(*events)
        won: list[UUID] = []
        gate, lock = threading.Barrier(6), threading.Lock()

        def race(owner: str) -> None:
            gate.wait()
            idle = 0
            while idle < 3:
                _, found = desk.claim(limit=7, owner=owner)
                idle = idle + 1 if not found else 0
                with lock:
                    won.extend(event.id for event in found)

        threads = [threading.Thread(target=race, args=(f"dispatcher-{n}",)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        rest = [event.id for event in desk.claim(limit=500)[1]]
        assert sorted(won + rest) == sorted(event.id for event in events)
