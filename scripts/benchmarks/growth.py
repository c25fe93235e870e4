"""How the engine's cost grows: with what waits, with the size of inputs, with the number of workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median

from scripts.benchmarks import rows
from scripts.benchmarks.counters import Counts, redis_memory
from scripts.benchmarks.rows import Bench
from scripts.benchmarks.systems import ENGINE
from scripts.benchmarks.ticks import Ticks

#: One step of a growth row: what it is called, and its figures.
Steps = Iterator[tuple[str, Counts]]
GrowthRow = Callable[[Bench], Steps]
_MIB = 2**20
#: Turns of a step: the database still writes out what filled it when the first one begins.
_TURNS = 3


def backlog(bench: Bench) -> Steps:
    """Dispatch and work of a few thousand jobs while more and more wait behind them: the median of some turns."""
    bench.fresh(ENGINE)
    waiting = 0
    for size in bench.scale.backlogs:
        sample = min(2_000, size // 2)
        turns = []
        for _ in range(_TURNS):
            ENGINE.fill(bench.servers, size - waiting)
            turns.append(_turn(bench, sample))
            waiting = size - sample
        yield f"{size:,} waiting", {name: median(turn[name] for turn in turns) for name in turns[0]}


def _turn(bench: Bench, sample: int) -> Counts:
    answer = ENGINE.ask(bench.servers, "dispatch", sample)
    figures: Counts = {
        "dispatch_jobs_s": sample / answer["seconds"], "redis_mib": redis_memory(bench.servers) / _MIB,
    }  # fmt: skip
    return figures | rows._worked(bench, ENGINE, sample, rows.NOOP_SLOTS)


def payload(bench: Bench) -> Steps:
    """All stages, one after the other, with inputs of 1, 10 and 100 KB."""
    jobs = bench.scale.ones // 2
    for kilobytes in (0, 1, 10, 100):
        bench.fresh(ENGINE)
        created = ENGINE.fill(bench.servers, jobs, filler=kilobytes * 1000)
        dispatched = ENGINE.ask(bench.servers, "dispatch", jobs)
        figures = rows._worked(bench, ENGINE, jobs, rows.NOOP_SLOTS)
        yield f"{kilobytes} KB", {
            "create_jobs_s": jobs / created["seconds"], "dispatch_jobs_s": jobs / dispatched["seconds"], **figures,
        }  # fmt: skip


def workers(bench: Bench) -> Steps:
    """The work stage with one, two and four worker processes."""
    jobs = bench.scale.jobs
    for count in (1, 2, 4):
        rows._queue(bench, ENGINE, jobs)
        ticks, began = Ticks(), time.monotonic()
        with ExitStack() as stack:
            programs = [
                stack.enter_context(ENGINE.worker(bench.servers, ticks, rows.NOOP_SLOTS)) for _ in range(count)
            ]
            rows._wait(ticks, jobs, programs[0])
            span = ENGINE.ask(bench.servers, "ended", jobs, began)["span_s"]
        ticks.remove()
        yield f"{count} worker{'s' if count > 1 else ''}", {"jobs_s": jobs / span}


GROWTH: dict[str, GrowthRow] = {"backlog": backlog, "payload": payload, "workers": workers}
