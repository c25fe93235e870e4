"""Daemons made from an app: a worker, a dispatcher, upkeep. The second half of the composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from engine.app import AiJobApp
from engine.errors import SettingsError
from engine.idempotency.store import IdempotencyStore
from engine.lifecycle.lease import Lease
from engine.lifecycle.queues import QueueControlRepository
from engine.observe.readiness import Progress
from engine.pipeline.batcher import Batcher
from engine.pipeline.commits import Commits
from engine.pipeline.context import JobContext
from engine.pipeline.engine import AiJobExecutionEngine, EngineOptions
from engine.pipeline.execute import Executor
from engine.pipeline.gateway import Gateway
from engine.pipeline.heartbeat import Heartbeat
from engine.pipeline.prepare import Preparer
from engine.pipeline.progress import ProgressWriter
from engine.pipeline.project import Projection
from engine.pipeline.resolve import Resolver
from engine.pipeline.settle import Settler
from engine.pipeline.work import Resolved, Work
from engine.providers.base import AiProvider
from engine.providers.endpoint import normal_base_url
from engine.providers.late import LateProvider
from engine.providers.router import ProviderRouter
from engine.resources.credential_store import CredentialStore
from engine.resources.envelope import Envelopes
from engine.resources.resolver import CredentialResolver
from engine.streams.store import StreamStore
from engine.streams.writer import StreamWriter
from engine.upkeep.upkeep import Upkeep, UpkeepOptions
from engine.usage.repository import Intent, Settlement
from engine.worker.dispatching import DispatcherProcess
from engine.worker.identity import process_name
from engine.worker.pauses import Pauses
from engine.worker.process import WorkerProcess
from outbox.base.db import UnitOfWork, create_engine_for
from outbox.dispatcher import DispatchOptions, OutboxDispatcher
from outbox.inbox import InboxRepository
from outbox.subscribers import SubscriberDelivery
from outbox.transports.base import Transport
from registry.errors import UnknownQueueError
from registry.nearest import did_you_mean
from registry.queues import QueueSpec

#: How long a preview of an answer is kept: its readers come back within seconds, or read the output.
PREVIEW_MS = 3_600_000
#: Where the platform's key is valid when the settings name no other server.
OPENAI_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4o-mini"


def make_provider(app: AiJobApp) -> AiProvider:
    """The provider the settings describe: offline without a platform key; users' keys go to their own."""
    if app.given_provider is not None:
        return app.given_provider
    settings = app.settings
    platform = deepseek = None
    if settings.openai_api_key is not None or settings.openai_base_url is not None:
        platform = _openai_compatible(
            "openai", settings.openai_base_url or OPENAI_BASE_URL, settings.model or DEFAULT_MODEL,
            key_required=settings.openai_base_url is None,
        )  # fmt: skip
    if settings.credential_keys is not None:
        # Without a key set there are no users' keys.
        deepseek = _openai_compatible("deepseek", settings.deepseek_base_url, settings.deepseek_model)
    return ProviderRouter(platform=platform, user_deepseek=deepseek, offline=LateProvider("offline", _offline))


def _offline() -> Callable[[], AiProvider]:
    from engine.providers.offline import OfflineProvider

    return OfflineProvider


def _openai_compatible(name: str, base_url: str, model: str, *, key_required: bool = True) -> LateProvider:
    """Made with its first call: the library takes 20 MB and a second. A wrong address is refused at once."""
    address = normal_base_url(base_url)

    def load() -> Callable[[], AiProvider]:
        from engine.providers.openai_compatible import OpenAICompatibleProvider

        return lambda: OpenAICompatibleProvider(
            base_url=address, default_model=model, name=name, key_required=key_required
        )

    return LateProvider(name, load)


def make_credentials(app: AiJobApp) -> CredentialResolver:
    """The keys jobs may run with. Raises :class:`SettingsError` for a key set that cannot be read."""
    keys = app.settings.credential_keys
    store = None if keys is None else CredentialStore(Envelopes.from_setting(keys), app.clock)
    return CredentialResolver(platform=app.settings.openai_api_key, store=store)


