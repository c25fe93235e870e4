"""What the tables and Redis say after a fault, read with statements that share nothing with the engine's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from engine.crashkit.app import PREFIX
from engine.crashkit.tables import CALL, EFFECT
from outbox.base.types import BinaryUuid, UtcDateTime

FINAL = ("succeeded", "failed", "cancelled")


def _table(name: str, ids: str, plain: str = "", times: str = "") -> sa.TableClause:
    columns: list[sa.ColumnClause[Any]] = [sa.column(c, BinaryUuid()) for c in ids.split()]
    columns += [sa.column(c) for c in plain.split()]
    columns += [sa.column(c, UtcDateTime()) for c in times.split()]
    return sa.table(name, *columns)


JOB = _table(
    "ai_job",
    "id",
    "job_type queue_name idempotency_key lifecycle_status outcome error_code attempt_count max_attempts "
    "epoch locked_by",
    "lock_until finished_at",
)
EVENT = _table("outbox_event", "id aggregate_id", "event_type status delivery_no")
CLAIM = _table("ai_job_claim", "job_id", "epoch attempt_no start_reason worker", "started_at")
USAGE = _table("ai_usage_log", "job_id", "epoch call_no operation_id status")
SNAPSHOT = _table("ai_job_snapshot", "job_id")
OUTPUT = _table("ai_job_output", "job_id")
ARTIFACT = _table("ai_job_artifact", "job_id")


class EventRow(NamedTuple):
    """One outbox event of a job."""

    event_type: str
    status: str
    delivery_no: int


class ClaimRow(NamedTuple):
    """One start of a job."""

    epoch: int
    start_reason: str
    worker: str
    started_at: datetime


class CallRow(NamedTuple):
    """One provider call, as the provider saw it."""

    operation_id: str
    worker: str


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Everything the tables say about one job."""

    id: UUID
    key: str
    job_type: str
    status: str
    error_code: str | None
    attempt_count: int
    max_attempts: int
    epoch: int
    held: bool
    finished_at: datetime | None
    snapshots: int = 1
    outputs: int = 0
    artifacts: int = 0
    #: The epoch of each business row.
    effects: tuple[int, ...] = ()
    events: tuple[EventRow, ...] = ()
    claims: tuple[ClaimRow, ...] = ()
    calls: tuple[CallRow, ...] = ()
    #: Operation ids of the intents that were stored before a call.
    intents: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.status in FINAL


@dataclass(frozen=True, slots=True)
class Evidence:
    """All jobs of one queue, and what is left in Redis."""

    jobs: tuple[JobFacts, ...]
    #: Events, snapshots and so on of the queue's jobs that have no job.
    orphans: int = 0
    leftovers: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        return sum(len(job.calls) for job in self.jobs)

    @property
    def repeated_calls(self) -> int:
        """Calls beyond one for each job that was called for at all."""
        return sum(max(0, len(job.calls) - 1) for job in self.jobs)


@dataclass(slots=True)
class Harm:
    """What the kit did to its own processes: when each of them was last killed or frozen."""

    by_worker: dict[str, datetime] = field(default_factory=dict)

    def note(self, worker: str, at: datetime) -> None:
        """``worker`` was killed or frozen not later than ``at``, database time."""
        self.by_worker[worker] = at

    def hit(self, job: JobFacts, worker: str) -> bool:
        """Whether ``worker`` was harmed with a claim of ``job`` in its hands."""
        at = self.by_worker.get(worker)
        return at is not None and any(c.worker == worker and c.started_at <= at for c in job.claims)


def unfinished(conn: sa.Connection, queue: str) -> int:
    """How many jobs of ``queue`` have not ended."""
    query = sa.select(sa.func.count()).select_from(JOB).where(
        JOB.c.queue_name == queue, JOB.c.lifecycle_status.not_in(FINAL)
    )
    return int(conn.execute(query).scalar_one())


def count(conn: sa.Connection, queue: str) -> int:
    """How many jobs ``queue`` has."""
    query = sa.select(sa.func.count()).select_from(JOB).where(JOB.c.queue_name == queue)
    return int(conn.execute(query).scalar_one())


def calls(conn: sa.Connection, queue: str) -> int:
    """How many provider calls were made for ``queue``."""
    query = sa.select(sa.func.count()).select_from(CALL).where(CALL.c.queue_name == queue)
    return int(conn.execute(query).scalar_one())


def open_events(conn: sa.Connection, queue: str) -> int:
    """How many events of the queue's jobs are still on their way."""
    query = (
        sa.select(sa.func.count())
        .select_from(EVENT.join(JOB, JOB.c.id == EVENT.c.aggregate_id))
        .where(JOB.c.queue_name == queue, EVENT.c.status.in_(("pending", "processing")))
    )
    return int(conn.execute(query).scalar_one())


