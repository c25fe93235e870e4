"""RqTransport: the transport protocol as script calls on RQ's keys.

One round trip per batch for every method but ``wait`` and a large ``recover``. Redis runs one script
at a time, so a batch is cut into several short calls that travel together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Self
from uuid import UUID

from redis import Redis

from outbox.errors import TicketRefused
from outbox.job_ids import ticket_id
from outbox.transports.base import (
    MAX_IDLE_PUT,
    Delivery,
    EndedJobs,
    Features,
    HeartbeatReport,
    PutResult,
    Settlement,
    Stopped,
    Ticket,
    WorkerPresence,
    check_ticket,
    never,
)
from outbox.transports.rq.batches import chunks, cut, in_order
from outbox.transports.rq.broker import Broker, Call, doze
from outbox.transports.rq.calls import Calls
from outbox.transports.rq.checks import problems
from outbox.transports.rq.ended import RqEndedJobs, announcement
from outbox.transports.rq.fake import fake_client
from outbox.transports.rq.keys import Keys
from outbox.transports.rq.presence import present
from outbox.transports.rq.wire import DEFAULT_ENTRY, ClaimedRow, checked_entry, put_result

_log = logging.getLogger("aijobs.redis")

#: Items per script call: each keeps Redis from other callers for about a millisecond.
PUT_SIZE = 32
FINISH_SIZE = 64
HEARTBEAT_SIZE = 200
RECOVER_SIZE = 50
ALIVE_SIZE = 50
#: Values per ticket in the answer of claim.lua.
_CLAIM_VALUES = 6
#: Between two looks where the server does not block (fakeredis).
_POLL_MS = 20
#: Before the next wait while ``rq suspend`` holds: tickets are there, but none is handed out.
_SUSPENDED_MS = 1_000


class RqTransport:
    """Tickets on Redis, in RQ's data model. See :class:`outbox.transports.base.Transport`."""

    def __init__(
        self,
        target: str | Redis,
        *,
        prefix: str = "rq",
        entry: str = DEFAULT_ENTRY,
        keep_settled_s: int = 0,
        grace_ms: int = 30_000,
        job_timeout_s: int = 3_600,
        timeout_s: float = 5.0,
        connect_timeout_s: float = 2.0,
        block_s: float = 5.0,
        blocking: bool | None = None,
    ) -> None:
        """Take the address and the settings; nothing is sent before the first call.

        target             a ``redis://``, ``rediss://`` or ``unix://`` URL, or a client to copy the
                           address from; one that decodes answers is refused (TR-11)
        prefix             what all keys begin with; stock RQ tools expect "rq"
        entry              dotted path of the function that a stock ``rq worker`` calls with the ticket
        keep_settled_s     how long settled tickets can be seen by RQ's tools; 0 = removed at once
        grace_ms           how much later than we stock RQ readers take a lease for ended (design 5)
        job_timeout_s      RQ's time limit where a stock worker runs a job: a far outer fence (TR-8)
        timeout_s          longest wait for an answer (of a blocking call: on top of the block)
        connect_timeout_s  longest wait for a connection
        block_s            longest single block on the server; a longer wait is several blocks
        blocking           whether BLMOVE blocks on this server; default: unless it is fakeredis

        Raises ``TransportMisconfigured``.
        """
        self._calls = Calls(
            Keys(prefix), checked_entry(entry), keep_settled_s, grace_ms, job_timeout_s
        )
        self._keys = self._calls.keys
        self._broker = Broker(
            target, timeout_s=timeout_s, connect_timeout_s=connect_timeout_s, block_s=block_s
        )
        self._blocking = not self._broker.in_process if blocking is None else blocking
        self._registered: dict[str, tuple[str, ...]] = {}
        self._dispatchers: set[str] = set()
        self._suspended: set[str] = set()
        self.features = Features(
            cross_process=not self._broker.in_process,
            blocking_wait=self._blocking,
            visible_to_rq=True,
        )

    @classmethod
    def fake(cls, url: str = "fakeredis://", **options: Any) -> Self:
        """Return a transport on the in-process Redis of that URL, for demos and tests."""
        return cls(fake_client(url), **options)

    # ------------------------------------------------------------------ the dispatcher's side

    def put_many(
        self, tickets: Sequence[Ticket], *, if_idle: bool = False
    ) -> list[PutResult | TicketRefused]:
        """See :meth:`Transport.put_many`."""
        refused = {i: error for i, ticket in enumerate(tickets) if (error := _refusal(ticket))}
        good = [ticket for i, ticket in enumerate(tickets) if i not in refused]
        # Into an empty queue nothing is put in the middle, so more of it takes no longer.
        parts = cut(good, lambda ticket: ticket.queue_name, MAX_IDLE_PUT if if_idle else PUT_SIZE)
        answers = self._run([self._calls.put(part.queue, part.items, if_idle=if_idle) for part in parts])
        results = map(put_result, good, in_order(parts, answers, len(good)))
        return [refused[i] if i in refused else next(results) for i in range(len(tickets))]

    def depth(self, queues: Sequence[str]) -> dict[str, int]:
        """See :meth:`Transport.depth`."""
        lengths = self._broker.ask(*(("LLEN", self._keys.queue(queue)) for queue in queues))
        return dict(zip(queues, lengths, strict=True))

    def alive(self, tickets: Sequence[tuple[str, str, UUID]]) -> list[bool]:
        """See :meth:`Transport.alive`."""
        ids = [ticket_id(*parts) for parts in tickets]
        answers = self._run([self._calls.alive(few) for few in chunks(ids, ALIVE_SIZE)])
        return [found == 1 for few in answers for found in few]

    def cancel(self, queue: str, job_type: str, job_id: UUID) -> None:
        """See :meth:`Transport.cancel`."""
        told = announcement(self._keys.ended, [job_id])
        self._broker.run([self._calls.cancel(queue, job_type, job_id)], told)

    # ------------------------------------------------------------------ the worker's side

    def wait(self, queue: str, timeout_ms: int, stopped: Stopped = never) -> bool:
        """See :meth:`Transport.wait`.

        A blocking peek: the head moves onto its own place, so nothing leaves the list and nothing can
        be lost on the way, and all who wait wake up.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        if queue in self._suspended:
            doze(min(_SUSPENDED_MS, timeout_ms) / 1000, stopped)
        key = self._keys.queue(queue)
        while (left_s := deadline - time.monotonic()) > 0 and self._blocking and not stopped():
            if self._broker.block("BLMOVE", key, key, "LEFT", "LEFT", left_s=left_s, stopped=stopped):
                return True
        return self._poll(key, deadline, stopped)

    def _poll(self, key: str, deadline: float, stopped: Stopped) -> bool:
        while not stopped():
            if self._broker.ask(("LLEN", key)) != [0]:
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(_POLL_MS / 1000, left_s))
        return False

    def claim(
        self, queue: str, limit: int, worker: str, lease_ms: int, *, wait_ms: int = 0, stopped: Stopped = never
    ) -> list[Delivery]:
        """See :meth:`Transport.claim`."""
        deadline = time.monotonic() + wait_ms / 1000
        found = self._claim(queue, limit, worker, lease_ms)
        while limit > 0 and not found and (left_s := deadline - time.monotonic()) > 0 and not stopped():
            found = self._claim_next(queue, limit, worker, lease_ms, left_s, stopped)
        return found

    def _claim(self, queue: str, limit: int, worker: str, lease_ms: int) -> list[Delivery]:
        if limit < 1:
            return []
        [values] = self._run([self._calls.claim(queue, limit, worker, lease_ms)])
        return self._handed_out(queue, worker, values)

    def _claim_next(
        self, queue: str, limit: int, worker: str, lease_ms: int, left_s: float, stopped: Stopped
    ) -> list[Delivery]:
        """Wait for the next ticket and claim it with all that came along; where the server blocks, in one trip."""
        if not self._blocking or self._broker.in_process or queue in self._suspended:
            self.wait(queue, round(left_s * 1000), stopped)
            return [] if stopped() else self._claim(queue, limit, worker, lease_ms)
        key, call = self._keys.queue(queue), self._calls.claim(queue, limit, worker, lease_ms)
        values = self._broker.block_and_run(("BLMOVE", key, key, "LEFT", "LEFT"), call, left_s=left_s, stopped=stopped)
        return self._handed_out(queue, worker, values)

    def _handed_out(self, queue: str, worker: str, values: Any) -> list[Delivery]:
        if values is None:
            self._suspended.add(queue)
            return []
        self._suspended.discard(queue)
        rows = [ClaimedRow(*row) for row in chunks(values, _CLAIM_VALUES)]
        deliveries = [row.delivery() for row in rows]
        self._drop(queue, worker, [row for row, found in zip(rows, deliveries, strict=True) if found is None])
        return [found for found in deliveries if found is not None]

    def _drop(self, queue: str, worker: str, damaged: Sequence[ClaimedRow]) -> None:
        """Take off what no worker can read, or it would come again with others and hold them up for ever.

        Where it stood for a job, upkeep finds that the ticket is gone and delivers anew.
        """
        if damaged:
            _log.warning("%d damaged tickets were taken off queue %s", len(damaged), queue)
            self._run([self._calls.drop(queue, worker, [(row.id_, row.execution) for row in damaged])])

    def heartbeat(
        self, worker: str, deliveries: Sequence[Delivery], lease_ms: int
    ) -> HeartbeatReport:
        """See :meth:`Transport.heartbeat`. A presence that Redis has lost is written anew."""
        calls = [
            self._calls.heartbeat(part.queue, worker, part.items, lease_ms)
            for part in cut(deliveries, _queue_of, HEARTBEAT_SIZE)
        ]
        reports = self._run(calls + self._beat(worker))[: len(calls)]
        return HeartbeatReport(
            frozenset(id_.decode() for lost, _ in reports for id_ in lost),
            frozenset(id_.decode() for _, cancelled in reports for id_ in cancelled),
        )

    def _beat(self, name: str) -> list[Call]:
        if name in self._dispatchers:
            return [self._calls.dispatcher_presence(name, starts=False)]
        queues = self._registered.get(name)
        return [] if queues is None else [self._calls.presence(name, queues, starts=False)]

    def finish_many(self, worker: str, items: Sequence[tuple[Delivery, Settlement]]) -> list[bool]:
        """See :meth:`Transport.finish_many`."""
        if not items:
            return []
        parts = cut(items, lambda item: _queue_of(item[0]), FINISH_SIZE)
        told = announcement(self._keys.ended, (delivery.ticket.job_id for delivery, _ in items))
        answers = self._broker.run([self._calls.finish(p.queue, worker, p.items) for p in parts], told)
        return [settled == 1 for settled in in_order(parts, answers, len(items))]

    def defer_many(self, items: Sequence[tuple[Delivery, int]]) -> list[bool]:
        """See :meth:`Transport.defer_many`."""
        parts = cut(items, lambda item: _queue_of(item[0]), FINISH_SIZE)
        answers = self._run([self._calls.defer(part.queue, part.items) for part in parts])
        return [deferred == 1 for deferred in in_order(parts, answers, len(items))]

    def recover(self, queue: str, limit: int = 200) -> int:
        """See :meth:`Transport.recover`."""
        looked = returned = 0
        while looked < limit:
            wanted = min(RECOVER_SIZE, limit - looked)
            [(seen, back)] = self._run([self._calls.recover(queue, wanted)])
            looked, returned = looked + seen, returned + back
            if seen < wanted:
                break
        return returned

    # ------------------------------------------------------------------ hints and presence

    def wake(self, channel: str) -> None:
        """See :meth:`Transport.wake`."""
        self._run([self._calls.wake(channel)])

    def wait_wake(self, channels: Sequence[str], timeout_ms: int, stopped: Stopped = never) -> str | None:
        """See :meth:`Transport.wait_wake`."""
        named = {self._keys.channel(channel): channel for channel in channels}
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_s = deadline - time.monotonic()
            if found := self._broker.block("BLPOP", *named, left_s=left_s, stopped=stopped):
                return named[found[0].decode()]
            if left_s <= 0 or stopped():
                return None

    def listen(self) -> EndedJobs:
        """See :meth:`Transport.listen`."""
        return RqEndedJobs(self._broker.subscriber(), self._keys.ended)

    def register_worker(self, worker: str, queues: Sequence[str]) -> None:
        """See :meth:`Transport.register_worker`."""
        self._registered[worker] = tuple(queues)
        self._run([self._calls.presence(worker, queues, starts=True)])

    def register_dispatcher(self, dispatcher: str) -> None:
        """See :meth:`Transport.register_dispatcher`."""
        self._dispatchers.add(dispatcher)
        self._run([self._calls.dispatcher_presence(dispatcher, starts=True)])

    def unregister_worker(self, worker: str) -> None:
        """See :meth:`Transport.unregister_worker`."""
        keys = self._keys
        if worker in self._dispatchers:
            self._dispatchers.discard(worker)
            key = keys.dispatcher(worker)
            self._broker.ask(("DEL", key), ("SREM", keys.dispatchers, key))
            return
        key, queues = keys.worker(worker), self._registered.pop(worker, ())
        sets = [keys.workers, *(keys.workers_of(queue) for queue in queues)]
        self._broker.ask(
            ("DEL", key, keys.worker_executions(worker)),
            *(("SREM", name, key) for name in sets),
        )

    def workers(self) -> list[WorkerPresence]:
        """See :meth:`Transport.workers`. A stock ``rq worker`` is listed too."""
        [values] = self._run([self._calls.workers()])
        return present(values, f"{self._keys.prefix}:worker:")

    def dispatchers(self) -> list[WorkerPresence]:
        """See :meth:`Transport.dispatchers`."""
        [values] = self._run([self._calls.dispatchers()])
        return present(values, f"{self._keys.prefix}:dispatcher:")

    # ------------------------------------------------------------------ housekeeping

    def check(self) -> list[str]:
        """See :meth:`Transport.check`."""
        return [] if self._broker.in_process else problems(self._broker, self._keys)

    def close(self) -> None:
        """See :meth:`Transport.close`."""
        self._broker.close()

    def advance(self, ms: int) -> None:
        """Move this transport's clock forward; for tests."""
        self._calls.offset_ms += ms

    def _run(self, calls: Sequence[Call]) -> list[Any]:
        return self._broker.run(calls) if calls else []


def _queue_of(delivery: Delivery) -> str:
    return delivery.ticket.queue_name


def _refusal(ticket: Ticket) -> TicketRefused | None:
    try:
        check_ticket(ticket)
    except TicketRefused as refusal:
        return refusal
    return None
