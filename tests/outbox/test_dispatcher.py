"""The dispatcher's round: claim, put, mark; under outages, refusals, rivals and its own death."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from engine.app import AiJobApp
from engine.worker.assembly import make_upkeep
from outbox.base.points import Point, arm
from outbox.dispatcher import DispatchOptions, OutboxDispatcher
from outbox.events import ClaimedEvent, EventType, NewEvent
from outbox.subscribers import SubscriberDelivery
from outbox.transports.memory import MemoryTransport
from registry.job import JobView
from tests.support.crowd import at_once
from tests.support.flaky import FlakyTransport
from tests.support.wait import PATIENCE_S
from tests.support.world import QUEUE, World

MakeWorld = Callable[..., World]


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def flaky() -> FlakyTransport:
    return FlakyTransport(MemoryTransport())


@pytest.fixture
def world(make_world: MakeWorld, flaky: FlakyTransport) -> World:
    return make_world(flaky)


@pytest.fixture
def monotonic() -> Clock:
    return Clock()


def dispatcher_of(
    world: World, transport: Any, monotonic: Any = None, owner: str = "dispatcher-1", **options: Any
) -> OutboxDispatcher:
    app: AiJobApp = world.app
    app.start()
    return OutboxDispatcher(
        uow=app.uow, outbox=app.outbox, transport=transport, queues=[q.name for q in app.registry.queues],
        owner=owner, telemetry=app.telemetry, options=DispatchOptions(**options),
        on_delivered=lambda conn, ids: app.lifecycle.stamp_delivered(conn, ids, look_after_ms=60_000),
        **({"monotonic": monotonic} if monotonic else {}),
    )  # fmt: skip


@pytest.fixture
def dispatcher(world: World, flaky: FlakyTransport, monotonic: Clock) -> OutboxDispatcher:
    return dispatcher_of(world, flaky, monotonic)


def events(world: World) -> list[dict[str, Any]]:
    return world.rows("outbox_event", event_type="ai.job.enqueue")


def statuses(world: World) -> set[str]:
    return {row["status"] for row in events(world)}


def jobs(world: World, number: int, **wanted: Any) -> list[JobView]:
    requests = [world.request(**wanted) for _ in range(number)]
    return [made.job for made in world.app.jobs.create_jobs(requests)]


def hear(world: World, fact: str) -> list[dict[str, Any]]:
    """What is said of each later ``fact``."""
    heard: list[dict[str, Any]] = []
    world.app.telemetry.listen(lambda name, ids: heard.append(dict(ids)) if name == fact else None)
    return heard


class TestRounds:
    """One claim, one round trip, one mark."""

    def test_a_round_puts_everything_due_in_one_round_trip(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport
    ) -> None:
        """Design 8. All queues together; marked with the time, released from the claim."""
        made = jobs(world, 5) + jobs(world, 3, job_type="active_recall", payload=_question())

        assert dispatcher.run_once() is False

        assert len(flaky.puts) == 1
        assert {ticket.job_id for ticket in flaky.puts[0]} == {job.id for job in made}
        for row in events(world):
            assert (row["status"], row["claim_token"]) == ("published", None)
            assert row["published_at"] is not None
        assert world.count("outbox.published") == 8

    @pytest.mark.databases("sqlite")
    def test_a_fact_about_one_job_names_it_and_one_about_several_counts_them(
        self, world: World, dispatcher: OutboxDispatcher
    ) -> None:
        heard = hear(world, "outbox.published")
        alone = world.create()
        dispatcher.run_once()
        jobs(world, 2)
        dispatcher.run_once()

        assert heard == [{"count": 1, "job_id": str(alone.id)}, {"count": 2}]

    def test_a_ticket_says_what_the_row_says(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport
    ) -> None:
        job = world.create(priority=3)
        [row] = events(world)

        dispatcher.run_once()

        [[ticket]] = flaky.puts
        assert (ticket.job_id, ticket.job_type, ticket.queue_name) == (job.id, "synthetic", QUEUE)
        assert (ticket.delivery_no, ticket.deliver_score) == (1, row["deliver_score"])

    def test_a_delivered_job_is_looked_at_by_upkeep(self, world: World, dispatcher: OutboxDispatcher) -> None:
        """OB-9. When it is put, the time is set at which somebody asks whether it was ever claimed."""
        job = world.create()
        assert world.row(job.id)["upkeep_at"] is None

        dispatcher.run_once()

        assert world.row(job.id)["upkeep_at"] is not None

    def test_a_full_batch_says_that_there_is_more(self, world: World, flaky: FlakyTransport) -> None:
        jobs(world, 7)
        dispatcher = dispatcher_of(world, flaky, batch=3)

        assert [dispatcher.run_once() for _ in range(3)] == [True, True, False]
        assert [len(put) for put in flaky.puts] == [3, 3, 1]

    def test_a_queue_at_its_mark_waits_for_its_workers(self, world: World, flaky: FlakyTransport) -> None:
        """TR-10. Redis stays small; the rest waits in SQL, where a more urgent job still comes first."""
        made = jobs(world, 5)
        dispatcher = dispatcher_of(world, flaky, high_water_mark=3)
        dispatcher.run_once()
        dispatcher.run_once()
        assert world.depth() == 3
        urgent = world.create(priority=0)

        [one, *_] = flaky.claim(QUEUE, 3, "worker", 600_000)
        assert one.ticket.job_id == made[0].id
        dispatcher.run_once()

        assert [ticket.job_id for ticket in flaky.puts[-1]] == [urgent.id, made[3].id, made[4].id]

    def test_one_full_queue_holds_up_no_other(self, world: World, flaky: FlakyTransport) -> None:
        """TR-15."""
        jobs(world, 3)
        dispatcher = dispatcher_of(world, flaky, high_water_mark=3)
        dispatcher.run_once()
        jobs(world, 2)
        other = jobs(world, 1, job_type="active_recall", payload=_question())

        dispatcher.run_once()

        assert [ticket.job_id for ticket in flaky.puts[-1]] == [other[0].id]

    def test_a_round_may_be_about_the_queue_that_a_hint_named(self, world: World, flaky: FlakyTransport) -> None:
        dispatcher = dispatcher_of(world, flaky)
        jobs(world, 2)
        other = jobs(world, 1, job_type="active_recall", payload=_question())

        dispatcher.run_once(other[0].queue_name)
        assert [ticket.job_id for ticket in flaky.puts[-1]] == [other[0].id]
        dispatcher.run_once()
        assert len(flaky.puts[-1]) == 2

    def test_a_hint_about_one_queue_makes_nobody_forget_another_at_its_mark(
        self, world: World, flaky: FlakyTransport
    ) -> None:
        """TR-10. Workers that make room give no hint."""
        made = jobs(world, 4)
        dispatcher = dispatcher_of(world, flaky, high_water_mark=3)
        dispatcher.run_once()
        dispatcher.run_once()
        flaky.claim(QUEUE, 3, "worker", 600_000)
        other = jobs(world, 1, job_type="active_recall", payload=_question())

        dispatcher.run_once(other[0].queue_name)

        assert {ticket.job_id for ticket in flaky.puts[-1]} == {made[3].id, other[0].id}

    def test_rounds_in_parallel_tell_each_other_what_is_at_its_mark(
        self, world: World, flaky: FlakyTransport
    ) -> None:
        """TR-10. One about another queue may end later, and knows nothing of this one."""
        dispatcher = dispatcher_of(world, flaky, high_water_mark=3, batch=3)
        other = jobs(world, 1, job_type="active_recall", payload=_question())[0]

        def fill_the_queue() -> None:
            flaky.during_put = lambda: None
            jobs(world, 4)
            for _ in range(2):
                dispatcher.run_once()

        flaky.during_put = fill_the_queue
        dispatcher.run_once(other.queue_name)
        assert dispatcher.pause_ms < 1_000
        flaky.claim(QUEUE, 3, "worker", 600_000)

        dispatcher.run_once(other.queue_name)

        assert world.depth() == 1

    def test_a_queue_far_from_its_mark_is_not_asked_again_for_every_job(
        self, world: World, flaky: FlakyTransport, monotonic: Clock
    ) -> None:
        """Design 14. Whether there is room is asked where it matters: near the mark, and once a second."""
        dispatcher = dispatcher_of(world, flaky, monotonic, high_water_mark=64, batch=8)

        def round_of(number: int) -> int:
            flaky.depths = 0
            jobs(world, number)
            dispatcher.run_once()
            return flaky.depths

        assert [round_of(1), round_of(1), round_of(7)] == [1, 0, 0]
        # Nine tickets were put; where a full batch could bring it beyond a quarter of the mark it is asked.
        assert [round_of(1), round_of(1), round_of(1)] == [1, 1, 1]
        for delivery in flaky.claim(QUEUE, 64, "worker", 600_000):
            assert delivery.ticket.queue_name == QUEUE
        assert [round_of(1), round_of(1)] == [1, 0]
        monotonic.now += 1.0
        assert round_of(1) == 1

    def test_several_dispatchers_together_keep_a_queue_below_its_mark(
        self, world: World, flaky: FlakyTransport, monotonic: Clock
    ) -> None:
        """TR-10. Not even where none of them knows of the others' tickets."""
        several = [
            dispatcher_of(world, flaky, monotonic, f"dispatcher-{n}", high_water_mark=40, batch=4) for n in range(4)
        ]
        for dispatcher in several:
            dispatcher.run_once()
        for turn in range(80):
            jobs(world, 1)
            several[turn % 4].run_once()

        assert world.depth() <= 40

    @pytest.mark.parametrize("batch", [3, 10, 100])
    def test_nor_does_a_burst_bring_a_queue_beyond_its_mark(
        self, world: World, flaky: FlakyTransport, monotonic: Clock, batch: int
    ) -> None:
        """TR-10. Each of them saw the queue empty a moment ago."""
        several = [
            dispatcher_of(world, flaky, monotonic, f"dispatcher-{n}", high_water_mark=40, batch=batch) for n in range(4)
        ]
        for dispatcher in several:
            dispatcher.run_once()
        jobs(world, 100)
        for _ in range(20):
            for dispatcher in several:
                dispatcher.run_once()

        assert world.depth() == 40

    def test_priorities_leave_in_order_and_age_into_it(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport
    ) -> None:
        """TR-15. Lower numbers first; a waiting job gains one step a second and nothing starves."""
        late, early = world.create(priority=60), world.create(priority=10)
        world.app.clock.advance(45_000)
        newcomer = world.create(priority=10)

        dispatcher.run_once()
        came = [d.ticket.job_id for d in flaky.claim(QUEUE, 9, "worker", 60_000)]

        assert came == [early.id, newcomer.id, late.id]


