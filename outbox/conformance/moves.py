"""Every act in every state: what is legal works, everything else changes nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest

from outbox.conformance.words import CLAIM_TTL_MS, DAY_MS, Desk, Promises
from outbox.events import EventType
from outbox.states import MOVES, EventStatus

#: state -> act -> the state it leads to; every other act leaves every column as it was.
LEGAL: dict[EventStatus, dict[str, EventStatus]] = {
    EventStatus.PENDING: {"claim": EventStatus.PROCESSING, "mark_obsolete": EventStatus.OBSOLETE},
    EventStatus.PROCESSING: {
        "mark_published": EventStatus.PUBLISHED,
        "give_back": EventStatus.PENDING,
        "refuse": EventStatus.PENDING,
        "refuse_for_good": EventStatus.DEAD,
    },
    EventStatus.DEAD: {
        "revive": EventStatus.PENDING,
        "discard": EventStatus.DISCARDED,
        "mark_obsolete": EventStatus.OBSOLETE,
    },
    EventStatus.PUBLISHED: {},
    EventStatus.OBSOLETE: {},
    EventStatus.DISCARDED: {},
}


class MovePromises(Promises):
    """All states times all acts."""

    @pytest.mark.parametrize("status", EventStatus)
    def test_only_legal_acts_change_an_event(self, desk: Desk, status: EventStatus) -> None:
        """Each act is tried on an event of its own; its answer says whether it changed anything."""
        for name in desk.acts():
            event, token = desk.an_event(status)
            before = desk.row(event)

            changed = desk.run(name, event, token)

            after = desk.row(event)
            expected = LEGAL[status].get(name)
            assert changed == (0 if expected is None else 1), name
            assert EventStatus(after["status"]) is (expected or status), name
            if expected is None:
                assert after == before, name
            else:
                assert expected in MOVES[status]

    def test_every_move_of_the_table_is_made_by_some_act(self) -> None:
        """``states.MOVES`` names no move that nothing makes."""
        for status, targets in MOVES.items():
            assert set(LEGAL[status].values()) == targets

    @pytest.mark.parametrize("name", ["mark_published", "give_back", "refuse", "refuse_for_good"])
    def test_a_dispatcher_that_lost_its_claim_changes_nothing(self, desk: Desk, name: str) -> None:
        """OB-5, X64. After its claim ended and another took the event, every mark of the first is void."""
        event, old = desk.claimed()
        desk.clock.advance(CLAIM_TTL_MS + 1_000)
        desk.uow.run(lambda conn: desk.outbox.release_expired(conn, ttl_ms=CLAIM_TTL_MS))
        assert desk.run(name, event, old) == 0
        desk.claim(owner="dispatcher-b", queue=event.queue_name)
        before = desk.row(event)

        assert desk.run(name, event, old) == 0
        assert desk.run(name, event, uuid4()) == 0
        assert desk.row(event) == before

    def test_a_claim_ends_after_its_time_and_not_before(self, desk: Desk) -> None:
        """OB-7. A crash leaves the row locked for the claim time, not longer."""
        event, _ = desk.claimed()

        def release() -> int:
            return desk.uow.run(lambda conn: desk.outbox.release_expired(conn, ttl_ms=CLAIM_TTL_MS))

        desk.clock.advance(CLAIM_TTL_MS - 1_000)
        release()
        assert desk.status(event) is EventStatus.PROCESSING
        desk.clock.advance(2_000)
        assert release() >= 1
        row = desk.row(event)
        assert (row["status"], row["claim_token"], row["locked_by"], row["locked_at"]) == (
            "pending", None, None, None,
        )  # fmt: skip
        assert row["attempt_count"] == 0

    def test_refusals_count_up_to_the_limit_and_end_dead(self, desk: Desk) -> None:
        """OB-2, OB-3. Only what blames the event counts; the last error stays to be read."""
        event, token = desk.claimed()
        desk.run("give_back", event, token)
        seen = []
        for _ in range(3):
            token, _found = desk.claim(queue=event.queue_name)
            desk.refuse(event, token)
            row = desk.row(event)
            seen.append((row["status"], row["attempt_count"], row["last_error"]))

        assert seen == [("pending", 1, "REFUSED"), ("pending", 2, "REFUSED"), ("dead", 3, "REFUSED")]
        assert desk.claim(queue=event.queue_name)[1] == []

    def test_a_refused_event_waits_before_it_is_tried_again(self, desk: Desk) -> None:
        """X63. Backoff is on the row, in the database's time."""
        event, token = desk.claimed()
        desk.refuse(event, token, delay_ms=5_000)

        assert desk.claim(queue=event.queue_name)[1] == []
        desk.clock.advance(5_001)
        assert [found.id for found in desk.claim(queue=event.queue_name)[1]] == [event.id]

    def test_a_revived_event_has_a_fresh_budget_and_is_due_at_once(self, desk: Desk) -> None:
        """OB-3. Revived once: the second call finds nothing dead."""
        event, _ = desk.an_event(EventStatus.DEAD)

        assert desk.run("revive", event, uuid4()) == 1
        assert desk.run("revive", event, uuid4()) == 0
        _, [found] = desk.claim(queue=event.queue_name)
        assert (found.id, found.attempt_count) == (event.id, 0)

    def test_the_end_of_a_job_makes_its_waiting_deliveries_obsolete(self, desk: Desk) -> None:
        """X38. Its own, all of them, and nothing but deliveries."""
        first = desk.appended()
        second = desk.appended(job_id=first.job_id, delivery_no=2)
        ending = desk.appended(job_id=first.job_id, delivery_no=0, event_type=EventType.COMPLETED, subscriber="s")
        other = desk.appended()

        desk.uow.run(lambda conn: desk.outbox.mark_obsolete(conn, [first.job_id], EventType.ENQUEUE))

        assert [desk.status(e) for e in (first, second, ending, other)] == [
            EventStatus.OBSOLETE, EventStatus.OBSOLETE, EventStatus.PENDING, EventStatus.PENDING,
        ]  # fmt: skip

    def test_pruning_takes_old_events_of_one_state(self, desk: Desk) -> None:
        """OB-11. Small batches, by age and state; nothing else goes."""
        events = {status: desk.an_event(status)[0] for status in EventStatus}
        desk.clock.advance(8 * DAY_MS)
        young, _ = desk.an_event(EventStatus.PUBLISHED)
        prune = desk.outbox.prune

        def pruned(status: EventStatus) -> None:
            while desk.uow.run(lambda conn: prune(conn, status, older_ms=7 * DAY_MS, limit=1)):
                pass

        pruned(EventStatus.PUBLISHED)
        assert not desk.exists(events.pop(EventStatus.PUBLISHED))
        assert desk.exists(young)
        assert all(desk.exists(event) for event in events.values())
