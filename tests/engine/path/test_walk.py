"""Jobs, events and tickets on random walks: whatever is interleaved, no law is broken and every job ends.

Nothing waits: time is moved on. A failing walk is printed step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from outbox.base.points import Point
from tests.engine.path.account import STEPS, Hand
from tests.engine.path.laws import Row, is_final
from tests.engine.path.rush import WRITES, rush
from tests.engine.path.walk import Walk
from tests.engine.path.wayward import Wayward, wayward_memory, wayward_rq
from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.world import QUEUE, World

#: Few jobs, so that much happens to each: open ones at a time, and in all.
MAX_OPEN, MAX_JOBS = 3, 8

_any = st.integers(0, 999)
_dispatcher_dies = st.sampled_from(
    [
        None,
        None,
        None,
        Point.DISPATCHER_AFTER_CLAIM,
        Point.DISPATCHER_AFTER_PUT,
        Point.DISPATCHER_AFTER_MARK,
    ]
)
_upkeep_dies = st.sampled_from(
    [
        None,
        None,
        None,
        Point.UPKEEP_AFTER_READ,
        Point.UPKEEP_AFTER_TAKE_OVER,
        Point.UPKEEP_AFTER_REDELIVER,
    ]
)
_creator_dies = st.sampled_from(
    [None, None, None, Point.CREATE_BEFORE_COMMIT, Point.CREATE_AFTER_COMMIT]
)
_writes = st.sampled_from(WRITES)


class Walker(RuleBasedStateMachine):
    """Every rule is something that happens to a running system; the order is anybody's guess."""

    def __init__(self, walk: Walk) -> None:
        super().__init__()
        walk.start_again()
        self.walk = walk

    @initialize(seed=st.integers(0, 2**32))
    def begin_in_the_middle(self, seed: int) -> None:
        """A mixture by its weights first: single steps alone would come to the rare places only by luck."""
        self.walk.create("a", 0, delayed=False, priority=50, killed=None)
        self.walk.look()
        rush(self.walk, seed, acts=40)

    @rule(seed=st.integers(0, 2**32))
    def rush(self, seed: int) -> None:
        rush(self.walk, seed, acts=12)

    # -- who asks ------------------------------------------------------------------------------

    @precondition(lambda self: self._has_room())
    @rule(
        key=st.sampled_from([None, "a", "b"]), value=st.integers(0, 1), delayed=st.booleans(),
        priority=st.sampled_from([50, 50, 0]), killed=_creator_dies,
    )  # fmt: skip
    def create(self, **wanted: Any) -> None:
        self.walk.create(wanted.pop("key"), wanted.pop("value"), **wanted)

    @precondition(lambda self: len(self.walk.hands) > 1)
    @rule(which=_any)
    def cancel(self, which: int) -> None:
        self.walk.cancel(self._job(which))

    @precondition(lambda self: self._has_room() and len(self.walk.hands) > 1)
    @rule(which=_any)
    def retry_as_new(self, which: int) -> None:
        self.walk.retry_as_new(self._job(which))

    # -- who delivers --------------------------------------------------------------------------

    @precondition(lambda self: "pending" in self._states())
    @rule(killed=_dispatcher_dies)
    def dispatch(self, killed: Point | None) -> None:
        self.walk.dispatch(killed=killed)

    @precondition(lambda self: self.walk.open_jobs())
    @rule(limit=st.integers(1, 3))
    def dispatch_and_take(self, limit: int) -> None:
        self.walk.dispatch()
        self.walk.take(limit)

    @precondition(lambda self: self.walk.open_jobs())
    @rule(limit=st.integers(1, 3), seconds=st.sampled_from(STEPS))
    def dispatch_take_and_forget(self, limit: int, seconds: int) -> None:
        """A worker that is killed with what it has just claimed; nobody has noticed yet."""
        self.dispatch_and_take(limit)
        for hand in self.walk.hands:
            hand.gone = True
        self.walk.pass_time(seconds)

    @precondition(lambda self: self.walk.open_jobs())
    @rule(how=_writes, settles=st.booleans())
    def serve(self, how: str, settles: bool) -> None:
        """The whole way of one job in one step."""
        self.walk.dispatch()
        self.walk.take(1)
        held = [hand for hand in self.walk.hands if not hand.gone]
        if held:
            self.walk.finish(held[-1], how, settles=settles)

    @rule(seconds=st.sampled_from(STEPS))
    def heal_later_and_dispatch(self, seconds: int) -> None:
        self.walk.pass_time(seconds)
        self.walk.upkeep()
        self.walk.dispatch()

    @precondition(lambda self: "pending" in self._states())
    @rule()
    def dispatch_while_the_broker_is_away(self) -> None:
        self.walk.transport.down = True
        self.walk.dispatch()
        self.walk.transport.down = False

    @precondition(lambda self: "pending" in self._states())
    @rule(which=_any)
    def dispatch_while_tickets_of_a_job_are_refused(self, which: int) -> None:
        self.walk.transport.refused.add(self._job(which))
        self.walk.dispatch()
        self.walk.transport.refused.clear()

    @precondition(lambda self: self.walk.transport.tickets(QUEUE)[0])
    @rule()
    def lose_the_broker(self) -> None:
        self.walk.transport.lose_everything()

    @precondition(lambda self: self.walk.transport.put)
    @rule(which=_any)
    def an_old_put_arrives_again(self, which: int) -> None:
        put = self.walk.transport.put
        self.walk.transport.put_many([put[which % len(put)]])

    # -- who works -----------------------------------------------------------------------------

    @precondition(lambda self: self.walk.transport.tickets(QUEUE)[0])
    @rule(limit=st.integers(1, 3), dies=st.sampled_from([False, False, False, True]))
    def take(self, limit: int, dies: bool) -> None:
        self.walk.take(limit, dies=dies)

    @precondition(lambda self: self.walk.hands)
    @rule(which=_any)
    def beat(self, which: int) -> None:
        self.walk.beat(self._hand(which))

    @precondition(lambda self: self.walk.hands)
    @rule(which=_any, percent=st.sampled_from([0, 40, 90]))
    def report(self, which: int, percent: int) -> None:
        self.walk.report(self._hand(which), percent)

    @precondition(lambda self: self.walk.hands)
    @rule(which=_any, how=_writes, settles=st.booleans())
    def finish(self, which: int, how: str, settles: bool) -> None:
        """By whoever holds it, or held it once."""
        self.walk.finish(self._hand(which), how, settles=settles)

    @precondition(lambda self: any(hand.gone for hand in self.walk.hands))
    @rule(which=_any, how=_writes)
    def finish_late(self, which: int, how: str) -> None:
        """By somebody who is believed dead, or has finished once already."""
        gone = [hand for hand in self.walk.hands if hand.gone]
        self.walk.finish(gone[which % len(gone)], how, settles=False)

    @precondition(lambda self: len(self.walk.hands) > 1)
    @rule(first=_any)
    def finish_together(self, first: int) -> None:
        hands = {hand.work.job.id: hand for hand in (self._hand(first), *self.walk.hands)}
        self.walk.finish_together(list(hands.values()))

    @precondition(lambda self: self.walk.hands)
    @rule(which=_any)
    def die_in_the_final_transaction(self, which: int) -> None:
        self.walk.die_in_the_final_transaction(self._hand(which))

    # -- who heals -----------------------------------------------------------------------------

    @rule(seconds=st.sampled_from(STEPS))
    def pass_time(self, seconds: int) -> None:
        self.walk.pass_time(seconds)

    @rule(killed=_upkeep_dies)
    def upkeep(self, killed: Point | None) -> None:
        self.walk.upkeep(killed=killed)

    @precondition(lambda self: len(self.walk.rows.events) > 4)
    @rule()
    def clean_up(self) -> None:
        self.walk.staff.healer.clean_up()

    @precondition(lambda self: self._dead() or len(self.walk.rows.events) > 4)
    @rule(which=_any)
    def redeliver(self, which: int) -> None:
        self.walk.redeliver(self._event(which))

    @precondition(lambda self: self._dead())
    @rule(which=_any)
    def discard(self, which: int) -> None:
        self.walk.discard(self._event(which))

    # -- what holds ----------------------------------------------------------------------------

    @invariant()
    def no_law_is_broken(self) -> None:
        self.walk.look()

    def teardown(self) -> None:
        """Left alone, the system brings every job to its end; people are asked about refused tickets only."""
        self.walk.look()
        self._run_quietly()
        for event in self._awaited_dead():
            self.walk.redeliver(event)
        self._run_quietly()
        assert self.walk.open_jobs() == []
        assert {event["status"] for event in self.walk.rows.events.values()} <= {
            "published",
            "obsolete",
            "discarded",
        }
        assert self.walk.transport.tickets(QUEUE) == ([], [])

    def _run_quietly(self) -> None:
        """Dispatchers, workers and upkeep without a fault, until a minute passes in which nothing happens."""
        walk = self.walk
        for _ in range(8):
            walk.dispatch()
            for _ in range(MAX_OPEN):
                walk.take(MAX_JOBS)
                for hand in [hand for hand in walk.hands if not hand.gone]:
                    walk.finish(hand, "succeed", settles=True)
            walk.pass_time(70)
            walk.upkeep()
            walk.look()
            if (
                not walk.open_jobs()
                and walk.transport.tickets(QUEUE) == ([], [])
                and not self._on_the_way()
            ):
                break
        blocked = {event["aggregate_id"] for event in self._awaited_dead()}
        assert set(walk.open_jobs()) == blocked, "a job stays where it is, and nobody is told"

    def _on_the_way(self) -> bool:
        return bool(self._states() & {"pending", "processing", "dead"})

    def _awaited_dead(self) -> list[Row]:
        """Dead deliveries: each has an open job that waits for it, or it would have become obsolete by itself."""
        dead = [event for event in self.walk.rows.events.values() if event["status"] == "dead"]
        for event in dead:
            job = self.walk.rows.jobs[event["aggregate_id"]]
            waits = not is_final(job) and job["delivery_no"] == event["delivery_no"]
            assert waits, "a dead event that nobody waits for needs a person"
        return dead

    # -- picking -------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return len(self.walk.open_jobs()) < MAX_OPEN and len(self.walk.fates) < MAX_JOBS

    def _states(self) -> set[str]:
        return {event["status"] for event in self.walk.rows.events.values()}

    def _dead(self) -> bool:
        return "dead" in self._states()

    def _job(self, which: int) -> UUID:
        return list(self.walk.fates)[which % len(self.walk.fates)]

    def _hand(self, which: int) -> Hand:
        held = [hand for hand in self.walk.hands if not hand.gone]
        hands = held if held and which % 3 else self.walk.hands
        return hands[which % len(hands)]

    def _event(self, which: int) -> Row:
        # Dead ones first: they are rare. Not by their ids, which differ from run to run.
        jobs = list(self.walk.fates)
        events = sorted(
            self.walk.rows.events.values(),
            key=lambda e: (
                e["status"] != "dead",
                jobs.index(e["aggregate_id"]),
                e["event_type"],
                e["delivery_no"],
            ),
        )
        return events[which % len(events) if which % 2 else 0]