class TestOutages:
    """OB-2: what concerns the broker blames no event."""

    def test_an_outage_kills_no_event_and_everything_comes_when_it_is_over(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport, monotonic: Clock
    ) -> None:
        """OB-2. Ten minutes away, fifty events, nobody acts: all dispatched, none dead, none counted."""
        jobs(world, 50)
        flaky.away = True
        for _ in range(600):
            dispatcher.run_once()
            monotonic.now += 1
            world.app.clock.advance(1_000)
        assert statuses(world) == {"pending"}

        flaky.away = False
        monotonic.now += 10
        dispatcher.run_once()

        assert statuses(world) == {"published"}
        assert {row["attempt_count"] for row in events(world)} == {0}
        assert world.depth() == 50

    def test_the_breaker_opens_longer_and_longer_and_closes_at_once(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport, monotonic: Clock
    ) -> None:
        """X63. While it is open neither Redis nor the database is asked."""
        world.create()
        flaky.away = True
        pauses: list[int] = []
        world.app.telemetry.listen(
            lambda name, ids: pauses.append(ids["pause_ms"]) if name == "outbox.transport_unavailable" else None
        )
        for _ in range(12):
            dispatcher.run_once()
            before = len(pauses)
            dispatcher.run_once()
            assert len(pauses) == before
            monotonic.now += pauses[-1] / 1000 + 0.001

        assert pauses[0] <= 100
        assert all(later >= 0.8 * earlier for earlier, later in itertools.pairwise(pauses))
        assert 8_000 <= pauses[-1] <= 10_000
        flaky.away = False
        dispatcher.run_once()
        assert statuses(world) == {"published"}
        flaky.away = True
        world.create()
        dispatcher.run_once()
        assert pauses[-1] <= 100

    def test_after_an_outage_redis_is_asked_before_anything_is_claimed(
        self, world: World, flaky: FlakyTransport, monotonic: Clock
    ) -> None:
        """OB-2. That there was room a moment ago says nothing of a Redis that has failed since."""
        dispatcher = dispatcher_of(world, flaky, monotonic)
        jobs(world, 1)
        dispatcher.run_once()
        flaky.away = True
        jobs(world, 1)
        dispatcher.run_once()
        monotonic.now += 0.5
        flaky.depths = 0

        dispatcher.run_once()

        assert flaky.depths == 1
        assert statuses(world) == {"published", "pending"}

    def test_an_outage_in_the_middle_gives_the_batch_back(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport, monotonic: Clock
    ) -> None:
        """OB-5, OB-7. Tickets that arrived before the answer was lost are put again, and once is once."""
        made = jobs(world, 4)
        flaky.deaf = True
        dispatcher.run_once()
        assert [(r["status"], r["claim_token"], r["attempt_count"]) for r in events(world)] == [
            ("pending", None, 0)
        ] * 4
        assert {row["last_error"] for row in events(world)} == {"TRANSPORT_UNAVAILABLE"}

        flaky.deaf = False
        monotonic.now += 1
        dispatcher.run_once()

        assert statuses(world) == {"published"}
        assert {row["last_error"] for row in events(world)} == {None}
        assert world.depth() == 4
        world.work()
        assert [len(world.claims(job.id)) for job in made] == [1] * 4