def foreign_jobs(conn: sa.Connection) -> int:
    """How many jobs the database holds that are not the kit's, counted up to 1000."""
    others = sa.select(JOB.c.id).where(JOB.c.job_type.not_like(PREFIX.replace("_", "\\_") + "%", escape="\\"))
    query = sa.select(sa.func.count()).select_from(others.limit(1_000).subquery())
    return int(conn.execute(query).scalar_one())


def gather(conn: sa.Connection, queue: str, leftovers: Iterable[str] = ()) -> Evidence:
    """Read all that is to be judged about the jobs of ``queue``."""
    ids = sa.select(JOB.c.id).where(JOB.c.queue_name == queue)
    of_jobs = _Children(conn, ids)
    effects = of_jobs.lists(EFFECT, EFFECT.c.epoch, key="job_id")
    calls = of_jobs.lists(CALL, CALL.c.operation_id, CALL.c.worker, order="id")
    events = of_jobs.lists(
        EVENT, EVENT.c.event_type, EVENT.c.status, EVENT.c.delivery_no, key="aggregate_id"
    )
    claims = of_jobs.lists(
        CLAIM, CLAIM.c.epoch, CLAIM.c.start_reason, CLAIM.c.worker, CLAIM.c.started_at, order="epoch"
    )
    intents = of_jobs.lists(USAGE, USAGE.c.operation_id)
    snapshots, outputs, artifacts = (of_jobs.counts(t) for t in (SNAPSHOT, OUTPUT, ARTIFACT))
    facts = tuple(
        JobFacts(
            id=row.id, key=(row.idempotency_key or "").removeprefix(f"{queue}/"), job_type=row.job_type,
            status=row.lifecycle_status, error_code=row.error_code, epoch=row.epoch,
            attempt_count=row.attempt_count, max_attempts=row.max_attempts, finished_at=row.finished_at,
            held=row.locked_by is not None or row.lock_until is not None,
            snapshots=snapshots[row.id], outputs=outputs[row.id],
            artifacts=artifacts[row.id], effects=tuple(x[0] for x in effects[row.id]),
            events=tuple(EventRow(*x) for x in events[row.id]),
            claims=tuple(ClaimRow(*x) for x in claims[row.id]),
            calls=tuple(CallRow(*x) for x in calls[row.id]),
            intents=tuple(x[0] for x in intents[row.id]),
        )
        for row in conn.execute(sa.select(JOB).where(JOB.c.queue_name == queue))
    )  # fmt: skip
    return Evidence(facts, _orphans(conn), tuple(leftovers))


class _Children:
    """Rows of other tables, by the job they belong to."""

    def __init__(self, conn: sa.Connection, ids: sa.Select[Any]) -> None:
        self._conn = conn
        self._ids = ids

    def lists(
        self, table: Any, *columns: Any, key: str = "job_id", order: str | None = None
    ) -> Mapping[UUID, list[tuple[Any, ...]]]:
        query = sa.select(table.c[key], *columns).where(table.c[key].in_(self._ids))
        if order is not None:
            query = query.order_by(table.c[order])
        found: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
        for job_id, *values in self._conn.execute(query):
            found[job_id].append(tuple(values))
        return found

    def counts(self, table: Any) -> Counter[UUID]:
        query = sa.select(table.c.job_id).where(table.c.job_id.in_(self._ids))
        return Counter(self._conn.execute(query).scalars())


def _orphans(conn: sa.Connection) -> int:
    """Rows whose job does not exist: half of a create transaction."""
    found = 0
    for table, key in ((EVENT, "aggregate_id"), (SNAPSHOT, "job_id"), (OUTPUT, "job_id"), (EFFECT, "job_id")):
        job_exists = sa.exists().where(JOB.c.id == table.c[key])
        lonely = sa.select(sa.func.count()).select_from(table).where(~job_exists)
        found += int(conn.execute(lonely).scalar_one())
    return found


def erase(conn: sa.Connection) -> int:
    """Delete the kit's jobs and all that hangs on them; returns how many jobs there were."""
    mine = JOB.c.job_type.like(PREFIX.replace("_", "\\_") + "%", escape="\\")
    ids = list(conn.execute(sa.select(JOB.c.id).where(mine)).scalars())
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        for table in (SNAPSHOT, OUTPUT, ARTIFACT, CLAIM, USAGE):
            conn.execute(sa.delete(table).where(table.c.job_id.in_(some)))
        conn.execute(sa.delete(EVENT).where(EVENT.c.aggregate_id.in_(some)))
        conn.execute(sa.delete(JOB).where(JOB.c.id.in_(some)))
    return len(ids)
