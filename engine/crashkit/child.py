"""What a child process of the kit does: a creator, a dispatcher or a worker, and the fault armed in it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import sqlalchemy as sa

from engine.app import AiJobApp
from engine.crashkit import clocks, controls
from engine.crashkit.app import make_app, request
from engine.crashkit.options import Order
from engine.worker.assembly import make_dispatcher, make_worker
from outbox.base import points
from outbox.base.db import create_engine_for
from outbox.base.points import Point
from outbox.base.signals import on_signals

#: Exit code of a worker that handed jobs back.
HANDED_BACK: Final = 3

#: Facts that are told on; how often a write was refused is part of the report.
_TOLD = frozenset(
    {"job.fenced", "job.fenced_attempt", "usage.fenced", "lease.lost", "outbox.claim_lost", "job.type_unknown",
     "job.taken_over", "job.redelivered"}
)  # fmt: skip

Say = Callable[..., None]


class Stoppable(Protocol):
    """A daemon."""

    def stop(self) -> None: ...


def speaker(descriptor: int, number: int) -> Say:
    """Says what happens in child ``number``, one line of JSON for each event, in one write."""

    def say(event: str, **more: Any) -> None:
        line = json.dumps({"child": number, "event": event, **more}) + "\n"
        os.write(descriptor, line.encode())

    return say


def run(order: Order, say: Say) -> int:
    """Do what ``order`` says; returns the exit code."""
    if order.point is not None:
        points.arm(_fault(order, say))
    controls.leave_out(order.controls)
    if order.clock_s:
        clocks.shift(order.clock_s)
    app = make_app(order)
    app.telemetry.listen(_tell(say))
    try:
        return _ROLES[order.role](order, app, say)
    finally:
        app.close()


def _fault(order: Order, say: Say) -> points.Hook:
    """Act at the chosen point, once, after the passes to be skipped."""
    left = order.skip
    lock = threading.Lock()

    def hook(at: Point) -> None:
        nonlocal left
        if at != order.point:
            return
        with lock:
            left -= 1
            if left != -1:
                return
        say("point", point=at.value)
        if order.act != "say":
            os.kill(os.getpid(), signal.SIGKILL if order.act == "kill" else signal.SIGSTOP)

    return hook


def _tell(say: Say) -> Callable[[str, Mapping[str, Any]], None]:
    def listener(name: str, ids: Mapping[str, Any]) -> None:
        if name in _TOLD:
            say("fact", fact=name, count=ids["count"])

    return listener


def _stop_on_sigterm(daemon: Stoppable) -> None:
    on_signals([signal.SIGTERM], lambda _number: daemon.stop())


def _create(order: Order, app: AiJobApp, say: Say) -> int:
    say("ready")
    for job in order.jobs:
        app.jobs.create_job(request(job, order.queue))
        if order.pace_ms:
            time.sleep(order.pace_ms / 1000)
    say("created")
    return 0


def _dispatch(order: Order, app: AiJobApp, say: Say) -> int:
    process = make_dispatcher(app, name=order.name, upkeep=order.upkeep)
    _stop_on_sigterm(process)
    say("ready")
    process.run()
    return 0


def _work(order: Order, app: AiJobApp, say: Say) -> int:
    worker = make_worker(app, [order.queue], concurrency=order.slots, name=order.name)
    _stop_on_sigterm(worker)

    def announce() -> None:
        if worker.wait_ready(60):
            say("ready")

    threading.Thread(target=announce, name="crashkit-ready", daemon=True).start()
    threading.Thread(target=_pulse, args=(order, say), name="crashkit-pulse", daemon=True).start()
    return 0 if worker.run() else HANDED_BACK


def _pulse(order: Order, say: Say) -> None:
    """Notice when the machine itself keeps this process from working for a good part of a lease.

    One look at the database takes that long then, and a renewal is several: the process is as good as
    frozen, and that its jobs are taken over is right.
    """
    limit_s = order.times.lease_ms / 3_000
    engine = create_engine_for(order.places.database_url, pool_size=1)
    last = time.monotonic()
    while True:
        with suppress(sa.exc.DBAPIError), engine.connect() as conn:
            conn.execute(sa.select(sa.literal(1)))
            conn.rollback()
        now = time.monotonic()
        if now - last > limit_s:
            say("starved", ms=round((now - last) * 1000))
        last = now
        time.sleep(order.times.heartbeat_ms / 2000)


_ROLES: dict[str, Callable[[Order, AiJobApp, Say], int]] = {
    "creator": _create,
    "dispatcher": _dispatch,
    "worker": _work,
}