class TestRefusals:
    """Errors that blame one event count against it, and against nobody else."""

    def test_a_refused_event_is_tried_again_and_ends_dead(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport
    ) -> None:
        """OB-3, X63. Backoff between the tries; the others of its batch leave at once."""
        bad, *good = jobs(world, 4)
        flaky.refuses = lambda ticket: ticket.job_id == bad.id
        tries = 0
        for _ in range(40):
            dispatcher.run_once()
            tries = max(tries, world.deliveries(bad.id)[0].attempt_count)
            world.app.clock.advance(1_000)

        [event] = world.deliveries(bad.id)
        assert (event.status, event.attempt_count, event.last_error) == ("dead", 3, "TICKET_REFUSED")
        assert all(world.deliveries(job.id)[0].status == "published" for job in good)
        assert world.count("outbox.dead") == 1
        assert sum(ticket.job_id == bad.id for put in flaky.puts for ticket in put) == 3
        assert world.job(bad.id).lifecycle_status == "queued"

    def test_a_dead_event_can_be_revived_once_and_its_job_runs(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport
    ) -> None:
        """OB-3. Counted, listed with its error, requeued; the job then ends as if nothing had been."""
        job = world.create()
        flaky.refuses = lambda _ticket: True
        for _ in range(3):
            dispatcher.run_once()
            world.app.clock.advance(120_000)
        [event] = world.deliveries(job.id)
        assert event.status == "dead"

        flaky.refuses = lambda _ticket: False
        assert world.run(lambda conn: world.app.outbox.revive(conn, event.id))
        assert not world.run(lambda conn: world.app.outbox.revive(conn, event.id))
        dispatcher.run_once()
        world.work()

        assert world.job(job.id).lifecycle_status == "succeeded"

    def test_a_ticket_on_which_the_client_stumbles_holds_up_nobody(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport
    ) -> None:
        """OB-4, OB-2. An unforeseen error is narrowed down to the event that causes it."""
        bad, *good = jobs(world, 5)
        flaky.stumbles = lambda ticket: ticket.job_id == bad.id
        for _ in range(3):
            dispatcher.run_once()
            world.app.clock.advance(120_000)

        assert all(world.deliveries(job.id)[0].status == "published" for job in good)
        assert world.deliveries(bad.id)[0].status == "dead"

    def test_a_cancelled_job_takes_its_dead_event_along(
        self, world: World, dispatcher: OutboxDispatcher, flaky: FlakyTransport
    ) -> None:
        """X38."""
        job = world.create()
        flaky.refuses = lambda _ticket: True
        for _ in range(3):
            dispatcher.run_once()
            world.app.clock.advance(120_000)

        world.app.jobs.request_cancel(job.id)

        assert [event.status for event in world.deliveries(job.id)] == ["obsolete"]


