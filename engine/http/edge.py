"""What all routers share: the app, the gate, and the parts that live at the edge. One for an application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread
import sqlalchemy as sa

from engine.app import AiJobApp
from engine.http.auth import Authenticator, LoopbackOnly
from engine.http.gate import Gate
from engine.http.watch import JobWatch
from engine.idempotency.store import IdempotencyOptions, IdempotencyStore
from engine.lifecycle.audit import AuditRepository
from engine.lifecycle.queues import QueueControlRepository
from engine.observe.readiness import Progress
from engine.streams.store import StreamStore
from engine.upkeep.acts import joining

__all__ = ["Edge", "joining"]

T = TypeVar("T")


class Edge:
    """The HTTP edge of an app.

    edge = Edge(app, authenticate=my_callable)
    host.include_router(job_router(edge), prefix="/api/ai")
    """

    def __init__(
        self,
        app: AiJobApp,
        *,
        authenticate: Authenticator | None = None,
        idempotency: IdempotencyOptions | None = None,
    ) -> None:
        """``authenticate`` says who is calling; without it only this machine is let in."""
        app.start()
        self.app = app
        per_minute = app.settings.http.requests_per_minute or None
        self.gate = Gate(authenticate or LoopbackOnly(), per_minute=per_minute)
        self.progress = Progress()
        self.watch = JobWatch(
            app.uow, listen=lambda: app.transport.listen(), progress=self.progress
        )
        self.idempotency = IdempotencyStore(app.uow, app.clock, idempotency)
        self.streams = StreamStore(app.clock)
        self.audit = AuditRepository(app.clock)
        self.queues = QueueControlRepository(app.clock)

    async def read(self, look: Callable[[sa.Connection], T]) -> T:
        """Run ``look`` in a reading transaction on a thread."""
        return await anyio.to_thread.run_sync(self.app.uow.read, look)

    async def thread(self, act: Callable[[], T]) -> T:
        """Run ``act`` on a thread: everything that touches the database is plain, blocking code."""
        return await anyio.to_thread.run_sync(act)

    def close(self) -> None:
        """Let go of everybody who waits."""
        self.watch.close()
