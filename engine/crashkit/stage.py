"""One fault's stage: a queue of its own, the jobs on it, the processes that serve it, and the verdict."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from engine.app import AiJobApp
from engine.crashkit import evidence, invariants
from engine.crashkit.app import make_app, request
from engine.crashkit.errors import KitStuckError
from engine.crashkit.evidence import Evidence, Harm
from engine.crashkit.invariants import RECOVERY, Breach, Case
from engine.crashkit.options import Job, KitOptions, Order, Role
from engine.crashkit.processes import Child, Processes, until
from engine.crashkit.relay import Relay
from outbox.base.db import UnitOfWork
from outbox.transports.rq import drill
from registry.errors import AiJobsError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one fault."""

    fault: str
    breaches: tuple[Breach, ...] = ()
    #: Set where the fault could not be tried to its end.
    stuck: str | None = None
    jobs: int = 0
    calls: int = 0
    repeated_calls: int = 0
    #: From the harm, or from when somebody was there to recover, to the last end; in ms.
    recovery_ms: int | None = None
    promised_ms: int | None = None
    #: Writes of lost claims that were refused.
    refused: int = 0
    #: How often the machine kept a worker from working for most of a lease: it counts as frozen.
    starved: int = 0

    @property
    def survived(self) -> bool:
        return not self.breaches and self.stuck is None


@dataclass(slots=True)
class _Clock:
    """Monotonic seconds: when the harm was done, and from when somebody was there to heal it."""

    harmed: float | None = None
    promised_ms: int = 0
    recovered: float | None = None