class TestRivals:
    """Several dispatchers, creators and cleaners at the same time."""

    def test_a_slow_put_holds_up_nobody(
        self, world: World, flaky: FlakyTransport, make_world: MakeWorld
    ) -> None:
        """OB-6. No transaction is open while Redis is asked: others dispatch, create and clean up at once."""
        jobs(world, 3)
        begun, go_on = threading.Event(), threading.Event()
        flaky.during_put = lambda: (begun.set(), go_on.wait(PATIENCE_S))
        slow = threading.Thread(target=dispatcher_of(world, flaky).run_once)
        slow.start()
        assert begun.wait(PATIENCE_S)
        other = make_world(flaky.inner)

        more = other.create()
        other.dispatch()
        other.upkeep()

        assert other.deliveries(more.id)[0].status == "published"
        assert flaky.inner.depth([QUEUE])[QUEUE] == 1
        go_on.set()
        slow.join(PATIENCE_S)
        assert statuses(world) == {"published"}

    def test_a_batch_that_outlives_its_claim_is_put_by_another_once(
        self, world: World, flaky: FlakyTransport, make_world: MakeWorld
    ) -> None:
        """OB-5. The first one's mark is void, the tickets are there once, the jobs run once."""
        made = jobs(world, 5)
        rival = make_world(flaky.inner)

        def outlive() -> None:
            flaky.during_put = lambda: None
            rival.app.clock.advance(61_000)
            rival.upkeep()
            rival.dispatch()

        flaky.during_put = outlive
        dispatcher_of(world, flaky).run_once()

        assert world.count("outbox.claim_lost") == 5
        assert statuses(world) == {"published"}
        assert world.depth() == 5
        world.work()
        assert [len(world.claims(job.id)) for job in made] == [1] * 5

    def test_four_dispatchers_deliver_everything_once(
        self, world: World, flaky: FlakyTransport
    ) -> None:
        """OB-5, DB-4. Every event put once, whoever takes it."""
        made = jobs(world, 200)
        crowd = [dispatcher_of(world, flaky, owner=f"d{n}", batch=15) for n in range(4)]

        def work(dispatcher: OutboxDispatcher) -> None:
            while "pending" in statuses(world):
                dispatcher.run_once()

        answers = at_once([lambda d=one: work(d) for one in crowd])  # type: ignore[misc]

        assert [a for a in answers if a is not None] == []
        put = [ticket.job_id for batch in flaky.puts for ticket in batch]
        assert sorted(put) == sorted(job.id for job in made)
        assert statuses(world) == {"published"}

    def test_cleaning_up_while_dispatching_stops_nothing(
        self, world: World, flaky: FlakyTransport, make_world: MakeWorld
    ) -> None:
        """OB-8. Dispatchers, clean-up and the release of claims meet on one table; none fails, nothing is lost."""
        cleaner = make_world(flaky.inner)
        cleaner.app.start()
        old = jobs(world, 150)
        world.change("outbox_event", {"status": "pending"}, status="published")
        for one in (world, cleaner):
            one.app.clock.advance(8 * 86_400_000)
        jobs(world, 150)
        crowd = [dispatcher_of(world, flaky, owner=f"d{n}", batch=10) for n in range(3)]
        upkeep = make_upkeep(cleaner.app)

        def work(act: Callable[[], object]) -> None:
            while "pending" in statuses(world):
                act()

        acts = [one.run_once for one in crowd] + [upkeep.run_once, upkeep.release_claims]
        answers = at_once([lambda a=act: work(a) for act in acts])  # type: ignore[misc]
        upkeep.clean_up()

        assert [a for a in answers if a is not None] == []
        put = [ticket.job_id for batch in flaky.puts for ticket in batch]
        assert len(put) == len(set(put)) == 150
        assert not {job.id for job in old} & set(put)
        assert len(events(world)) == 150


