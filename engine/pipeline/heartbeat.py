"""Keeps every lease of a process alive: one statement for all of them, on a thread and a connection of its own.

The work can starve neither (WL-2). SQL alone says what is lost, and whether a cancel was asked: on a Redis
that forgot a ticket the lease is still ours (transport.md, pitfall 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from engine.lifecycle.lease import Lease
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.pipeline.work import Abort, Work
from outbox.base.db import UnitOfWork
from outbox.base.errors import DatabaseContention
from outbox.base.telemetry import Telemetry
from outbox.errors import TransportError, reason_of
from outbox.transports.base import Transport
from registry.queues import QueueSpec


class Heartbeat:
    """One round renews the leases of all running work and trips the switch of what must stop."""

    def __init__(
        self,
        *,
        uow: UnitOfWork,
        lifecycle: AiJobLifecycleRepository,
        transport: Transport,
        telemetry: Telemetry,
        worker: str,
        running: Callable[[], Sequence[Work]],
        stop: Callable[[Work, Abort], None],
    ) -> None:
        """``stop`` trips a work's switch on the event loop; it may be called from this thread."""
        self._uow = uow
        self._lifecycle = lifecycle
        self._transport = transport
        self._telemetry = telemetry
        self._worker = worker
        self._running = running
        self._stop = stop

    def close(self) -> None:
        """Let go of the connection that only heartbeats use."""
        self._uow.engine.dispose()

    def run_once(self) -> bool:
        """Renew once; returns False, since there is never more to do at once."""
        running = list(self._running())
        for queue in {work.queue for work in running}:
            self._renew([work for work in running if work.queue == queue], queue)
        # Last: a Redis that does not answer may take its time-outs, but no lease.
        self._tell_transport(running)
        return False

    def watch(self) -> bool:
        """Between renewals: only look whether a running job was asked to stop, or is ours no more."""
        running = list(self._running())
        if running and self._tell_transport(running):
            self._look(running)
        return False

    def _renew(self, running: Sequence[Work], queue: QueueSpec) -> None:
        leases = [work.lease for work in running]

        def unit(conn: sa.Connection) -> dict[Lease, bool]:
            self._lifecycle.heartbeat(conn, leases, lease_ms=queue.lease_ms)
            return self._lifecycle.alive(conn, leases)

        try:
            self._judge(running, self._uow.run(unit, repeatable=True))
        except DatabaseContention:
            # Somebody holds one of the rows; the others must not lose their leases because of it.
            self._telemetry.emit("heartbeat.split", len(running))
            self._judge(running, self._uow.run(lambda conn: self._renew_free(conn, leases, queue), repeatable=True))

    def _renew_free(self, conn: sa.Connection, leases: Sequence[Lease], queue: QueueSpec) -> dict[Lease, bool]:
        """Renew those whose rows can be had at once: waiting for each would outlast the leases of all."""
        free = self._lifecycle.unlocked(conn, [lease.job_id for lease in leases])
        mine = [lease for lease in leases if lease.job_id in free]
        self._lifecycle.heartbeat(conn, mine, lease_ms=queue.lease_ms)
        return self._lifecycle.alive(conn, leases)

    def _look(self, running: Sequence[Work]) -> None:
        leases = [work.lease for work in running]
        self._judge(running, self._uow.read(lambda conn: self._lifecycle.alive(conn, leases)))

    def _judge(self, running: Sequence[Work], alive: dict[Lease, bool]) -> None:
        for work in running:
            if work.lease not in alive:
                if work.switch.moving:
                    # To its end, or to an attempt under a lease of its own; whether in time it will see itself.
                    continue
                self._telemetry.emit("lease.lost", job_id=str(work.job.id), epoch=work.lease.epoch)
                self._stop(work, Abort.FENCED)
            elif alive[work.lease] and work.definition.execution.cancellable:
                self._stop(work, Abort.CANCEL)

    def _tell_transport(self, running: Sequence[Work]) -> bool:
        """Renew the tickets; returns whether Redis hints that some job is cancelled or lost."""
        held: dict[int, list[Work]] = {}
        for work in running:
            if work.delivery is not None:
                held.setdefault(work.queue.lease_ms, []).append(work)
        hints = False
        try:
            for lease_ms, group in held.items() or {60_000: []}.items():
                deliveries = [w.delivery for w in group if w.delivery is not None]
                report = self._transport.heartbeat(self._worker, deliveries, lease_ms)
                hints = hints or bool(report.cancelled or report.lost)
        except TransportError as error:
            self._telemetry.emit("heartbeat.transport_unavailable", code=error.code, reason=reason_of(error))
        return hints