@dataclass(slots=True)
class Stage:
    """Everything one fault needs. Not for threads: one fault is one thread."""

    fault: str
    options: KitOptions
    processes: Processes
    uow: UnitOfWork
    queue: str
    prefix: str
    wire: Relay | None = None
    controls: tuple[str, ...] = ()
    wanted: dict[str, Job] = field(default_factory=dict)
    harm: Harm = field(default_factory=Harm)
    _clock: _Clock = field(default_factory=_Clock)
    _children: list[Child] = field(default_factory=list)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _app: AiJobApp | None = None

    # -------------------------------------------------------------- jobs

    def expect(self, jobs: Iterable[Job]) -> tuple[Job, ...]:
        """These jobs will be asked for by somebody."""
        found = tuple(jobs)
        self.wanted.update({job.key: job for job in found})
        return found

    def create(self, jobs: Iterable[Job]) -> None:
        """Create ``jobs`` here, from a process that is not hurt, and leave their tickets to dispatchers."""
        self.app.jobs.create_jobs([request(job, self.queue) for job in self.expect(jobs)])

    @property
    def app(self) -> AiJobApp:
        """The application in this process, for creating and cancelling."""
        if self._app is None:
            self._app = make_app(self._order("creator", {"early": False}))
        return self._app

    # -------------------------------------------------------------- processes

    def start(self, role: Role, *, ready: bool = True, **more: Any) -> Child:
        """Start a process; ``more`` are fields of :class:`Order`. With ``ready`` wait until it works."""
        child = self.processes.start(self._order(role, more))
        self._children.append(child)
        if ready:
            child.wait("ready")
        return child

    def _order(self, role: Role, more: dict[str, Any]) -> Order:
        places = replace(self.options.places, prefix=self.prefix)
        if more.get("wired"):
            places = replace(places, redis_url=self.relay.url)
        more = {key: value for key, value in more.items() if key != "wired"}
        fields: dict[str, Any] = {"controls": self.controls, "times": self.options.times} | more
        name = f"{self.queue}.{role}.{next(self._numbers)}"
        return Order(name=name, role=role, places=places, queue=self.queue, **fields)

    @property
    def ends_standing_transactions(self) -> bool:
        """Whether this server ends a frozen process's transaction, and so frees the rows it holds."""
        dialect = self.uow.engine.dialect
        return dialect.name == "postgresql" or bool(getattr(dialect, "is_mariadb", False))

    @property
    def relay(self) -> Relay:
        """The wire of this stage; processes started with ``wired=True`` reach Redis through it."""
        assert self.wire is not None, "the fault is not marked as wired"
        return self.wire

    # -------------------------------------------------------------- harm

    def wait_killed(self, victim: Child) -> None:
        """Wait until the armed ``victim`` has killed itself at its point."""
        victim.wait("point", timeout_s=self.options.patience_s)
        victim.wait_end()
        self.note_harm(victim)

    def wait_frozen(self, victim: Child) -> None:
        """Wait until the armed ``victim`` has frozen itself at its point."""
        victim.wait("stopped", timeout_s=self.options.patience_s)
        self.note_harm(victim)

    def note_harm(self, victim: Child | None, *, promised_ms: int | None = None) -> None:
        """The harm is done: from here on counts what was promised."""
        if victim is not None:
            self._note(victim)
        self._clock.harmed = time.monotonic()
        self._clock.promised_ms = promised_ms or self.options.times.after_crash_ms

    def wipe_redis(self) -> None:
        """Redis loses everything that is the kit's."""
        drill.wipe(self.options.places.redis_url, self.prefix)

    # -------------------------------------------------------------- ends

    def wait_all_ended(self, *, but: int = 0) -> None:
        """Wait until all jobs have ended, or all ``but`` some; the first time ends what is measured."""
        until(
            lambda: self._read(evidence.unfinished) <= but and self._created(),
            timeout_s=self.options.patience_s,
            what=lambda: f"{self._read(evidence.unfinished)} jobs have not ended",
        )
        if self._clock.harmed is not None and self._clock.recovered is None:
            self._clock.recovered = time.monotonic()

    def wait_calls(self, count: int) -> None:
        """Wait until the provider was called ``count`` times."""
        until(
            lambda: self._read(evidence.calls) >= count,
            timeout_s=self.options.patience_s,
            what=lambda: f"{self._read(evidence.calls)} calls of {count}",
        )

    def wait_delivered(self) -> None:
        """Wait until no event is on its way."""
        until(
            lambda: self._read(evidence.open_events) == 0,
            timeout_s=self.options.patience_s,
            what=lambda: f"{self._read(evidence.open_events)} events on their way",
        )

    def wait_ended(self, *keys: str) -> None:
        """Wait until the jobs ``keys`` have ended."""
        until(
            lambda: self._ended(keys), timeout_s=self.options.patience_s, what=lambda: f"{keys} have not ended"
        )

    def _ended(self, keys: tuple[str, ...]) -> bool:
        found = self.uow.read(lambda conn: evidence.gather(conn, self.queue))
        ended = {job.key for job in found.jobs if job.is_final}
        return ended >= set(keys)

    def _created(self) -> bool:
        return self._read(evidence.count) >= len(self.wanted)

    def finish(self) -> None:
        """Let the outbox and Redis settle, then stop every process in good order."""
        patience = self.options.times.after_crash_ms / 1000 + self.options.slack_ms / 1000
        # What is left then is judged, not waited for.
        with suppress(KitStuckError):
            until(
                lambda: self._read(evidence.open_events) == 0 and not self._leftovers(),
                timeout_s=patience,
                what=lambda: "the outbox or Redis is not settled",
            )
        self.stop_all()

    def stop_all(self) -> None:
        """SIGTERM to all who are there, and wait for their ends."""
        alive = [child for child in self._children if not child.ended]
        for child in alive:
            child.ask_to_stop()
        for child in alive:
            child.wait_end()

    def close(self) -> None:
        """End what is still there, and let go of connections."""
        for child in self._children:
            if not child.ended:
                child.kill()
        if self._app is not None:
            self._app.close()
        if self.wire is not None:
            self.wire.__exit__()

    def gave_up(self, error: AiJobsError) -> Verdict:
        """The fault could not be tried to its end: what is to be seen at this moment, and why."""
        logs = [f"{c.name}: {tail}" for c in self._children if (tail := c.log_tail()[-500:].strip())]
        return replace(self.verdict(), stuck="\n".join([str(error), *logs]))

    def verdict(self) -> Verdict:
        """Judge what the tables, Redis and the clock say."""
        starved = self._note_starved()
        leftovers = self._leftovers()
        found = self.uow.read(lambda conn: evidence.gather(conn, self.queue, leftovers))
        breaches = invariants.judge(Case(self.wanted, found, self.harm))
        took = self._recovery_ms()
        if took is not None and not starved and took > self._clock.promised_ms + self.options.slack_ms:
            breaches.append(Breach(RECOVERY, f"{took} ms, promised are {self._clock.promised_ms} ms"))
        return self._verdict(found, breaches, took, starved)

    def _note_starved(self) -> int:
        """Processes that the machine has frozen are harmed like those that the kit has."""
        starved = [child for child in self._children if child.count("starved")]
        # Without a protection nothing is excused: there a breach is what is wanted.
        for child in starved if not self.controls else []:
            self._note(child)
        return sum(child.count("starved") for child in starved)

    def _note(self, victim: Child) -> None:
        self.harm.note(victim.name, self.uow.read(self.app.clock.read))

    def _verdict(self, found: Evidence, breaches: list[Breach], took: int | None, starved: int) -> Verdict:
        facts = [child.facts() for child in self._children]
        refused = ("job.fenced", "usage.fenced", "outbox.claim_lost")
        return Verdict(
            fault=self.fault,
            breaches=tuple(breaches),
            jobs=len(found.jobs),
            calls=found.calls,
            repeated_calls=found.repeated_calls,
            recovery_ms=took,
            promised_ms=self._clock.promised_ms if took is not None else None,
            refused=sum(fact.get(name, 0) for fact in facts for name in refused),
            starved=starved,
        )

    def _recovery_ms(self) -> int | None:
        if self._clock.harmed is None or self._clock.recovered is None:
            return None
        return round((self._clock.recovered - self._clock.harmed) * 1000)

    def _leftovers(self) -> list[str]:
        mine = f":{self.queue}"
        found = drill.leftovers(self.options.places.redis_url, self.prefix)
        return [name for name in found if mine in name or f"{self.queue}__" in name]

    def _read(self, ask: Callable[[sa.Connection, str], int]) -> int:
        return self.uow.read(lambda conn: ask(conn, self.queue))

