"""The catalogue of faults: each puts processes on its stage, hurts them, and waits until all has ended.

What is judged afterwards is the same for all of them (``invariants``); only what is done differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.crashkit.app import KILLER_RETRIES
from engine.crashkit.options import Job, jobs, mixed
from engine.crashkit.stage import Stage
from outbox.base.points import Point

Perform = Callable[[Stage], None]

#: Points inside a transaction that holds the lock of the job's row: nobody can take that job over before
#: the transaction ends.
LOCKED_POINTS = (Point.WORKER_IN_PROJECTOR, Point.WORKER_BEFORE_COMMIT)

_CREATE = (Point.CREATE_BEFORE_INSERT, Point.CREATE_BEFORE_COMMIT, Point.CREATE_AFTER_COMMIT)
_DISPATCH = (Point.DISPATCHER_AFTER_CLAIM, Point.DISPATCHER_AFTER_PUT, Point.DISPATCHER_AFTER_MARK)
_WORK = (
    Point.WORKER_AFTER_TICKET, Point.WORKER_AFTER_CLAIM, Point.WORKER_BEFORE_EXECUTE, Point.WORKER_BEFORE_CALL,
    Point.WORKER_DURING_CALL, Point.WORKER_AFTER_CALL, Point.WORKER_AFTER_EXECUTE, *LOCKED_POINTS,
    Point.WORKER_AFTER_COMMIT,
)  # fmt: skip
_SETTLE = (Point.WORKER_BEFORE_SETTLE, Point.WORKER_AFTER_SETTLE)
_UPKEEP = (Point.UPKEEP_AFTER_READ, Point.UPKEEP_AFTER_TAKE_OVER)
_SHUTDOWN = (
    Point.SHUTDOWN_DRAINING, Point.SHUTDOWN_BEFORE_HAND_BACK, Point.SHUTDOWN_AFTER_HAND_BACK
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the catalogue."""

    name: str
    perform: Perform
    #: Whether it may share upkeep and Redis with other faults; the others are tried alone.
    together: bool = True
    #: Whether some processes need a wire to Redis that can be cut.
    wired: bool = False
    #: Whether SQLite can show it: there a frozen process may hold the only write lock there is.
    on_sqlite: bool = True


# ------------------------------------------------------------------ kill -9 at a point


def kill_creator(stage: Stage, at: Point) -> None:
    """The creator dies over its third job; its client tries all of them again."""
    stage.start("dispatcher")
    stage.start("worker")
    wanted = stage.expect(jobs(4))
    stage.wait_killed(stage.start("creator", ready=False, jobs=wanted, point=at, skip=2))
    again = stage.start("creator", jobs=wanted)
    stage.note_harm(None)
    again.wait("created")
    stage.wait_all_ended()


def kill_dispatcher(stage: Stage, at: Point) -> None:
    """The dispatcher dies over a batch."""
    stage.create(mixed())
    stage.start("worker")
    stage.wait_killed(stage.start("dispatcher", ready=False, point=at))
    stage.start("dispatcher")
    stage.note_harm(None)
    stage.wait_all_ended()


def kill_worker(stage: Stage, at: Point, *, fail_times: int = 0) -> None:
    """The worker dies over its first job, with two more in its hands."""
    stage.create(mixed(fail_times=fail_times))
    stage.start("dispatcher")
    victim = stage.start("worker", ready=False, point=at)
    stage.wait_killed(victim)
    stage.start("worker")
    stage.note_harm(None)
    stage.wait_all_ended()


def kill_upkeep(stage: Stage) -> None:
    """A worker is lost, and then each process that begins to heal what it left."""
    stage.create(mixed())
    stage.start("dispatcher", upkeep=False)
    victim = stage.start("worker", ready=False, point=Point.WORKER_BEFORE_EXECUTE)
    stage.wait_killed(victim)
    for at in _UPKEEP:
        stage.wait_killed(stage.start("dispatcher", ready=False, point=at))
    stage.start("dispatcher")
    stage.start("worker")
    stage.note_harm(None)
    stage.wait_all_ended()


def kill_redelivery(stage: Stage) -> None:
    """Redis loses all tickets, and then upkeep dies over delivering the first of them again."""
    stage.create(mixed())
    first = stage.start("dispatcher", ready=False, point=Point.DISPATCHER_AFTER_MARK)
    stage.wait_killed(first)
    stage.wipe_redis()
    stage.wait_killed(stage.start("dispatcher", ready=False, point=Point.UPKEEP_AFTER_REDELIVER))
    stage.start("dispatcher")
    stage.start("worker")
    stage.note_harm(None, promised_ms=stage.options.times.after_loss_ms)
    stage.wait_all_ended()