def make_worker(
    app: AiJobApp,
    queues: Sequence[str] = (),
    *,
    concurrency: Mapping[str, int] | int | None = None,
    name: str | None = None,
    grace_ms: int | None = None,
    transport: Transport | None = None,
    progress: Progress | None = None,
) -> WorkerProcess:
    """A worker for ``queues`` (all of them by default).

    ``concurrency`` is one number for every queue, or one per name; otherwise each queue's own. ``transport``
    brings its tickets, where that is not the app's; ``progress`` is told of its rounds. Raises
    :class:`SettingsError` for an unknown queue.
    """
    app.start()
    transport = transport or app.transport
    slots = _slots(app, queues, concurrency)
    name = name or process_name("worker")
    provider = make_provider(app)
    resolver = Resolver(uow=app.uow, credentials=make_credentials(app), prompts=app.prompts)
    settings = app.settings.worker
    projection = Projection(
        uow=app.uow, lifecycle=app.lifecycle, outputs=app.outputs, endings=app.endings,
        projectors=app.projectors, clock=app.clock, telemetry=app.telemetry,
    )  # fmt: skip
    settler = Settler(
        uow=app.uow, lifecycle=app.lifecycle, outbox=app.outbox, endings=app.endings, worker=name,
        look_after_ms=app.settings.upkeep.redelivery_ms,
    )  # fmt: skip

    def make_preparer(in_hand: Callable[[Lease], bool]) -> Preparer:
        return Preparer(
            registry=app.registry, uow=app.uow, lifecycle=app.lifecycle, snapshots=app.snapshots,
            telemetry=app.telemetry, worker=name, in_hand=in_hand,
        )  # fmt: skip

    def make_engine(threads: ThreadPoolExecutor, loop: asyncio.AbstractEventLoop) -> AiJobExecutionEngine:
        executor = Executor(
            make_context=_contexts(app, provider, threads, loop),
            safety=app.safety,
            output_limit=settings.output_limit_bytes,
        )
        return AiJobExecutionEngine(
            uow=app.uow, resolver=resolver, executor=executor, projection=projection, settler=settler,
            usage=app.usage, backoff_ms=lambda work: app.registry.backoff_ms(work.definition),
            threads=threads, telemetry=app.telemetry,
            options=EngineOptions(
                park_from_ms=settings.park_from_ms, max_retry_after_ms=settings.max_retry_after_ms,
                keep_error_text=settings.keep_error_text,
            ),
        )  # fmt: skip

    return WorkerProcess(
        name=name,
        queues=slots,
        transport=transport,
        pauses=Pauses(app.uow, QueueControlRepository(app.clock)),
        make_preparer=make_preparer,
        make_engine=make_engine,
        make_heartbeat=lambda **kw: _heartbeat(app, transport, **kw),
        close=provider.aclose,
        telemetry=app.telemetry,
        upkeep=make_upkeep(app, delivers=False),
        upkeep_ms=app.settings.upkeep.interval_ms,
        db_threads=settings.db_threads,
        grace_ms=settings.grace_ms if grace_ms is None else grace_ms,
        progress=progress,
    )


def _slots(
    app: AiJobApp, names: Sequence[str], concurrency: Mapping[str, int] | int | None
) -> dict[QueueSpec, int]:
    try:
        specs = [app.registry.queue(name) for name in names] or list(app.registry.queues)
    except UnknownQueueError as error:
        raise SettingsError(str(error)) from None
    if isinstance(concurrency, int):
        return dict.fromkeys(specs, concurrency)
    given = concurrency or {}
    for name in given.keys() - {spec.name for spec in specs}:
        near = did_you_mean(name, [spec.name for spec in specs])
        raise SettingsError(f"concurrency is given for {name!r}, which this worker does not serve{near}")
    return {spec: given.get(spec.name, spec.concurrency) for spec in specs}


def _contexts(
    app: AiJobApp, provider: AiProvider, threads: ThreadPoolExecutor, loop: asyncio.AbstractEventLoop
) -> Callable[[Resolved, float], JobContext[Any]]:
    """What makes the context of an attempt: the batchers it shares with all others of this process."""
    intents: Batcher[Intent, bool] = Batcher(
        "intents",
        lambda items: app.uow.run(
            lambda conn: app.usage.record(conn, items), landed=lambda conn: app.usage.recorded(conn, items)
        ),
        executor=threads,
    )
    settlements: Batcher[Settlement, bool] = Batcher(
        "settlements",
        lambda items: app.uow.run(lambda conn: app.usage.settle(conn, items), repeatable=True),
        executor=threads,
    )
    progress = ProgressWriter(uow=app.uow, lifecycle=app.lifecycle, threads=threads, loop=loop)
    preview = StreamWriter(app.uow, StreamStore(app.clock), app.telemetry)

    def make(resolved: Resolved, deadline: float) -> JobContext[Any]:
        work = resolved.work
        assert resolved.credential is not None
        gateway = Gateway(
            work=work, credential=resolved.credential, provider=provider, intents=intents,
            settlements=settlements, deadline=deadline, telemetry=app.telemetry,
        )  # fmt: skip
        commits = Commits(
            work=work, uow=app.uow, lifecycle=app.lifecycle, receipts=app.receipts, threads=threads,
            telemetry=app.telemetry,
        )  # fmt: skip
        return JobContext(
            resolved, gateway=gateway, commits=commits, progress=progress.reporter(work), loop=loop,
            show=lambda text: preview.write(work.job.id, work.lease.epoch, text),
        )  # fmt: skip

    return make