class TestDeath:
    """OB-7: the process is killed between any two steps."""

    @pytest.mark.parametrize(
        "at", [Point.DISPATCHER_AFTER_CLAIM, Point.DISPATCHER_AFTER_PUT, Point.DISPATCHER_AFTER_MARK]
    )
    def test_a_dispatcher_killed_at_any_point_loses_and_doubles_nothing(
        self, world: World, dispatcher: OutboxDispatcher, at: Point
    ) -> None:
        """OB-7, promise 3. Its events are free after the claim time; a second delivery is a quiet no-op."""
        made = jobs(world, 3)

        def die(point: Point) -> None:
            if point is at:
                raise Killed

        arm(die)
        try:
            with pytest.raises(Killed):
                dispatcher.run_once()
        finally:
            arm(None)
        world.work()
        world.advance(61)
        world.upkeep()
        world.dispatch()
        world.work()

        assert statuses(world) == {"published"} or statuses(world) == {"published", "obsolete"}
        assert [world.job(job.id).lifecycle_status for job in made] == ["succeeded"] * 3
        assert [len(world.claims(job.id)) for job in made] == [1] * 3
        assert world.depth() == 0
        assert world.count("delivery.missing") == 0


class TestSubscribers:
    """Terminal events reach every subscriber, each on its own."""

    @staticmethod
    def told(
        world: World, name: str, fails: int = 0, error: type[BaseException] = RuntimeError
    ) -> list[ClaimedEvent]:
        heard: list[ClaimedEvent] = []
        tries = [0]

        @world.app.on_end(name)
        def hear(event: ClaimedEvent) -> None:
            tries[0] += 1
            if tries[0] <= fails:
                raise error("my secret diary")
            heard.append(event)

        return heard

    @staticmethod
    def deliver(world: World, *, monotonic: Callable[[], float] = time.monotonic, **subscribers: Any) -> bool:
        app = world.app
        delivery = SubscriberDelivery(
            uow=app.uow, outbox=app.outbox, subscribers=subscribers or app.subscribers, owner="subscribers",
            telemetry=app.telemetry, options=DispatchOptions(), monotonic=monotonic,
        )  # fmt: skip
        return delivery.run_once()

    def test_every_subscriber_hears_of_every_end_once(self, world: World) -> None:
        """Design 8. One row per subscriber, written in the transaction that ended the job."""
        one, two = self.told(world, "one"), self.told(world, "two")
        done, cancelled = world.create(), world.create()
        world.app.jobs.request_cancel(cancelled.id)
        world.settle()
        published = hear(world, "outbox.published")
        assert [e.status for e in world.endings(done.id)] == ["pending"] * 2

        self.deliver(world)
        self.deliver(world)

        for heard in (one, two):
            assert {(e.job_id, e.event_type) for e in heard} == {
                (done.id, EventType.COMPLETED), (cancelled.id, EventType.CANCELLED),
            }  # fmt: skip
            assert len(heard) == 2
        assert sorted(ids["job_id"] for ids in published) == sorted([str(done.id), str(cancelled.id)] * 2)
        assert [e.status for e in world.endings(done.id)] == ["published"] * 2

    def test_without_subscribers_the_end_is_published_as_it_is_written(self, world: World) -> None:
        job = world.create()
        world.settle()

        [event] = world.endings(job.id)
        assert (event.status, event.subscriber) == ("published", "")

    @pytest.mark.parametrize("error", [RuntimeError, SystemExit])
    def test_one_that_fails_is_tried_again_and_holds_up_no_other(
        self, world: World, error: type[BaseException]
    ) -> None:
        flaky, steady = self.told(world, "flaky", fails=2, error=error), self.told(world, "steady")
        world.create()
        world.settle()
        for _ in range(4):
            self.deliver(world)
            world.app.clock.advance(60_000)

        assert (len(flaky), len(steady)) == (1, 1)

    def test_one_that_always_fails_ends_dead_without_its_text(self, world: World) -> None:
        """Promise 7: the error's kind is kept, its text is not."""
        self.told(world, "broken", fails=99)
        job = world.create()
        world.settle()
        for _ in range(4):
            self.deliver(world)
            world.app.clock.advance(120_000)

        [event] = world.endings(job.id)
        assert (event.status, event.attempt_count, event.last_error) == ("dead", 3, "RuntimeError")
        assert world.job(job.id).lifecycle_status == "succeeded"

    def test_a_subscriber_of_another_release_is_waited_for(self, world: World) -> None:
        """OB-4. Unknown here is not "delivered"."""
        heard = self.told(world, "new")
        job = world.create()
        world.settle()
        unroutable = hear(world, "outbox.unroutable")

        self.deliver(world, old=lambda event: None)
        assert [ids["job_id"] for ids in unroutable] == [str(job.id)]
        [event] = world.endings(job.id)
        assert (event.status, event.attempt_count) == ("pending", 0)
        world.app.clock.advance(31_000)
        self.deliver(world)

        assert len(heard) == 1

    def test_a_slow_batch_gives_back_what_it_has_no_time_for(self, world: World) -> None:
        """OB-5. Well inside the claim, so that nobody delivers the rest a second time."""
        heard = self.told(world, "slow")
        for _ in range(3):
            world.create()
        world.settle()
        times = iter([0.0, 1.0, 31.0, 62.0])

        self.deliver(world, monotonic=lambda: next(times))

        assert len(heard) == 1
        pending = [r for r in world.rows("outbox_event", event_type="ai.job.completed") if r["status"] == "pending"]
        assert [(r["attempt_count"], r["claim_token"]) for r in pending] == [(0, None)] * 2


