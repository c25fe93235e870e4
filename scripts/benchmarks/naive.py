"""The yardstick: a transactional outbox with RQ as a careful team writes it by hand.

One ORM session per job; a dispatcher that polls 100 rows with SKIP LOCKED and enqueues them one by one; a job
function that compares and sets its row before and after the work. It fences no late worker.

    naive schema | create JOBS BULK SLEEP_S FILLER | dispatch JOBS | trickle JOBS GAP_S | dispatcher | worker
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import redis
import rq
import sqlalchemy as sa
from rq.serializers import JSONSerializer
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from outbox.base.clock import wall_clock_ms
from scripts.benchmarks.ticks import tick

BATCH = 100
POLL_S = 0.1
Answer = dict[str, float]


class Base(DeclarativeBase):
    """Tables of its own."""


class Job(Base):
    """A job with its result."""

    __tablename__ = "naive_job"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=True)
    status: Mapped[str] = mapped_column(sa.String(16), index=True)
    payload: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    result: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    attempts: Mapped[int] = mapped_column(sa.Integer, default=0)
    created_at: Mapped[datetime] = mapped_column(sa.DateTime)
    started_at: Mapped[datetime | None] = mapped_column(sa.DateTime)
    finished_at: Mapped[datetime | None] = mapped_column(sa.DateTime)


class Event(Base):
    """A row of the outbox."""

    __tablename__ = "naive_outbox"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=True)
    job_id: Mapped[int] = mapped_column(sa.BigInteger)
    status: Mapped[str] = mapped_column(sa.String(16))
    published_at: Mapped[datetime | None] = mapped_column(sa.DateTime)
    __table_args__ = (sa.Index("ix_naive_outbox", "status", "id"),)


_engine = sa.create_engine(os.environ.get("AIJOBS_DATABASE_URL", "sqlite://"))
_redis = redis.Redis.from_url(os.environ.get("BENCH_REDIS", "redis://"))
_queue = rq.Queue("naive", connection=_redis, serializer=JSONSerializer)


def schema() -> Answer:
    """Make the tables."""
    Base.metadata.create_all(_engine)
    return {}


def create(jobs: float, _bulk: float, sleep_s: float, filler: float) -> Answer:
    """Create jobs, each in a session of its own."""
    _create_one({})
    began, cpu = time.monotonic(), time.process_time()
    for _ in range(int(jobs) - 1):
        _create_one({"sleep_s": sleep_s, "filler": "x" * int(filler)})
    return {"began": began, "seconds": time.monotonic() - began, "cpu_s": time.process_time() - cpu}


def _create_one(payload: dict[str, Any]) -> None:
    with Session(_engine) as session:
        job = Job(status="queued", payload=payload, created_at=_now())
        session.add(job)
        session.flush()
        session.add(Event(job_id=job.id, status="pending"))
        session.commit()


def dispatch(jobs: float) -> Answer:
    """Dispatch that many events, one COMMIT per batch."""
    began, cpu, done = time.perf_counter(), time.process_time(), 0
    while done < jobs:
        done += _dispatch_batch()
    return {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


def dispatcher() -> Answer:
    """Dispatch for ever."""
    while True:
        if not _dispatch_batch():
            time.sleep(POLL_S)


def _dispatch_batch() -> int:
    due = sa.select(Event).where(Event.status == "pending").order_by(Event.id).limit(BATCH)
    with Session(_engine) as session:
        events = session.scalars(due.with_for_update(skip_locked=True)).all()
        for event in events:
            _queue.enqueue("scripts.benchmarks.naive.run_job", event.job_id)
            event.status, event.published_at = "published", _now()
            session.flush()
        session.commit()
        return len(events)


def trickle(jobs: float, gap_s: float) -> Answer:
    """Create one job per ``gap_s``."""
    due = time.monotonic()
    for _ in range(int(jobs)):
        due += gap_s
        time.sleep(max(0.0, due - time.monotonic()))
        _create_one({"began": time.monotonic()})
    return {}


def run_job(job_id: int) -> None:
    """What RQ calls."""
    with Session(_engine) as session:
        starts = {"status": "running", "started_at": _now(), "attempts": Job.attempts + 1}
        if not _moved(session, job_id, "queued", starts):
            return
        payload = session.get_one(Job, job_id).payload
        began = payload.get("began", 0.0)
        if began:
            tick(began)
        time.sleep(payload.get("sleep_s", 0.0))
    with Session(_engine) as session:
        _moved(session, job_id, "running", {"status": "succeeded", "result": {"ok": True}, "finished_at": _now()})
    if not began:
        tick()


def _moved(session: Session, job_id: int, status: str, values: dict[str, Any]) -> bool:
    where = sa.update(Job).where(Job.id == job_id, Job.status == status)
    moved: Any = session.execute(where.values(values))
    session.commit()
    return bool(moved.rowcount == 1)


def worker(_slots: float) -> Answer:
    """RQ's SimpleWorker: no fork per job, one job at a time."""
    rq.SimpleWorker([_queue], connection=_redis, serializer=JSONSerializer).work(logging_level="WARNING")
    return {}


def _now() -> datetime:
    return datetime.fromtimestamp(wall_clock_ms() / 1000, UTC).replace(tzinfo=None)


_COMMANDS: dict[str, Callable[..., Answer]] = {
    "schema": schema, "create": create, "dispatch": dispatch, "dispatcher": dispatcher, "trickle": trickle,
    "worker": worker,
}  # fmt: skip

if __name__ == "__main__":
    command, *numbers = sys.argv[1:]
    print(json.dumps(_COMMANDS[command](*map(float, numbers))))
