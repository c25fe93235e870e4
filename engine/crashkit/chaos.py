"""A seeded run of random faults on many jobs: kills, freezes, wipes of Redis and cuts of the wire to it.

The seed fixes what is done to whom and after which pauses; what the processes are doing at that moment is
up to the machine. At the end everything is healed, and everything must have come out right.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.crashkit.kit import Kit
from engine.crashkit.options import Job
from engine.crashkit.processes import Child
from engine.crashkit.relay import can_relay
from engine.crashkit.stage import Stage, Verdict
from registry.errors import AiJobsError

Tell = Callable[[str], None]

#: What may be done, and how often in a hundred.
_WEIGHTS = {
    "worker killed": 36,
    "worker frozen": 20,
    "dispatcher killed": 20,
    "creator killed": 10,
    "Redis wiped": 6,
    "Redis cut off": 8,
}
_KINDS = ("crashkit_call", "crashkit_call", "crashkit_plain", "crashkit_thread")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosPlan:
    """How much of everything."""

    seed: int
    seconds: float = 30.0
    jobs: int = 400
    workers: int = 3
    dispatchers: int = 2
    slots: int = 8
    #: Longest pause between two faults, in seconds.
    pause_s: float = 0.8


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """What was done, and what came of it."""

    plan: ChaosPlan
    verdict: Verdict
    faults: dict[str, int]
    took_s: float


@dataclass(slots=True)
class _Run:
    """The processes of a chaos run and what is being done to them."""

    plan: ChaosPlan
    stage: Stage
    dice: random.Random
    jobs: tuple[Job, ...]
    workers: list[Child] = field(default_factory=list)
    dispatchers: list[Child] = field(default_factory=list)
    creator: Child | None = None
    #: Frozen workers, and when they are to be thawed (monotonic seconds).
    frozen: dict[int, float] = field(default_factory=dict)
    cut_until: float = 0.0
    done: Counter[str] = field(default_factory=Counter)

    # -------------------------------------------------------------- processes

    def begin(self) -> None:
        self.dispatchers = [self._dispatcher() for _ in range(self.plan.dispatchers)]
        self.workers = [self._worker() for _ in range(self.plan.workers)]
        self.creator = self._creator()

    def _worker(self) -> Child:
        return self.stage.start("worker", ready=False, slots=self.plan.slots, wired=self._wired)

    def _dispatcher(self) -> Child:
        return self.stage.start("dispatcher", ready=False, wired=self._wired)

    def _creator(self) -> Child:
        pace = round(self.plan.seconds * 700 / max(1, self.plan.jobs))
        return self.stage.start("creator", ready=False, jobs=self.jobs, pace_ms=pace)

    @property
    def _wired(self) -> bool:
        return self.stage.wire is not None

    # -------------------------------------------------------------- faults

    def go_on(self) -> None:
        """One fault, or none when it does not fit at this moment."""
        [fault] = self.dice.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))
        act = {
            "worker killed": self._kill_worker,
            "worker frozen": self._freeze_worker,
            "dispatcher killed": self._kill_dispatcher,
            "creator killed": self._kill_creator,
            "Redis wiped": self._wipe,
            "Redis cut off": self._cut,
        }[fault]
        if act():
            self.done[fault] += 1

    def _kill_worker(self) -> bool:
        index = self.dice.randrange(len(self.workers))
        self.workers[index].kill()
        self.stage.note_harm(self.workers[index])
        self.frozen.pop(index, None)
        self.workers[index] = self._worker()
        return True

    def _freeze_worker(self) -> bool:
        if self.stage.uow.engine.dialect.name == "sqlite":
            # It may hold the only write lock there is.
            return False
        index = self.dice.randrange(len(self.workers))
        lease_s = self.stage.options.times.lease_ms / 1000
        pause_s = lease_s * self.dice.uniform(0.3, 2.0)
        if index in self.frozen or not self.workers[index].count("ready"):
            return False
        self.workers[index].freeze()
        self.stage.note_harm(self.workers[index])
        self.frozen[index] = time.monotonic() + pause_s
        return True

    def _kill_dispatcher(self) -> bool:
        index = self.dice.randrange(len(self.dispatchers))
        self.dispatchers[index].kill()
        self.dispatchers[index] = self._dispatcher()
        return True

    def _kill_creator(self) -> bool:
        assert self.creator is not None
        if self.creator.ended:
            return False
        self.creator.kill()
        # Its client tries again, with the same keys.
        self.creator = self._creator()
        return True

    def _wipe(self) -> bool:
        self.stage.wipe_redis()
        return True

    def _cut(self) -> bool:
        pause_s = self.dice.uniform(0.2, 2.0)
        if not self._wired:
            return False
        self.stage.relay.cut()
        self.cut_until = time.monotonic() + pause_s
        return True

    # -------------------------------------------------------------- healing

    def heal(self, *, everything: bool = False) -> None:
        """Thaw and mend what has been hurt for long enough."""
        now = time.monotonic()
        for index, until in list(self.frozen.items()):
            if everything or until <= now:
                self.workers[index].thaw()
                del self.frozen[index]
        if self.cut_until and (everything or self.cut_until <= now):
            self.stage.relay.mend()
            self.cut_until = 0.0

    def end(self) -> None:
        """Heal everything and wait until everything has ended."""
        self.heal(everything=True)
        assert self.creator is not None
        if self.creator.wait_end(self.stage.options.patience_s) != 0:
            self._creator().wait_end(self.stage.options.patience_s)
        self.stage.wait_all_ended()
        self.stage.finish()


def run(kit: Kit, plan: ChaosPlan, *, tell: Tell = lambda _: None) -> ChaosReport:
    """Run ``plan`` and judge what is left."""
    dice = random.Random(plan.seed)  # noqa: S311 - repeatable on purpose
    began = time.monotonic()
    wired = can_relay(kit.options.places.redis_url)
    with kit.stage(f"chaos, seed {plan.seed}", wired=wired) as stage:
        run_ = _Run(plan, stage, dice, stage.expect(_jobs(plan, dice)))
        try:
            _hurt(run_, tell)
            run_.end()
        except AiJobsError as error:
            verdict = stage.gave_up(error)
        else:
            verdict = stage.verdict()
    return ChaosReport(plan, verdict, dict(run_.done), time.monotonic() - began)


def _hurt(run_: _Run, tell: Tell) -> None:
    run_.begin()
    deadline = time.monotonic() + run_.plan.seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, run_.dice.uniform(0.1, run_.plan.pause_s)))
        run_.heal()
        run_.go_on()
        tell(f"{sum(run_.done.values())} faults, {left:.0f} s left")


def _jobs(plan: ChaosPlan, dice: random.Random) -> Iterable[Job]:
    for number in range(plan.jobs):
        yield Job(
            key=f"c{number}",
            job_type=dice.choice(_KINDS),
            call_ms=dice.randrange(10, 600),
            fail_times=1 if dice.random() < 0.1 else 0,
        )
