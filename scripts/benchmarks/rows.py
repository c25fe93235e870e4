"""What is asked of every system: one function a row, which measures one round and returns its figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from scripts.benchmarks.counters import Counters, Counts
from scripts.benchmarks.programs import Program, ProgramFailed
from scripts.benchmarks.servers import Servers
from scripts.benchmarks.systems import System
from scripts.benchmarks.ticks import Ticks, percentile

_MIB = 2**20
#: Slots of a worker that runs no-op jobs.
NOOP_SLOTS = 128
#: Jobs before the measurement.
_WARM = 10
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Scale:
    """How large the rows are; ``--quick`` only shows that they run."""

    jobs: int = 5_000
    ones: int = 2_000
    yardstick_jobs: int = 500
    fan_out: int = 2_000
    slots: int = 10_000
    latency: int = 200
    backlogs: Sequence[int] = (1_000, 100_000)

    def of(self, system: System, jobs: int) -> int:
        """Jobs for one round; the yardstick is too slow for more."""
        return min(jobs, self.yardstick_jobs) if system.role == "yardstick" else jobs


QUICK = Scale(jobs=300, ones=100, yardstick_jobs=100, fan_out=100, slots=200, latency=10, backlogs=(200, 1_000))


@dataclass(frozen=True)
class Bench:
    """Servers and sizes of a run."""

    servers: Servers
    scale: Scale

    def fresh(self, system: System) -> None:
        """Empty servers with the system's tables."""
        self.servers.clean()
        system.ask(self.servers, "schema")

    @contextmanager
    def counted(self, system: System, figures: Counts, jobs: int) -> Iterator[None]:
        """Add what the servers that the system uses count meanwhile, per job."""
        counters = Counters(self.servers, system.store or self.servers.database)
        before = counters.read()
        yield
        figures.update(counters.since(before, jobs))


Row = Callable[[Bench, System], Counts]

# ------------------------------------------------------------------ one stage


def create(bench: Bench, system: System) -> Counts:
    """Jobs created one at a time, each in its own transaction."""
    return _created(bench, system, bench.scale.ones, 1)


def create_bulk(bench: Bench, system: System) -> Counts:
    """The same through the bulk API: the engine's 100 at a time, peers' 1,000."""
    return _created(bench, system, bench.scale.jobs, system.bulk)


def _created(bench: Bench, system: System, jobs: int, bulk: int) -> Counts:
    bench.fresh(system)
    figures: Counts = {}
    with bench.counted(system, figures, jobs):
        answer = system.ask(bench.servers, "create", jobs, bulk, 0, 0)
    return {"jobs_s": jobs / answer["seconds"], "cpu_us": answer["cpu_s"] / jobs * 1e6, **figures}


def dispatch(bench: Bench, system: System) -> Counts:
    """Events moved to the queue by one dispatcher, with no worker and no high-water mark in the way."""
    jobs = bench.scale.of(system, bench.scale.jobs)
    bench.fresh(system)
    system.fill(bench.servers, jobs)
    return _dispatched(bench, system, jobs)


def _dispatched(bench: Bench, system: System, jobs: int) -> Counts:
    figures: Counts = {}
    with bench.counted(system, figures, jobs):
        answer = system.ask(bench.servers, "dispatch", jobs)
    return {"jobs_s": jobs / answer["seconds"], "cpu_us": answer["cpu_s"] / jobs * 1e6, **figures}


def work(bench: Bench, system: System) -> Counts:
    """No-op jobs that wait in the queue, worked off by one worker process."""
    jobs = bench.scale.of(system, bench.scale.jobs)
    _queue(bench, system, jobs)
    figures: Counts = {}
    with bench.counted(system, figures, jobs):
        figures.update(_worked(bench, system, jobs, NOOP_SLOTS))
    return figures


def fan_out(bench: Bench, system: System) -> Counts:
    """Jobs of 0.5 s on 200 slots in one process."""
    return _slept(bench, system, bench.scale.fan_out, 0.5, 200)


def slots(bench: Bench, system: System) -> Counts:
    """Jobs of 1 s on 1,000 slots in one process."""
    return _slept(bench, system, bench.scale.slots, 1.0, 1_000)


