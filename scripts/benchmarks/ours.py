"""The engine, as a program: creates, dispatches, and says what its tables hold.

    ours schema | create JOBS BULK SLEEP_S FILLER | dispatch JOBS | trickle JOBS GAP_S | ended JOBS SINCE
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import sqlalchemy as sa

from engine import CreateJobInput
from engine.lifecycle.models import AI_JOB
from engine.migrations import runner
from engine.worker.assembly import make_dispatcher
from outbox.base.clock import moment
from scripts.benchmarks.jobs import Order, app

Answer = dict[str, float]

_SPAN = sa.select(sa.func.count(), sa.func.min(AI_JOB.c.started_at), sa.func.max(AI_JOB.c.finished_at)).where(
    AI_JOB.c.lifecycle_status == "succeeded", AI_JOB.c.started_at >= moment("since_us")
)


def main(arguments: list[str]) -> None:
    """Run one command and print its answer as JSON."""
    command, *numbers = arguments
    answer = _COMMANDS[command](*map(float, numbers))
    app.close()
    print(json.dumps(answer))


def schema() -> Answer:
    """Make the tables."""
    runner.upgrade(app.database)
    return {}


def create(jobs: float, bulk: float, sleep_s: float, filler: float) -> Answer:
    """Create jobs, ``bulk`` in a transaction."""
    # The first one opens the connection and compiles the statements.
    app.jobs.create_job(_request(Order(sleep_s=sleep_s)))
    left, size, text = int(jobs) - 1, int(bulk), "x" * int(filler)
    began, cpu = time.monotonic(), time.process_time()
    while left > 0:
        count = min(size, left)
        app.jobs.create_jobs([_request(Order(sleep_s=sleep_s, filler=text)) for _ in range(count)])
        left -= count
    return {"began": began, "seconds": time.monotonic() - began, "cpu_s": time.process_time() - cpu}


def dispatch(jobs: float) -> Answer:
    """Dispatch that many events, as a dispatcher process does."""
    process = make_dispatcher(app, upkeep=False)
    began, cpu = time.perf_counter(), time.process_time()
    process.start()
    while app.telemetry.count("outbox.published") < jobs:
        time.sleep(0.002)
    answer = {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    process.stop()
    process.join()
    return answer


def trickle(jobs: float, gap_s: float) -> Answer:
    """Create one job per ``gap_s``, each told when its creation began."""
    due = time.monotonic()
    for _ in range(int(jobs)):
        due += gap_s
        time.sleep(max(0.0, due - time.monotonic()))
        app.jobs.create_job(_request(Order(began=time.monotonic())))
    return {}


def ended(jobs: float, since: float) -> Answer:
    """Wait until that many jobs have succeeded which were started after ``since``, in seconds of the machine's
    monotonic clock: the program that asks has one of its own, and starting this one took a while.

    Answers with the span between their first start and their last commit.
    """
    deadline = time.monotonic() + 60
    while True:
        started = {"since_us": app.clock.us(-1000 * (time.monotonic() - since))}
        count, first, last = app.uow.read(lambda conn: tuple(conn.execute(_SPAN, started).one()))  # noqa: B023
        if count >= jobs:
            return {"jobs": count, "span_s": (last - first).total_seconds()}
        if time.monotonic() > deadline:
            raise SystemExit(f"{count} of {jobs:.0f} jobs have ended")
        time.sleep(0.05)


def _request(order: Order) -> CreateJobInput:
    return CreateJobInput(user_id="bench", job_type="bench", target_type="bench", target_id="1", payload=order)


_COMMANDS: dict[str, Callable[..., Answer]] = {
    "schema": schema, "create": create, "dispatch": dispatch, "trickle": trickle, "ended": ended,
}  # fmt: skip

if __name__ == "__main__":
    main(sys.argv[1:])
