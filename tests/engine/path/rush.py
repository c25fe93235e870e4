"""Many acts in a row, mixed by their weights: what single steps would come to only by luck."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from engine.intake.early import put_early
from outbox.base.points import Point
from outbox.scores import Score
from outbox.transports.base import Ticket
from tests.engine.path.account import STEPS, Hand
from tests.engine.path.walk import Walk
from tests.support.world import QUEUE

WRITES = ("succeed", "succeed", "fail", "retry", "rate", "again", "release", "cancel")

Act = Callable[[Walk, Random], object]


def _create(walk: Walk, dice: Random) -> None:
    if len(walk.open_jobs()) < 3 and len(walk.fates) < 10:
        key = dice.choice([None, None, None, "a", "b"])
        killed = dice.choice([None, None, Point.CREATE_AFTER_COMMIT, Point.CREATE_BEFORE_COMMIT])
        walk.create(key, dice.randint(0, 1), delayed=dice.random() < 0.1, priority=50, killed=killed)


def _dispatch(walk: Walk, dice: Random) -> None:
    dies = dice.choice([Point.DISPATCHER_AFTER_CLAIM, Point.DISPATCHER_AFTER_PUT, Point.DISPATCHER_AFTER_MARK])
    walk.dispatch(killed=dies if dice.random() < 0.3 else None)


def _dispatch_refused(walk: Walk, dice: Random) -> None:
    if walk.fates:
        walk.transport.refused.add(dice.choice(list(walk.fates)))
        walk.dispatch()
        walk.transport.refused.clear()


def _serve(walk: Walk, _dice: Random) -> None:
    walk.dispatch()
    walk.take(1)


def _hand(walk: Walk, dice: Random) -> Hand | None:
    """Mostly one that is held."""
    held = [hand for hand in walk.hands if not hand.gone]
    hands = held if held and dice.random() < 0.7 else walk.hands
    return dice.choice(hands) if hands else None


def _finish(walk: Walk, dice: Random) -> None:
    if hand := _hand(walk, dice):
        walk.finish(hand, dice.choice(WRITES), settles=dice.random() < 0.6)


def _finish_together(walk: Walk, _dice: Random) -> None:
    hands = {hand.work.job.id: hand for hand in walk.hands}
    if len(hands) > 1:
        walk.finish_together(list(hands.values()))


def _beat(walk: Walk, dice: Random) -> None:
    if hand := _hand(walk, dice):
        walk.beat(hand)


def _forget(walk: Walk, dice: Random) -> None:
    if hand := _hand(walk, dice):
        hand.gone = True


def _cancel(walk: Walk, dice: Random) -> None:
    if walk.fates:
        walk.cancel(dice.choice(list(walk.fates)))


def _upkeep(walk: Walk, dice: Random) -> None:
    dies = dice.choice([Point.UPKEEP_AFTER_READ, Point.UPKEEP_AFTER_TAKE_OVER, Point.UPKEEP_AFTER_REDELIVER])
    walk.upkeep(killed=dies if dice.random() < 0.2 else None)


def _put_again(walk: Walk, dice: Random) -> None:
    if walk.transport.put:
        walk.transport.put_many([dice.choice(walk.transport.put)])


def _put_early(walk: Walk, dice: Random) -> None:
    """Its creator's thread comes to it at any time: the first delivery, whatever became of the job meanwhile."""
    # A job that has begun was due, whatever it waits for now.
    due = [
        row for job_id in walk.fates
        if (row := walk.rows.jobs[job_id])["attempt_count"] or row["available_at"] <= row["created_at"]
    ]  # fmt: skip
    if due:
        row = dice.choice(due)
        score = Score(1_000).first(row["priority"], row["available_at"])
        put_early(walk.transport, [Ticket(row["id"], row["job_type"], QUEUE, 1, score, created_at_ms=0)])


def _operate(walk: Walk, dice: Random) -> None:
    # In an order that is the same in every run.
    jobs = list(walk.fates)
    events = sorted(
        (e for e in walk.rows.events.values() if e["event_type"] == "ai.job.enqueue"),
        key=lambda e: (jobs.index(e["aggregate_id"]), e["delivery_no"]),
    )
    dead = [event for event in events if event["status"] == "dead"]
    if dead and dice.random() < 0.3:
        walk.discard(dice.choice(dead))
    elif events:
        walk.redeliver(dice.choice(dead or events))


#: act -> how often it comes
ACTS: dict[Act, int] = {
    _create: 4,
    _dispatch: 4,
    _serve: 8,
    _dispatch_refused: 2,
    lambda walk, dice: walk.take(dice.randint(1, 2), dies=dice.random() < 0.2): 4,
    _finish: 10,
    _finish_together: 1,
    _beat: 1,
    _forget: 2,
    _cancel: 1,
    lambda walk, dice: walk.pass_time(dice.choice(STEPS)): 6,
    _upkeep: 5,
    lambda walk, _: walk.transport.lose_everything(): 1,
    _put_again: 2,
    _put_early: 3,
    _operate: 1,
}


def rush(walk: Walk, seed: int, acts: int) -> None:
    """Do ``acts`` things, and look after each."""
    dice = Random(seed)
    for act in dice.choices(list(ACTS), list(ACTS.values()), k=acts):
        act(walk, dice)
        walk.look()