def _slept(bench: Bench, system: System, jobs: int, sleep_s: float, slots: int) -> Counts:
    _queue(bench, system, jobs, sleep_s=sleep_s)
    figures = _worked(bench, system, jobs, slots, sleep_s=sleep_s)
    return {**figures, "ideal_percent": figures["jobs_s"] / (slots / sleep_s) * 100}


def _queue(bench: Bench, system: System, jobs: int, *, sleep_s: float = 0.0) -> None:
    bench.fresh(system)
    system.fill(bench.servers, jobs, sleep_s=sleep_s)
    if system.dispatches:
        system.ask(bench.servers, "dispatch", jobs)


def _worked(bench: Bench, system: System, jobs: int, slots: int, *, sleep_s: float = 0.0) -> Counts:
    """From the first start to the last end; of the engine from the first claim to the last commit."""
    began = time.monotonic()
    with _ticks() as ticks, system.worker(bench.servers, ticks, slots) as worker:
        _wait(ticks, jobs, worker)
        cpu = worker.cpu_s()
        times = sorted(at for _, at in ticks.read())
        span = times[-1] - times[0] + sleep_s
        if system.role == "engine":
            span = max(span, system.ask(bench.servers, "ended", jobs, began)["span_s"])
        peak = worker.peak_rss
    return {"jobs_s": jobs / span, "worker_cpu_us": cpu / jobs * 1e6, "rss_mib": peak / _MIB}


# ------------------------------------------------------------------ all stages at once


def pipeline(bench: Bench, system: System) -> Counts:
    """Creation in bulk, dispatch and work at the same time, from the first creation to the last end."""
    return _flow(bench, system, bench.scale.of(system, bench.scale.jobs), max(1, system.bulk))


def pipeline_one(bench: Bench, system: System) -> Counts:
    """The same, created one at a time."""
    return _flow(bench, system, bench.scale.ones, 1)


def _flow(bench: Bench, system: System, jobs: int, bulk: int) -> Counts:
    bench.fresh(system)
    figures: Counts = {}
    began = time.monotonic()
    with _ticks() as ticks, system.worker(bench.servers, ticks, NOOP_SLOTS) as worker, _dispatching(bench, system):
        _warm(bench, system, ticks, worker)
        with bench.counted(system, figures, jobs):
            answer = system.ask(bench.servers, "create", jobs, bulk, 0, 0)
            _wait(ticks, _WARM + jobs, worker)
            if system.role == "engine":
                system.ask(bench.servers, "ended", _WARM + jobs, began)
        last = max(at for _, at in ticks.read())
    return {"jobs_s": jobs / (last - answer["began"]), "create_jobs_s": jobs / answer["seconds"], **figures}


def latency(bench: Bench, system: System) -> Counts:
    """From the beginning of creation to the start of the job: one job every 50 ms, separate processes."""
    jobs = bench.scale.latency
    bench.fresh(system)
    with _ticks() as ticks, system.worker(bench.servers, ticks, 10) as worker, _dispatching(bench, system):
        _warm(bench, system, ticks, worker)
        system.ask(bench.servers, "trickle", _WARM + jobs, 0.05)
        _wait(ticks, 2 * _WARM + jobs, worker)
        taken = [(at - began) * 1000 for began, at in sorted(ticks.read()) if began][_WARM:]
    return {"p50_ms": percentile(taken, 50), "p99_ms": percentile(taken, 99), "max_ms": max(taken)}


def _warm(bench: Bench, system: System, ticks: Ticks, worker: Program) -> None:
    """A few jobs go all the way: every process has started and compiled what it needs."""
    system.ask(bench.servers, "create", _WARM, 1, 0, 0)
    _wait(ticks, _WARM, worker)


@contextmanager
def _dispatching(bench: Bench, system: System) -> Iterator[None]:
    if not system.dispatches:
        yield
        return
    with system.dispatcher(bench.servers):
        yield


@contextmanager
def _ticks() -> Iterator[Ticks]:
    ticks = Ticks()
    try:
        yield ticks
    finally:
        ticks.remove()


def _wait(ticks: Ticks, jobs: int, worker: Program) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not ticks.wait(jobs, 0.5):
        if not worker.running or time.monotonic() > deadline:
            raise ProgramFailed(f"{len(ticks)} of {jobs} jobs ran; the worker said:\n{worker.tail()}")
