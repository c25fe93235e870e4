"""`World`: an application on a database and a transport, a clock that moves, and words for what happens in it.

    job = world.create(payload={"value": 1})
    world.dispatch()
    world.work()
    assert world.job(job.id).lifecycle_status == "succeeded"

Nothing in it is a stand-in but the model provider. `world.advance(seconds)` moves the database's clock and the
transport's together, so nothing waits for a lease or a backoff. `World.rows` and `World.change` look at and lay
out rows past the repositories; only tests may do that.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from engine.app import AiJobApp
from engine.config import Settings
from engine.intake.commands import CreatedJob, CreateJobInput, JobOverrides
from engine.lifecycle import views
from engine.lifecycle.candidates import ClaimedJob
from engine.lifecycle.lease import Claim, Lease, Refusal
from engine.upkeep.upkeep import Upkeep
from engine.worker.assembly import make_outbox_dispatcher, make_upkeep, make_worker
from engine.worker.process import WorkerProcess
from outbox import queries
from outbox.base.tables import METADATA
from outbox.dispatcher import OutboxDispatcher
from outbox.events import EventType
from outbox.queries import EventView
from outbox.transports.base import SteerableTransport
from projectors import ArtifactRef, artifacts
from registry.job import JobView, LifecycleStatus
from tests.support.provider import ScriptedProvider
from tests.support.wait import PATIENCE_S

T = TypeVar("T")

QUEUE = "ai-background"
LEASE_MS = 60_000
LEASE_S = LEASE_MS // 1000

_names = itertools.count(1)


class World:
    """One application and everything that happens to it. Close it, or use it in a `with` block."""

    def __init__(
        self,
        url: str,
        transport: SteerableTransport | str = "memory://",
        *,
        provider: ScriptedProvider | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are fields of `Settings`; a transport given as a URL is closed with the world.

        Tickets are put by a dispatcher alone unless `dispatcher={"early": True}`: a test takes one step at a time.
        """
        settings["dispatcher"] = {"early": False, **settings.get("dispatcher", {})}
        carried: dict[str, Any] = {}
        if isinstance(transport, str):
            settings["redis_url"] = transport
        else:
            carried["transport"] = transport
        self.provider = provider or ScriptedProvider()
        self.app = AiJobApp(
            settings=Settings(database_url=url, **settings), provider=self.provider, **carried
        )
        self._dispatcher: OutboxDispatcher | None = None
        self._upkeep: Upkeep | None = None
        self._owns_transport = isinstance(transport, str)

    # -- parts ---------------------------------------------------------------------------

    @property
    def engine(self) -> sa.Engine:
        return self.app.database

    @property
    def transport(self) -> SteerableTransport:
        return self.app.transport  # type: ignore[return-value]

    @property
    def dispatcher(self) -> OutboxDispatcher:
        """One dispatcher that lives as long as the world (it remembers an open breaker)."""
        if self._dispatcher is None:
            self.app.start()
            self._dispatcher = make_outbox_dispatcher(self.app, owner="dispatcher-1")
        return self._dispatcher

    def count(self, fact: str) -> int:
        """How often the fact was emitted."""
        return self.app.telemetry.count(fact)

    def run(self, unit: Callable[[sa.Connection], T]) -> T:
        """Run a unit of work."""
        return self.app.uow.run(unit)

    # -- what happens ----------------------------------------------------------------------

    def request(self, **wanted: Any) -> CreateJobInput:
        """A request for a synthetic job; every field may be given."""
        number = next(_names)
        values: dict[str, Any] = {
            "user_id": "user-1",
            "job_type": "synthetic",
            "target_type": "note",
            "target_id": f"note-{number}",
            "payload": {"value": number},
        }
        if "key" in wanted:
            wanted["idempotency_key"] = wanted.pop("key")
            values["target_id"] = "note"
            values["payload"] = {"value": "same"}
        if "priority" in wanted:
            wanted["overrides"] = JobOverrides(priority=wanted.pop("priority"))
        return CreateJobInput(**(values | wanted))

    def create(self, *, session: Any = None, **wanted: Any) -> JobView:
        """Create a job (see `request`)."""
        return self.created(session=session, **wanted).job

    def created(self, *, session: Any = None, **wanted: Any) -> CreatedJob:
        """Create a job; the whole answer."""
        return self.app.jobs.create_job(self.request(**wanted), session=session)

    def dispatch(self) -> None:
        """Run dispatcher rounds until nothing is left to do at once."""
        while self.dispatcher.run_once():
            pass

    def upkeep(self) -> None:
        """Run upkeep until nothing is left to do at once."""
        if self._upkeep is None:
            self.app.start()
            self._upkeep = make_upkeep(self.app)
        while self._upkeep.run_once():
            pass

    def advance(self, seconds: float) -> None:
        """Let time pass, on the database's clock and on the transport's; deferred tickets come back."""
        self.app.clock.advance(seconds * 1000)
        self.transport.advance(round(seconds * 1000))
        for queue in self.app.registry.queues:
            self.transport.recover(queue.name)

    def worker(self, *queues: str, concurrency: int = 8, name: str | None = None, **options: Any) -> WorkerProcess:
        """A worker process of this application, not yet running."""
        queues = queues or (QUEUE,)
        name = name or f"worker-{next(_names)}"
        return make_worker(self.app, queues, concurrency=concurrency, name=name, **options)

    def work(self, *queues: str, **options: Any) -> None:
        """Run a worker until its queues are empty."""
        worker = self.worker(*queues, **options)
        _in_a_thread(lambda: worker.run(burst=True))

    @contextmanager
    def working(self, *queues: str, **options: Any) -> Iterator[WorkerProcess]:
        """A worker that runs beside the test and is stopped at the end, as by two SIGTERMs."""
        worker = self.worker(*queues, **options)
        thread = threading.Thread(target=worker.run, name="test-worker", daemon=True)
        thread.start()
        assert worker.wait_ready(PATIENCE_S)
        try:
            yield worker
        finally:
            worker.stop()
            worker.stop()
            thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the worker did not stop"

    def settle(self, rounds: int = 50) -> None:
        """Dispatch, work, let time pass and heal until every job has ended."""
        for _ in range(rounds):
            self.dispatch()
            self.work(*(queue.name for queue in self.app.registry.queues))
            if not self.open_jobs():
                return
            self.advance(90)
            self.upkeep()
        raise AssertionError(f"still open after {rounds} rounds: {self.open_jobs()}")

    # -- claims, as a worker makes them --------------------------------------------------------

    def try_claim(
        self, job_id: UUID, *, delivery_no: int = 1_000_000, worker: str = "worker-a", lease_ms: int = LEASE_MS
    ) -> Claim | Refusal:
        """Claim one job past the transport."""
        claim = self.app.lifecycle.claim
        answer = self.run(
            lambda conn: claim(conn, {job_id: delivery_no}, worker=worker, lease_ms=lease_ms)
        )[job_id]
        return answer.claim if isinstance(answer, ClaimedJob) else answer

    def claim(self, job_id: UUID, **how: Any) -> Lease:
        """Claim one job past the transport and return the lease."""
        answer = self.try_claim(job_id, **how)
        assert isinstance(answer, Claim), answer
        return answer.lease

    def claimed(self, **wanted: Any) -> Lease:
        """A new job in the hands of worker-a."""
        return self.claim(self.create(**wanted).id)

    # -- looking ---------------------------------------------------------------------------

    def job(self, job_id: UUID) -> JobView:
        return self.app.jobs.get(job_id)

    def output(self, job_id: UUID) -> Any:
        return self.app.jobs.output(job_id)

    def open_jobs(self) -> list[JobView]:
        wanted = views.JobFilter(statuses=(LifecycleStatus.QUEUED, LifecycleStatus.RUNNING))
        return self.app.uow.read(lambda conn: views.page(conn, wanted, limit=500))

    def claims(self, job_id: UUID) -> list[views.ClaimView]:
        return self.app.uow.read(lambda conn: views.claims(conn, job_id))

    def events(self, job_id: UUID, event_type: EventType | None = None) -> list[EventView]:
        found = self.app.uow.read(lambda conn: queries.of_job(conn, job_id))
        return [event for event in found if event_type in (None, event.event_type)]

    def deliveries(self, job_id: UUID) -> list[EventView]:
        """The enqueue events of a job, oldest first."""
        return self.events(job_id, EventType.ENQUEUE)

    def endings(self, job_id: UUID) -> list[EventView]:
        """The terminal events of a job."""
        return [event for event in self.events(job_id) if event.event_type != EventType.ENQUEUE]

    def calls(self, job_id: UUID) -> list[sa.RowMapping]:
        """The usage rows of a job."""
        return self.app.uow.read(lambda conn: self.app.usage.calls(conn, job_id))

    def artifacts(self, job_id: UUID) -> list[ArtifactRef]:
        return self.app.uow.read(lambda conn: artifacts.existing(conn, job_id))

    def depth(self, queue: str = QUEUE) -> int:
        """Waiting tickets."""
        return self.transport.depth([queue])[queue]

    # -- rows, past every repository --------------------------------------------------------------

    def table(self, name: str) -> sa.Table:
        return METADATA.tables[name]

    def rows(self, table: str, **where: Any) -> list[dict[str, Any]]:
        """All rows of a table whose columns have these values."""
        source = self.table(table)
        query = sa.select(source).where(*(source.c[name] == value for name, value in where.items()))
        return [dict(row) for row in self.app.uow.read(lambda conn: conn.execute(query).mappings().all())]

    def row(self, job_id: UUID) -> dict[str, Any]:
        """The job's row, every column."""
        [row] = self.rows("ai_job", id=job_id)
        return row

    def change(self, table: str, where: Mapping[str, Any], **values: Any) -> None:
        """Lay out rows as a test needs them."""
        target = self.table(table)
        statement = sa.update(target).where(*(target.c[name] == value for name, value in where.items()))
        assert self.run(lambda conn: conn.execute(statement.values(**values)).rowcount)

    def counts(self) -> dict[str, int]:
        """How many rows each table of jobs has."""
        names = ("ai_job", "ai_job_snapshot", "ai_job_output", "ai_job_claim", "ai_job_artifact", "outbox_event")
        count = sa.select(sa.func.count())
        counts = (count.select_from(self.table(name)).scalar_subquery().label(name) for name in names)
        query = sa.select(*counts)
        return dict(self.app.uow.read(lambda conn: conn.execute(query).mappings().one()))

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        if not self._owns_transport:
            # It belongs to the test; the app would close it.
            self.app.__dict__.pop("transport", None)
        self.app.close()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _in_a_thread(act: Callable[[], T]) -> T:
    """Run `act` where no event loop runs, whatever the test's own thread does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return act()
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(act()))
    thread.start()
    thread.join()
    return results[0]


def ids(jobs: Sequence[JobView]) -> list[UUID]:
    return [job.id for job in jobs]
