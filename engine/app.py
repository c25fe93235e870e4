"""AiJobApp: the composition root. Everything is made here once and handed down as arguments.

Making an app opens no connection; a web process that only creates jobs never imports a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

import sqlalchemy as sa

from engine.config import Settings, load_settings
from engine.defining import HandlerDecorator, In, Out
from engine.errors import SettingsError
from engine.intake.admission import Admission, Limits
from engine.intake.service import AiJobService
from engine.intake.wake import WakeHint
from engine.intake.writer import DraftWriter
from engine.lifecycle.audit import AuditRepository
from engine.lifecycle.endings import Endings
from engine.lifecycle.outputs import OutputRepository
from engine.lifecycle.receipts import ReceiptRepository
from engine.lifecycle.repository import AiJobLifecycleRepository
from engine.lifecycle.snapshots import SnapshotRepository
from engine.providers.base import AiProvider
from engine.resources.prompts import PromptCatalog
from engine.resources.safety import BlockList, ContentSafety
from engine.usage.repository import UsageRepository
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork, create_engine_for
from outbox.base.telemetry import Telemetry
from outbox.events import EventType
from outbox.repository import OutboxRepository
from outbox.scores import Score
from outbox.subscribers import TERMINAL, Subscriber
from outbox.transports.base import Transport
from outbox.transports.factory import open_transport
from projectors.builtin import BUILT_IN as BUILT_IN_PROJECTORS
from projectors.protocol import ArtifactRef, FunctionProjector, ResultProjector
from projectors.registry import ProjectorRegistry
from registry.catalog import BUILT_IN as BUILT_IN_TYPES
from registry.definition import JobDefinition, JobPolicies
from registry.job import JobView
from registry.registry import JobDefinitionRegistry

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from engine.upkeep.inspection import JobInspector
    from engine.upkeep.operations import OutboxOperations

F = TypeVar("F", bound=Callable[..., Any])
Project: TypeAlias = "Callable[[Session, JobView, Any], Sequence[ArtifactRef] | None]"
P = TypeVar("P", bound="Project")


class AiJobApp:
    """One application: its job types, its settings, and everything made from them.

        app = AiJobApp()

        @app.job("greeting", input=Name, output=Greeting)
        async def greet(ctx: JobContext[Name]) -> Greeting: ...

        app.jobs.create_job(CreateJobInput(...), session=session)
    """

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        built_in_types: bool = True,
        provider: AiProvider | None = None,
        safety: ContentSafety | None = None,
        transport: Transport | None = None,
        clock: DatabaseClock | None = None,
    ) -> None:
        """Settings come from ``AIJOBS_*`` variables when none are given.

        ``built_in_types`` registers the catalog (flashcards, quizzes, ...) and its projectors.
        ``provider`` answers model calls instead of the one the settings describe. Raises
        :class:`~engine.errors.SettingsError`.
        """
        self.settings = settings or load_settings()
        self.registry = JobDefinitionRegistry(self.settings.queues)
        self.projectors = ProjectorRegistry()
        self.prompts = PromptCatalog()
        self.safety: ContentSafety = safety or BlockList()
        self.telemetry = Telemetry()
        self.clock = clock or DatabaseClock()
        self._provider = provider
        self._transport = transport
        self._subscribers: dict[str, tuple[frozenset[EventType], Subscriber]] = {}
        if built_in_types:
            for definition in BUILT_IN_TYPES:
                self.registry.register(definition)
            for projector in BUILT_IN_PROJECTORS:
                self.projectors.register(projector)

    # -------------------------------------------------------------- defining

    def register(self, definition: JobDefinition) -> JobDefinition:
        """Add a job type. Raises a :class:`~registry.errors.RegistryError` that names the field."""
        return self.registry.register(definition)

    def job(
        self,
        job_type: str,
        *,
        input: type[In],  # noqa: A002 - the public word (design 4)
        output: type[Out],
        **policies: Unpack[JobPolicies],
    ) -> HandlerDecorator[In, Out]:
        """Register the decorated function as the handler of ``job_type``.

        ``policies`` are the keyword arguments of :meth:`JobDefinition.simple`: queue, priority, timeout_ms,
        max_retries, projector, and so on. The function itself is returned unchanged.
        """

        def register(handler: Callable[..., Any]) -> None:
            definition = JobDefinition.simple(
                job_type, input=input, output=output, handler=handler, **policies
            )
            self.register(definition)

        return HandlerDecorator(register)

    def projector(self, key: str) -> Callable[[P], P]:
        """Register the decorated function as the projector ``key``.

        It is called as ``function(session, job, output)`` in the final transaction and returns the
        :class:`ArtifactRef` of every business row it wrote.
        """

        def decorate(function: P) -> P:
            self.projectors.register(FunctionProjector(key, function))
            return function

        return decorate

    def add_projector(self, projector: ResultProjector) -> ResultProjector:
        """Register a projector object."""
        return self.projectors.register(projector)

    def on_end(self, name: str, *, events: Sequence[EventType] = TERMINAL) -> Callable[[F], F]:
        """Call the decorated function with every terminal event, at least once, after its commit.

        ``name`` identifies the subscriber for ever: events wait under it. A dispatcher process makes the
        calls; an error is retried with backoff.
        """

        def decorate(function: F) -> F:
            if name in self._subscribers or not name or len(name) > 64:
                raise SettingsError(f"subscriber {name!r}: the name is taken, empty or longer than 64")
            self._subscribers[name] = (frozenset(events), function)
            return function

        return decorate

    def start(self) -> None:
        """Check that definitions and projectors fit together, and take no more of them. Idempotent."""
        if not self.registry.frozen:
            self.registry.check_projectors(self.projectors.keys())
            self.registry.freeze()
            self.projectors.freeze()

    # -------------------------------------------------------------- the parts

    @cached_property
    def database(self) -> sa.Engine:
        """The engine for the settings' database; no connection is opened until it is used."""
        url = self.settings.database_url
        _make_folder(url)
        return create_engine_for(url, idle_transaction_ms=self.settings.idle_transaction_ms)

    @cached_property
    def uow(self) -> UnitOfWork:
        return UnitOfWork(self.database)

    @cached_property
    def transport(self) -> Transport:
        """The carrier of tickets; it connects when it is used."""
        return self._transport or open_transport(self.settings.redis_url, prefix=self.settings.redis_prefix)

    @cached_property
    def lifecycle(self) -> AiJobLifecycleRepository:
        return AiJobLifecycleRepository(self.clock)

    @cached_property
    def snapshots(self) -> SnapshotRepository:
        return SnapshotRepository(self.clock)

    @cached_property
    def outputs(self) -> OutputRepository:
        return OutputRepository(self.clock)

    @cached_property
    def receipts(self) -> ReceiptRepository:
        return ReceiptRepository(self.clock)

    @cached_property
    def outbox(self) -> OutboxRepository:
        return OutboxRepository(self.clock, priority_step_ms=self.settings.priority_step_ms)

    @cached_property
    def usage(self) -> UsageRepository:
        return UsageRepository(self.clock, self.lifecycle)

    @cached_property
    def endings(self) -> Endings:
        return Endings(self.outbox, self._subscribed)

    @cached_property
    def wake(self) -> WakeHint:
        return WakeHint(self.transport, self.telemetry)

    @cached_property
    def admission(self) -> Admission:
        return Admission(Limits(**self.settings.admission.model_dump()), self.clock)

    @cached_property
    def jobs(self) -> AiJobService:
        """The one door through which jobs come in."""
        writer = DraftWriter(
            lifecycle=self.lifecycle, snapshots=self.snapshots, outbox=self.outbox, admission=self.admission
        )
        return AiJobService(
            registry=self.registry,
            prompts=self.prompts,
            uow=self.uow,
            lifecycle=self.lifecycle,
            snapshots=self.snapshots,
            outputs=self.outputs,
            writer=writer,
            endings=self.endings,
            transport=self.transport,
            wake=self.wake,
            telemetry=self.telemetry,
            payload_limit=self.settings.payload_limit_bytes,
            score=Score(self.settings.priority_step_ms) if self.settings.dispatcher.early else None,
        )

    @cached_property
    def inspector(self) -> JobInspector:
        """Looks jobs over for people: what is on record about one, and why it is where it is."""
        from engine.upkeep.inspection import InspectionOptions, JobInspector

        dispatching, upkeep = self.settings.dispatcher, self.settings.upkeep
        return JobInspector(
            uow=self.uow, clock=self.clock, registry=self.registry, usage=self.usage, transport=self.transport,
            options=InspectionOptions(
                poll_ms=dispatching.poll_ms, claim_ttl_ms=dispatching.claim_ttl_ms,
                upkeep_ms=upkeep.interval_ms, redelivery_ms=upkeep.redelivery_ms,
                high_water_mark=dispatching.high_water_mark,
            ),
        )  # fmt: skip

    @cached_property
    def operations(self) -> OutboxOperations:
        """What a person may do with the outbox: deliver again, or give up."""
        from engine.upkeep.operations import OutboxOperations

        return OutboxOperations(
            uow=self.uow, lifecycle=self.lifecycle, outbox=self.outbox, endings=self.endings,
            audit=AuditRepository(self.clock), look_after_ms=self.settings.upkeep.redelivery_ms,
        )  # fmt: skip

    @property
    def subscribers(self) -> dict[str, Subscriber]:
        """Subscribers to terminal events, by name."""
        return {name: function for name, (_, function) in self._subscribers.items()}

    @property
    def given_provider(self) -> AiProvider | None:
        """The provider this app was made with, if any."""
        return self._provider

    def _subscribed(self, event: EventType) -> list[str]:
        return [name for name, (events, _) in self._subscribers.items() if event in events]

    def close(self) -> None:
        """Let go of connections and threads. The app may not be used afterwards."""
        for name, close in (("wake", "close"), ("transport", "close"), ("database", "dispose")):
            part = self.__dict__.get(name)
            if part is not None:
                getattr(part, close)()


def _make_folder(url: str) -> None:
    """The folder of a SQLite file, which SQLite itself would not make."""
    path = sa.make_url(url).database if url.startswith("sqlite") else None
    if path and path != ":memory:":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
