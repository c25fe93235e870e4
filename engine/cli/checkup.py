"""What ``aijobs doctor`` looks at. Each check says how things stand and, where they do not, how to mend them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import sqlalchemy as sa

from engine.app import AiJobApp
from engine.cli.errors import SchemaBehind
from engine.cli.failures import SEE_DOCTOR, judge
from engine.cli.inspecting import is_embedded
from engine.cli.schema import refuse_missing_file, require_current
from engine.lifecycle.circumstances import span
from engine.lifecycle.explain import SILENT_MS
from engine.migrations import runner
from engine.migrations.scope import VERSION_TABLE
from engine.resources.envelope import Envelopes
from outbox import queries
from outbox.base import verify

Level = Literal["ok", "warning", "failed"]

#: A table that has a row as soon as it exists.
_PROBE = f"{VERSION_TABLE}.version_num"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    level: Level
    name: str
    text: str
    fix: str | None = None


def check_up(app: AiJobApp) -> Iterator[Finding]:
    """All findings about ``app`` and its servers; a check that cannot be made is a finding itself."""
    yield from _guarded("application", lambda: _application(app))
    yield from _guarded("provider", lambda: _provider(app))
    reachable = True
    for finding in _guarded("database", lambda: _database(app)):
        reachable = reachable and finding.level != "failed"
        yield finding
    if reachable:
        yield from _guarded("outbox", lambda: _outbox(app))
    yield from _guarded("redis", lambda: _redis(app))


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - what goes wrong in a check is what the check was for
        failure = judge(error)
        # Who reads this has asked the doctor already
        fix = failure.fix and failure.fix.removesuffix(SEE_DOCTOR)
        yield Finding("failed", name, failure.message, fix)


def _application(app: AiJobApp) -> Iterator[Finding]:
    app.start()
    types, queues = len(app.registry.get_all()), ", ".join(queue.name for queue in app.registry.queues)
    yield Finding("ok", "application", f"{types} job types, queues {queues}")
    if app.settings.credential_keys is not None:
        Envelopes.from_setting(app.settings.credential_keys)
        yield Finding("ok", "credentials", "the key set can be read")


def _provider(app: AiJobApp) -> Iterator[Finding]:
    settings = app.settings
    if app.given_provider is not None:
        yield Finding("ok", "provider", f"the application's own ({app.given_provider.name})")
    elif settings.openai_api_key is None and settings.openai_base_url is None:
        yield Finding("ok", "provider", "offline: no model is asked; set AIJOBS_OPENAI_API_KEY for one that is")
    else:
        yield Finding("ok", "provider", f"{settings.openai_base_url or 'OpenAI'}, model {settings.model or 'default'}")


# ------------------------------------------------------------------ the database


def _database(app: AiJobApp) -> Iterator[Finding]:
    refuse_missing_file(app)
    engine = app.database
    with engine.connect() as conn:
        conn.rollback()
    has_tables = runner.current(engine) is not None
    problems = verify.problems(engine, probe=_PROBE if has_tables else None)
    for problem in problems:
        yield Finding("failed", "database", problem, "set it on the server, or take the proxy in between away")
    if not problems:
        rules = "isolation, character set, strict mode, time zone and row counts are as they must be"
        yield Finding("ok", "database", f"{_server(engine)}; {rules}")
    yield from _schema(app)


def _server(engine: sa.Engine) -> str:
    """``PostgreSQL 15.8 at db.example:5432/app``; never with a password."""
    product = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB"}
    name = product[engine.dialect.name]
    if getattr(engine.dialect, "is_mariadb", False):
        name = "MariaDB"
    version = ".".join(str(part) for part in (engine.dialect.server_version_info or ())[:3])
    url = engine.url
    place = url.database if url.host is None else f"{url.host}:{url.port or 'default port'}/{url.database}"
    return f"{name} {version} at {place}".replace("  ", " ")


def _schema(app: AiJobApp) -> Iterator[Finding]:
    try:
        warning = require_current(app)
    except SchemaBehind as behind:
        yield Finding("failed", "schema", str(behind), behind.fix)
        return
    if warning:
        yield Finding("warning", "schema", warning, "finish the update of all processes")
        return
    problems = runner.check(app.database)
    if not problems:
        yield Finding("ok", "schema", f"at head, revision {runner.head()}")
    for problem in problems[:5]:
        yield Finding("failed", "schema", problem, "run `aijobs db upgrade`")


def _outbox(app: AiJobApp) -> Iterator[Finding]:
    counts, oldest, now = app.uow.read(
        lambda conn: (queries.counts(conn), queries.oldest_due(conn, app.clock), app.clock.read(conn))
    )
    if counts["dead"]:
        fix = "look: aijobs outbox list --status dead"
        yield Finding("warning", "outbox", f"{counts['dead']} dead events wait for a person", fix)
    if oldest is not None and now - oldest > timedelta(milliseconds=SILENT_MS):
        text = f"an event is due since {span(now - oldest)}, and nobody takes it"
        yield Finding("warning", "outbox", text, "start a dispatcher, or look at its log: aijobs dispatcher")
    elif not counts["dead"]:
        yield Finding("ok", "outbox", f"nothing waits too long, {counts['pending']} pending")


# ------------------------------------------------------------------ Redis


def _redis(app: AiJobApp) -> Iterator[Finding]:
    if is_embedded(app):
        text = "inside one process: fine for `aijobs demo` and `aijobs run`, not for separate daemons"
        yield Finding("warning", "redis", text, "set AIJOBS_REDIS_URL to a Redis server")
        return
    problems = app.transport.check()
    for problem in problems:
        yield Finding("failed", "redis", problem, "change it in redis.conf, or set AIJOBS_REDIS_URL to another server")
    if not problems:
        yield Finding("ok", "redis", f"answers, version and noeviction are right, prefix {app.settings.redis_prefix}")
    yield _dispatchers(app)
    workers = app.transport.workers()
    for queue in app.registry.queues:
        listening = sum(queue.name in worker.queues for worker in workers)
        if listening:
            yield Finding("ok", "workers", f"{listening} listen to {queue.name}")
        else:
            yield Finding("warning", "workers", f"nobody listens to {queue.name}", f"start: aijobs worker {queue.name}")


def _dispatchers(app: AiJobApp) -> Finding:
    found = app.transport.dispatchers()
    if not found:
        text = "no dispatcher is running: at most new jobs of an idle queue start, all else waits in the outbox"
        return Finding("warning", "dispatcher", text, "start: aijobs dispatcher")
    return Finding("ok", "dispatcher", f"{len(found)} running: {', '.join(one.name for one in found[:5])}")