class TestRollingUpdates:
    """OB-4 with two real dispatchers."""

    def test_an_event_of_tomorrow_waits_for_its_dispatcher(
        self, world: World, dispatcher: OutboxDispatcher
    ) -> None:
        strange = NewEvent(
            event_type="ai.job.of.tomorrow", job_id=world.create().id, job_type="synthetic", queue_name=QUEUE,
            priority=0, delivery_no=1,
        )  # fmt: skip
        world.run(lambda conn: world.app.outbox.append(conn, [strange]))
        for _ in range(5):
            dispatcher.run_once()
            world.app.clock.advance(60_000)

        [row] = world.rows("outbox_event", event_type="ai.job.of.tomorrow")
        assert (row["status"], row["attempt_count"]) == ("pending", 0)
        assert statuses(world) == {"published"}


def test_the_claim_reads_an_index_however_many_rows_are_done(make_world: MakeWorld, database_kind: str) -> None:
    """OB-11. Finished rows cost the claim nothing: it reads due rows by the index that was made for it."""
    world = make_world()
    jobs(world, 60)
    table = world.table("outbox_event")
    world.run(lambda conn: conn.execute(sa.update(table).values(status="published")))
    world.create()
    analyze = {"sqlite": "ANALYZE", "mariadb": "ANALYZE TABLE outbox_event", "postgresql": "ANALYZE outbox_event"}
    query = (
        "SELECT id FROM outbox_event WHERE status = 'pending' AND queue_name = 'ai-background' "
        "AND deliver_score <= 9000000000000 ORDER BY deliver_score, id LIMIT 10"
    )
    with world.engine.connect() as conn:
        conn.execute(sa.text(analyze[database_kind])).close()
        if database_kind == "postgresql":
            # with so few rows the planner would rather read them all, and sort them
            for way in ("seqscan", "bitmapscan", "sort"):
                conn.execute(sa.text(f"SET LOCAL enable_{way} = off"))
        explain = "EXPLAIN QUERY PLAN" if database_kind == "sqlite" else "EXPLAIN"
        plan = str([tuple(row) for row in conn.execute(sa.text(f"{explain} {query}"))])
        conn.rollback()

    assert "ix_outbox_event_due" in plan
    assert "TEMP B-TREE" not in plan
    assert "filesort" not in plan
    assert "Sort" not in plan


def _question() -> dict[str, str]:
    return {"question": "What?", "reference": "That.", "answer": "This."}