def kill_shutdown(stage: Stage, at: Point) -> None:
    """The worker is told to stop over long calls, and dies while it does so."""
    # Longer than a worker takes to notice a stop (it may be blocked in a look at its queue) and its grace.
    stage.create(jobs(2, call_ms=2_500))
    stage.start("dispatcher")
    grace_ms = stage.options.times.grace_ms if at is Point.SHUTDOWN_DRAINING else 200
    victim = stage.start("worker", point=at, times=replace(stage.options.times, grace_ms=grace_ms))
    stage.wait_calls(2)
    victim.ask_to_stop()
    stage.wait_killed(victim)
    stage.start("worker")
    stage.note_harm(None)
    stage.wait_all_ended()


# ------------------------------------------------------------------ frozen at a point, past its lease


def freeze_worker(stage: Stage, at: Point) -> None:
    """The worker stands still at ``at`` until its jobs have ended elsewhere; then it goes on."""
    stage.create(mixed())
    stage.start("dispatcher")
    victim = stage.start("worker", ready=False, point=at, act="freeze")
    stage.wait_frozen(victim)
    stage.start("worker")
    stage.note_harm(None)
    # Where the server does not end the frozen transaction, its job alone waits for the thaw.
    held_up = at in LOCKED_POINTS and not stage.ends_standing_transactions
    stage.wait_all_ended(but=1 if held_up else 0)
    victim.thaw()
    stage.wait_all_ended()
    victim.stop()


def freeze_dispatcher(stage: Stage, at: Point) -> None:
    """The dispatcher stands still over a batch until another one has delivered it; then it goes on."""
    stage.create(mixed())
    stage.start("worker")
    victim = stage.start("dispatcher", ready=False, point=at, act="freeze")
    stage.wait_frozen(victim)
    stage.start("dispatcher")
    stage.note_harm(None)
    stage.wait_all_ended()
    victim.thaw()
    victim.stop()


def freeze_upkeep(stage: Stage) -> None:
    """Upkeep stands still between reading and writing; what it wanted to heal ends meanwhile."""
    stage.create(mixed())
    stage.start("dispatcher", upkeep=False)
    stage.wait_killed(stage.start("worker", ready=False, point=Point.WORKER_BEFORE_EXECUTE))
    victim = stage.start(
        "dispatcher", ready=False, point=Point.UPKEEP_AFTER_READ, act="freeze"
    )
    stage.wait_frozen(victim)
    stage.start("dispatcher")
    stage.start("worker")
    stage.note_harm(None)
    stage.wait_all_ended()
    victim.thaw()
    victim.stop()


# ------------------------------------------------------------------ Redis


def flush_waiting(stage: Stage) -> None:
    """Redis loses the tickets of jobs that wait for a worker."""
    stage.create(mixed())
    stage.start("dispatcher")
    stage.wait_delivered()
    stage.wipe_redis()
    stage.note_harm(None, promised_ms=stage.options.times.after_loss_ms)
    stage.start("worker")
    stage.wait_all_ended()


def flush_running(stage: Stage) -> None:
    """Redis loses everything while jobs run: they go on, and their worker is not disturbed."""
    stage.create(jobs(3, call_ms=1_000))
    stage.start("dispatcher")
    stage.start("worker")
    stage.wait_calls(3)
    stage.wipe_redis()
    stage.note_harm(None, promised_ms=stage.options.times.after_loss_ms)
    stage.wait_all_ended()


def flush_and_kill(stage: Stage) -> None:
    """Redis loses everything while jobs run, and then their worker dies."""
    stage.create(jobs(3, call_ms=1_000))
    stage.start("dispatcher")
    victim = stage.start("worker")
    stage.wait_calls(3)
    stage.wipe_redis()
    victim.kill()
    stage.note_harm(victim)
    stage.start("worker")
    stage.wait_all_ended()


def redis_unreachable(stage: Stage) -> None:
    """Nobody reaches Redis for longer than a lease, while jobs run and others are created."""
    relay = stage.relay
    stage.create(jobs(2, stem="early", call_ms=stage.options.times.lease_ms))
    stage.start("dispatcher", wired=True)
    stage.start("worker", wired=True)
    stage.wait_calls(2)
    relay.cut()
    stage.create(jobs(2, stem="late"))
    stage.wait_ended("early0", "early1")
    relay.mend()
    stage.note_harm(None, promised_ms=stage.options.times.after_loss_ms)
    stage.wait_all_ended()


