"""DispatcherProcess: the dispatcher's loop, woken by hints, with subscribers and upkeep beside it."""

from __future__ import annotations

import logging
import threading
import time

from engine.intake.wake import dispatcher_channel
from engine.observe.readiness import Progress
from engine.upkeep.upkeep import Upkeep
from engine.worker.loops import watched_loop
from outbox.base.heap import settle_heap
from outbox.base.loop import Loop
from outbox.dispatcher import OutboxDispatcher
from outbox.errors import TransportError
from outbox.subscribers import SubscriberDelivery
from outbox.transports.base import Transport

_log = logging.getLogger("aijobs.dispatcher")

#: How often a dispatcher tells Redis that it is there, in ms; after 90 s of silence it is not listed any more.
PRESENCE_EVERY_MS = 10_000


class DispatcherProcess:
    """Dispatches until it is stopped. Any number of them may run."""

    def __init__(
        self,
        *,
        name: str,
        dispatcher: OutboxDispatcher,
        subscribers: SubscriberDelivery | None,
        upkeep: Upkeep | None,
        transport: Transport,
        poll_ms: int,
        upkeep_ms: int,
        parallel: int = 1,
        progress: Progress | None = None,
    ) -> None:
        """``parallel``: rounds at a time while there is a backlog; ``progress`` is told of every round."""
        self.name = name
        progress = progress or Progress()
        self._transport = transport
        self._dispatcher = dispatcher
        self._poll_s = poll_ms / 1000
        self._channels = {dispatcher_channel(queue): queue for queue in dispatcher.queues}
        #: The queue that the last hint named, and when all queues were looked at last, in monotonic seconds.
        self._hinted: str | None = None
        self._looked_at = float("-inf")
        self._stopped = threading.Event()
        self._backlog = threading.Event()
        self._loops = [watched_loop(progress, "dispatch", self._dispatch, poll_ms, self._wait_for_hint)]
        self._loops += [
            watched_loop(progress, f"dispatch-{number}", self._help, poll_ms, self._wait_for_backlog)
            for number in range(2, parallel + 1)
        ]
        if subscribers is not None:
            self._loops.append(watched_loop(progress, "subscribers", subscribers.run_once, poll_ms))
        if upkeep is not None:
            self._loops.append(watched_loop(progress, "dispatcher-upkeep", upkeep.run_once, upkeep_ms))
        self._presence = Loop("presence", self._be_present, interval_ms=PRESENCE_EVERY_MS)
        self._registered = False

    def start(self) -> None:
        """Begin, on threads of its own."""
        for loop in (*self._loops, self._presence):
            loop.start()

    def run(self) -> None:
        """Dispatch until :meth:`stop`; a batch that is under way is finished and marked."""
        settle_heap()
        self.start()
        self._stopped.wait()
        self.join()

    def run_once(self) -> None:
        """Do what is due on the caller's thread, for a timer or a test; raises what goes wrong."""
        for loop in self._loops:
            loop.run_out()

    def stop(self) -> None:
        """Stop claiming. Safe from any thread or signal handler."""
        for loop in (*self._loops, self._presence):
            loop.stop()
        self._backlog.set()
        self._stopped.set()

    def join(self, timeout_s: float = 10.0) -> bool:
        """Wait until the loops have ended; False when one still runs."""
        ended = [loop.join(timeout_s) for loop in (*self._loops, self._presence)]
        self._be_gone()
        return all(ended)

    def _be_present(self) -> bool:
        """Tell Redis that this dispatcher is there, so that people can see whether any is."""
        try:
            if self._registered:
                self._transport.heartbeat(self.name, [], 0)
            else:
                self._transport.register_dispatcher(self.name)
                self._registered = True
        except TransportError as error:
            _log.debug("not announced: %s", error.code)
        return False

    def _be_gone(self) -> None:
        if not self._registered:
            return
        self._registered = False
        try:
            self._transport.unregister_worker(self.name)
        except TransportError as error:
            _log.debug("not unregistered: %s", error.code)

    def _dispatch(self) -> bool:
        """One round: over the queue that was hinted at, or over all of them once in ``poll_ms`` and at a backlog."""
        queue, self._hinted = self._hinted, None
        now = time.monotonic()
        if now - self._looked_at >= self._poll_s:
            queue = None
        if queue is None:
            self._looked_at = now
        more = self._dispatcher.run_once(queue)
        if more:
            self._backlog.set()
        return more

    def _help(self) -> bool:
        """One round, if there is a backlog: the database works on it while another round is at Redis.

        Each sees the depth of the queues before the other's tickets, so a queue may get one batch too many.
        """
        if not self._backlog.is_set():
            return False
        more = self._dispatcher.run_once()
        if not more:
            self._backlog.clear()
        return more

    def _wait_for_backlog(self, timeout_ms: int) -> None:
        self._backlog.wait(timeout_ms / 1000)

    def _wait_for_hint(self, timeout_ms: int) -> None:
        """Sleep until a creator's hint or the next poll; without Redis the poll alone counts.

        While a queue stands at its high-water mark workers give no hints, so it is looked at more often.
        """
        due_ms = round((self._looked_at + self._poll_s - time.monotonic()) * 1000)
        timeout_ms = max(1, min(timeout_ms, due_ms, self._dispatcher.pause_ms))
        try:
            found = self._transport.wait_wake(list(self._channels), timeout_ms, self._stopped.is_set)
            self._hinted = None if found is None else self._channels[found]
            if found is not None:
                # The last in line from now on: the first with a hint is answered, and some queues have one always.
                self._channels[found] = self._channels.pop(found)
        except TransportError:
            self._stopped.wait(timeout_ms / 1000)