def walk_about(pool: Databases, transport: Wayward, *, examples: int, steps: int) -> None:
    url = pool.prepared(MIGRATED, migrate)
    world = World(url, transport, dispatcher={"max_attempts": 1})  # type: ignore[arg-type]
    try:
        walk = Walk(world, transport)
        # Not shortened: that would take minutes. Who looks for a cause adds Phase.shrink.
        phases = (Phase.reuse, Phase.generate)
        budget = settings(max_examples=examples, stateful_step_count=steps, phases=phases)
        run_state_machine_as_test(lambda: Walker(walk), settings=budget)
    finally:
        world.close()
        pool.give_back(MIGRATED, url)


@pytest.mark.parametrize(("make", "examples"), [(wayward_memory, 30), (wayward_rq, 12)], ids=["memory", "rq"])
def test_no_walk_breaks_a_law_or_leaves_a_job_behind(
    make: Callable[[], Wayward], examples: int, databases: Callable[[str], Databases]
) -> None:
    walk_about(databases("sqlite"), make(), examples=examples, steps=12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_no_walk_over_a_server_breaks_a_law_or_leaves_a_job_behind(
    kind: str, databases: Callable[[str], Databases]
) -> None:
    walk_about(databases(kind), wayward_memory(), examples=6, steps=12)