def redis_partitioned(stage: Stage) -> None:
    """One worker alone does not reach Redis for longer than a lease: its jobs stay its own."""
    stage.create(jobs(2, call_ms=2 * stage.options.times.lease_ms))
    stage.start("dispatcher")
    stage.start("worker", wired=True)
    stage.wait_calls(2)
    stage.relay.cut()
    stage.start("worker")
    stage.wait_all_ended()
    stage.relay.mend()


# ------------------------------------------------------------------ jobs and versions


def poison(stage: Stage) -> None:
    """A job kills its worker every time: it ends after its attempts, and the others go on."""
    killer = Job(key="killer", job_type="crashkit_killer", ends="failed")
    stage.create([*jobs(2), killer])
    stage.start("dispatcher")
    for _ in range(KILLER_RETRIES + 1):
        victim = stage.start("worker", ready=False)
        victim.wait_end()
        stage.note_harm(victim)
    stage.start("worker")
    stage.note_harm(None)
    stage.wait_all_ended()


def two_versions(stage: Stage) -> None:
    """A worker of the older version meets a type it does not know; the newer one runs the job."""
    stage.create([Job(key="new", job_type="crashkit_new"), *jobs(1)])
    stage.start("dispatcher", knows_new=False)
    old = stage.start("worker", knows_new=False)
    old.wait("fact", fact="job.type_unknown")
    stage.wait_ended("j0")
    stage.start("worker")
    stage.wait_all_ended()


def wrong_clocks(stage: Stage) -> None:
    """Hosts whose clocks are hours apart share a queue, for longer than a lease; then one of them dies."""
    hours = 3_600
    stage.create(jobs(3, call_ms=stage.options.times.lease_ms * 3 // 2))
    stage.start("dispatcher", clock_s=5 * hours)
    early = stage.start("worker", clock_s=-7 * hours, slots=2)
    late = stage.start("worker", clock_s=9 * hours, slots=2)
    stage.wait_calls(3)
    stage.wait_ended("j0")
    stage.wait_all_ended()
    wanted = stage.expect(jobs(2, stem="k", call_ms=2_000))
    stage.start("creator", jobs=wanted, clock_s=11 * hours).wait("created")
    stage.wait_calls(5)
    early.kill()
    stage.note_harm(early)
    stage.wait_all_ended()
    late.stop()


# ------------------------------------------------------------------ what the controls are tried with


def late_writer(stage: Stage) -> None:
    """A worker freezes with its output in hand and goes on while the next claim of its job still runs."""
    stage.create(jobs(1, call_ms=stage.options.times.lease_ms // 2))
    stage.start("dispatcher")
    victim = stage.start("worker", ready=False, point=Point.WORKER_AFTER_EXECUTE, act="freeze")
    stage.wait_frozen(victim)
    stage.start("worker")
    stage.wait_calls(2)
    victim.thaw()
    stage.wait_all_ended()
    victim.stop()


# ------------------------------------------------------------------ the list


def _each(
    perform: Callable[..., None], verb: str, points: Iterable[Point], **more: Any
) -> Iterator[Fault]:
    for at in points:
        yield Fault(f"{verb} {at.value}", partial(perform, at=at), **more)


CATALOGUE: tuple[Fault, ...] = (
    *_each(kill_creator, "kill", _CREATE),
    *_each(kill_dispatcher, "kill", _DISPATCH),
    *_each(kill_worker, "kill", _WORK),
    *(
        Fault(f"kill {at.value}", partial(kill_worker, at=at, fail_times=1))
        for at in _SETTLE
    ),
    Fault("kill upkeep.*", kill_upkeep, together=False),
    Fault(f"kill {Point.UPKEEP_AFTER_REDELIVER.value}", kill_redelivery, together=False),
    *_each(kill_shutdown, "kill", _SHUTDOWN),
    *_each(freeze_worker, "freeze", _WORK, on_sqlite=False),
    *_each(freeze_dispatcher, "freeze", _DISPATCH, on_sqlite=False),
    Fault(f"freeze {Point.UPKEEP_AFTER_READ.value}", freeze_upkeep, together=False, on_sqlite=False),
    Fault("Redis flushed, jobs wait", flush_waiting, together=False),
    Fault("Redis flushed, jobs run", flush_running, together=False),
    Fault("Redis flushed, worker killed", flush_and_kill, together=False),
    Fault("Redis unreachable", redis_unreachable, wired=True),
    Fault("Redis unreachable for one worker", redis_partitioned, wired=True),
    Fault("a job kills its worker every time", poison),
    Fault("workers of two versions", two_versions),
    Fault("clocks of hosts differ by hours", wrong_clocks),
)
