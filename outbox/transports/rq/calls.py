"""What is sent: each act of the protocol as a script with its KEYS and ARGV, and nothing else.

The heads of the files in ``scripts/`` say what the arguments mean.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from uuid import UUID

from outbox.job_ids import ticket_id
from outbox.transports.base import (
    CANCEL_HINT_MS,
    MAX_CLAIM,
    PRESENCE_MS,
    Delivery,
    Settlement,
    Ticket,
)
from outbox.transports.rq.broker import Call
from outbox.transports.rq.keys import Keys
from outbox.transports.rq.lua import script
from outbox.transports.rq.wire import DESCRIPTION, encode_call, iso

#: Index of the registry in the KEYS of finish.lua.
_REGISTRY = {Settlement.FINISHED: 4, Settlement.FAILED: 5, Settlement.CANCELED: 6}
#: RQ's names of the registries of settled jobs, in the order the scripts expect.
_SETTLED = ("finished", "failed", "canceled")
#: A wake token nobody takes is forgotten.
_TOKEN_MS = 60_000
#: How long a job that a stock worker ran stays to be seen, at least.
_STOCK_TTL_S = 60


@dataclass
class Calls:
    """The calls of one transport."""

    keys: Keys
    entry: str
    keep_settled_s: int
    grace_ms: int
    job_timeout_s: int
    #: Added to the server's time; 0 outside tests.
    offset_ms: int = 0

    def put(self, queue: str, tickets: Sequence[Ticket], *, if_idle: bool = False) -> Call:
        """Queue tickets of one queue, or with ``if_idle`` none where others wait."""
        kept_s = max(self.keep_settled_s, _STOCK_TTL_S)
        args: list[str | int] = [queue, DESCRIPTION, self.job_timeout_s, kept_s, int(if_idle)]
        for ticket in tickets:
            args += (
                ticket.ticket_id,
                ticket.delivery_no,
                ticket.deliver_score,
                iso(ticket.created_at_ms),
                encode_call(self.entry, ticket),
            )
        registries = self._registries(queue, "wip", "scheduled", *_SETTLED)
        return self._call("put", [self.keys.queue(queue), self.keys.queues, *registries], args)

    def claim(self, queue: str, limit: int, worker: str, lease_ms: int) -> Call:
        """Hand out up to ``limit`` tickets, bounded by ``MAX_CLAIM``."""
        names = [self.keys.queue(queue), *self._registries(queue, "wip", "failed")]
        names += [self.keys.worker_executions(worker), self.keys.suspended]
        stem = secrets.token_hex(12)  # the script adds a number: unique over all hand-outs
        wanted = min(limit, MAX_CLAIM)
        return self._call("claim", names, [wanted, lease_ms, self.grace_ms, worker, stem])

    def heartbeat(
        self, queue: str, worker: str, deliveries: Sequence[Delivery], lease_ms: int
    ) -> Call:
        """Renew executions of one queue."""
        args: list[str | int] = [lease_ms, self.grace_ms]
        for delivery in deliveries:
            args += (delivery.ticket.ticket_id, delivery.execution_id)
        names = [self.keys.registry("wip", queue), self.keys.worker_executions(worker)]
        return self._call("heartbeat", names, args)

    def finish(self, queue: str, worker: str, items: Sequence[tuple[Delivery, Settlement]]) -> Call:
        """Settle executions of one queue."""
        args: list[str | int | bytes] = [self.keep_settled_s * 1000]
        for delivery, settlement in items:
            args += (delivery.ticket.ticket_id, delivery.execution_id, _REGISTRY[settlement])
        return self._finish(queue, worker, args)

    def drop(self, queue: str, worker: str, items: Sequence[tuple[bytes, bytes]]) -> Call:
        """Take off executions, by ticket and execution id, whose tickets cannot be read."""
        args: list[str | int | bytes] = [0]
        for id_, execution in items:
            args += (id_, execution, _REGISTRY[Settlement.FAILED])
        return self._finish(queue, worker, args)

    def _finish(self, queue: str, worker: str, args: list[str | int | bytes]) -> Call:
        names = [self.keys.registry("wip", queue), self.keys.worker(worker)]
        names += [self.keys.worker_executions(worker), *self._registries(queue, *_SETTLED)]
        return self._call("finish", names, args)

    def defer(self, queue: str, items: Sequence[tuple[Delivery, int]]) -> Call:
        """Give executions of one queue back."""
        args: list[str | int] = []
        for delivery, delay_ms in items:
            args += (delivery.ticket.ticket_id, delivery.execution_id, delay_ms)
        names = [self.keys.queue(queue), *self._registries(queue, "wip", "scheduled")]
        return self._call("defer", names, args)

    def recover(self, queue: str, limit: int) -> Call:
        """Put ended executions and due deferred tickets back."""
        registries = self._registries(queue, "wip", "scheduled", *_SETTLED)
        return self._call("recover", [self.keys.queue(queue), *registries], [limit, self.grace_ms])

    def cancel(self, queue: str, job_type: str, job_id: UUID) -> Call:
        """Leave a hint and drop a waiting ticket."""
        id_ = ticket_id(queue, job_type, job_id)
        names = [self.keys.job(id_), self.keys.cancel_hint(job_id), self.keys.queue(queue)]
        names += self._registries(queue, "scheduled", "canceled")
        return self._call("cancel", names, [id_, CANCEL_HINT_MS, self.keep_settled_s * 1000])

    def alive(self, ids: Sequence[str]) -> Call:
        """Look whether tickets are somewhere."""
        return self._call("alive", [self.keys.queues], ids)

    def wake(self, channel: str) -> Call:
        """Leave a token."""
        return self._call("wake", [self.keys.channel(channel)], [_TOKEN_MS])

    def presence(self, worker: str, queues: Sequence[str], *, starts: bool) -> Call:
        """Announce a worker or renew it."""
        names = [self.keys.worker(worker), self.keys.worker_executions(worker), self.keys.workers]
        names += [self.keys.workers_of(queue) for queue in queues]
        return self._call("presence", names, _who(queues, starts=starts))

    def dispatcher_presence(self, dispatcher: str, *, starts: bool) -> Call:
        """Announce a dispatcher or renew it."""
        key = self.keys.dispatcher(dispatcher)
        names = [key, f"{key}:executions", self.keys.dispatchers]
        return self._call("presence", names, _who((), starts=starts))

    def workers(self) -> Call:
        """List the living workers."""
        return self._call("workers", [self.keys.workers, self.keys.queues], [PRESENCE_MS])

    def dispatchers(self) -> Call:
        """List the living dispatchers."""
        return self._call("workers", [self.keys.dispatchers, self.keys.queues], [PRESENCE_MS])

    def _registries(self, queue: str, *kinds: str) -> list[str]:
        return [self.keys.registry(kind, queue) for kind in kinds]

    def _call(self, name: str, keys: Sequence[str], args: Iterable[str | int | bytes]) -> Call:
        return Call(script(name), keys, [self.keys.prefix, self.offset_ms, *args])


def _who(queues: Sequence[str], *, starts: bool) -> list[str | int]:
    """What a process says about itself."""
    host, pid = socket.gethostname(), os.getpid()
    return [
        PRESENCE_MS,
        int(starts),
        ",".join(queues),
        host,
        pid,
        _rq_version(),
        platform.python_version(),
    ]


@cache
def _rq_version() -> str:
    """As its own tools show it; loading RQ itself for that would take 2 MB and its time in every process."""
    return version("rq")