def _heartbeat(
    app: AiJobApp, transport: Transport, *, worker: str, running: Callable[[], Sequence[Work]], stop: Any
) -> Heartbeat:
    # A connection of its own, which the work cannot exhaust (WL-2).
    own = create_engine_for(
        app.settings.database_url, idle_transaction_ms=app.settings.idle_transaction_ms, pool_size=2, max_overflow=0
    )
    return Heartbeat(
        uow=UnitOfWork(own, max_runs=2), lifecycle=app.lifecycle, transport=transport, telemetry=app.telemetry,
        worker=worker, running=running, stop=stop,
    )  # fmt: skip


def make_upkeep(app: AiJobApp, *, delivers: bool = True) -> Upkeep:
    """Upkeep with the settings of ``app``; ``delivers`` is for processes that stand beside a dispatcher."""
    settings = app.settings
    return Upkeep(
        uow=app.uow, clock=app.clock, registry=app.registry, lifecycle=app.lifecycle, outbox=app.outbox,
        endings=app.endings, usage=app.usage, snapshots=app.snapshots, outputs=app.outputs,
        transport=app.transport, telemetry=app.telemetry, delivers=delivers,
        options=UpkeepOptions(
            redelivery_ms=settings.upkeep.redelivery_ms, claim_ttl_ms=settings.dispatcher.claim_ttl_ms,
            published_days=settings.upkeep.published_days, dead_days=settings.upkeep.dead_days,
        ),
        chores=_edge_chores(app),
    )  # fmt: skip


def _edge_chores(app: AiJobApp) -> tuple[Callable[[], int], ...]:
    """Keys, foreign events and previews whose time is over."""
    keys, inbox, streams = IdempotencyStore(app.uow, app.clock), InboxRepository(app.clock), StreamStore(app.clock)
    return (
        keys.purge_expired,
        lambda: app.uow.run(inbox.purge_expired, repeatable=True),
        lambda: app.uow.run(lambda conn: streams.purge(conn, older_ms=PREVIEW_MS), repeatable=True),
    )


def make_outbox_dispatcher(app: AiJobApp, *, owner: str | None = None) -> OutboxDispatcher:
    """The dispatcher's round, without its process."""
    look_after = app.settings.upkeep.redelivery_ms
    return OutboxDispatcher(
        uow=app.uow, outbox=app.outbox, transport=app.transport,
        queues=[queue.name for queue in app.registry.queues],
        owner=owner or process_name("dispatcher"), telemetry=app.telemetry,
        options=_dispatch_options(app),
        on_delivered=lambda conn, ids: app.lifecycle.stamp_delivered(conn, ids, look_after_ms=look_after),
        free=app.lifecycle.unlocked,
    )  # fmt: skip


def _dispatch_options(app: AiJobApp) -> DispatchOptions:
    settings = app.settings.dispatcher
    return DispatchOptions(
        batch=settings.batch, high_water_mark=settings.high_water_mark, max_attempts=settings.max_attempts,
        backoff_ms=settings.backoff_ms, breaker_limit_ms=settings.breaker_limit_ms,
        claim_ttl_ms=settings.claim_ttl_ms,
    )  # fmt: skip


def make_dispatcher(
    app: AiJobApp, *, name: str | None = None, upkeep: bool = True, progress: Progress | None = None
) -> DispatcherProcess:
    """A dispatcher process, with upkeep unless told otherwise; ``progress`` is told of its rounds."""
    app.start()
    name = name or process_name("dispatcher")
    subscribers = SubscriberDelivery(
        uow=app.uow, outbox=app.outbox, subscribers=app.subscribers, owner=name, telemetry=app.telemetry,
        options=_dispatch_options(app),
    )  # fmt: skip
    return DispatcherProcess(
        name=name,
        dispatcher=make_outbox_dispatcher(app, owner=name),
        subscribers=subscribers if app.subscribers else None,
        upkeep=make_upkeep(app) if upkeep else None,
        transport=app.transport,
        poll_ms=app.settings.dispatcher.poll_ms,
        upkeep_ms=app.settings.upkeep.interval_ms,
        # SQLite has one writer: a second round would only wait for the first.
        parallel=1 if app.database.dialect.name == "sqlite" else app.settings.dispatcher.parallel,
        progress=progress,
    )

