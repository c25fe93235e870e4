"""What Prometheus is told: counters of this process, and gauges read from the database and Redis when it asks.

Names are those of ux.md; no label names a user or a job. Counters count what this process did, so every process is
scraped; gauges say the same whoever is asked.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from engine.lifecycle.figures import open_jobs, waiting_since
from outbox import queries
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseError
from outbox.base.telemetry import Telemetry
from outbox.errors import TransportError
from outbox.figures import waiting
from outbox.transports.base import Transport
from registry.job import WaitKind

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

#: From a cached answer to the longest time limit, in seconds.
_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
#: Attempts whose error code is remembered until their job ends.
_REMEMBERED: Final = 10_000
#: Facts that mean an end of a job.
_ENDS: Final = {"job.succeeded": "succeeded", "job.failed": "failed", "job.cancelled": "cancelled"}
_DISPATCHED: Final = (
    "published",
    "refused",
    "dead",
    "unroutable",
    "claim_lost",
    "transport_unavailable",
)

_log = logging.getLogger("aijobs.metrics")


class Metrics:
    """The metrics of one process."""

    def __init__(
        self,
        *,
        telemetry: Telemetry,
        uow: UnitOfWork,
        clock: DatabaseClock,
        transport: Callable[[], Transport],
        queues: Sequence[str],
        version: str,
    ) -> None:
        """Counts from now on. ``transport`` is asked for when it is needed: making metrics opens no connection."""
        self._registry = CollectorRegistry()
        self._counts = _Counts(self._registry)
        self._registry.register(_Gauges(uow, clock, transport, queues))
        Info("aijobs_build", "The release that runs.", registry=self._registry).info(
            {"version": version}
        )
        telemetry.listen(self._counts.note)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format. Never raises: what cannot be read is left out."""
        return generate_latest(self._registry)


class _Counts:
    """Counters and histograms, fed by facts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"aijobs_{name}", text, labels, registry=registry)

        self._created = counter("jobs_created", "Jobs made by this process.")
        self._finished = counter(
            "jobs_finished", "Jobs this process ended.", "status", "error_class"
        )
        self._dispatched = counter("outbox_dispatch", "What became of outbox events.", "outcome")
        self._leases = counter("leases_expired", "Jobs taken back from workers that were lost.")
        self._fenced = counter(
            "fenced_writes", "Claims whose writes were refused: another one came after them."
        )
        self._tokens = counter(
            "llm_tokens", "Tokens, as providers reported them.", "direction", "model"
        )
        self._run = _seconds(registry, "job_run_seconds", "From claim to end of a claim.")
        self._wait = _seconds(registry, "job_wait_seconds", "From creation to the first claim.")
        self._codes: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()
        self._simple = {
            "job.created": self._created,
            "job.taken_over": self._leases,
            "job.fenced": self._fenced,
        }
        self._notes: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "job.started": self._start,
            "attempt.failed": self._fail,
            "usage.settled": self._use,
        }

    def note(self, name: str, ids: Mapping[str, Any]) -> None:
        """A :data:`~outbox.base.telemetry.Listener`."""
        if name in _ENDS:
            self._end(_ENDS[name], ids)
        elif name.startswith("outbox."):
            self._dispatch(name.removeprefix("outbox."), ids["count"])
        elif name in self._simple:
            self._simple[name].inc(ids["count"])
        elif name in self._notes:
            self._notes[name](ids)

    def _start(self, ids: Mapping[str, Any]) -> None:
        for waited_ms in ids["waited_ms"]:
            self._wait.observe(waited_ms / 1000)

    def _fail(self, ids: Mapping[str, Any]) -> None:
        with self._lock:
            self._codes[str(ids.get("job_id"))] = str(ids.get("code"))
            if len(self._codes) > _REMEMBERED:
                self._codes.popitem(last=False)

    def _end(self, status: str, ids: Mapping[str, Any]) -> None:
        code = ids.get("code") or self._recall(str(ids.get("job_id")))
        family = code.partition("_")[0].lower() if code and status == "failed" else "none"
        self._finished.labels(status, family).inc()
        if "run_ms" in ids:
            self._run.observe(ids["run_ms"] / 1000)

    def _dispatch(self, outcome: str, count: int) -> None:
        if outcome in _DISPATCHED:
            self._dispatched.labels(outcome).inc(count)

    def _use(self, ids: Mapping[str, Any]) -> None:
        for direction in ("input", "output"):
            self._tokens.labels(direction, str(ids.get("model") or "unknown")).inc(
                ids.get(f"{direction}_tokens") or 0
            )

    def _recall(self, job_id: str) -> str | None:
        with self._lock:
            return self._codes.pop(job_id, None)


def _seconds(registry: CollectorRegistry, name: str, text: str) -> Histogram:
    return Histogram(f"aijobs_{name}", text, buckets=_BUCKETS, registry=registry)


class _Gauges(Collector):
    """What the database and Redis say at the moment."""

    def __init__(
        self,
        uow: UnitOfWork,
        clock: DatabaseClock,
        transport: Callable[[], Transport],
        queues: Sequence[str],
    ) -> None:
        self._uow = uow
        self._clock = clock
        self._transport = transport
        self._queues = queues

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: registering must not read the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The gauges that can be read; a source that is away leaves its own out."""
        for source in (self._outbox, self._jobs, self._broker):
            try:
                yield from source()
            except (DatabaseError, TransportError) as error:
                _log.warning("some metrics could not be read: %s", error.code)

    def _outbox(self) -> Iterator[Metric]:
        counts, now, oldest = self._uow.read(
            lambda conn: (
                queries.counts(conn), self._clock.read(conn), queries.oldest_due(conn, self._clock),
            )
        )  # fmt: skip
        yield _gauge("outbox_events", "Outbox events, counted up to 10 000.", "status", counts)
        age = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
        text = "How long the oldest due event waits."
        yield GaugeMetricFamily("aijobs_outbox_oldest_pending_age_seconds", text, value=age)

    def _jobs(self) -> Iterator[Metric]:
        now, delivered, since = self._uow.read(
            lambda conn: (self._clock.read(conn), open_jobs(conn), waiting_since(conn, waiting(conn)))
        )
        ages = {
            name: max(0.0, (now - since[name]).total_seconds()) if name in since else 0.0 for name in self._queues
        }
        yield _gauge("queue_oldest_age_seconds", "Age of the oldest waiting job.", "queue", ages)
        text = "Jobs that wait for a person."
        pending = sum(jobs.count for jobs in delivered if jobs.wait_kind is WaitKind.APPROVAL)
        yield GaugeMetricFamily("aijobs_approvals_pending", text, value=pending)

    def _broker(self) -> Iterator[Metric]:
        transport = self._transport()
        yield _gauge(
            "queue_depth", "Tickets that wait at Redis.", "queue", transport.depth(self._queues)
        )
        workers = transport.workers()
        busy = sum(1 for worker in workers if worker.executing)
        states = {"busy": busy, "idle": len(workers) - busy}
        yield _gauge("workers", "Workers heard of within 90 s.", "state", states)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"aijobs_{name}", text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
