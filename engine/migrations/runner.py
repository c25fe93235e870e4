"""Brings tables up to date, says how they stand, and writes the SQL for those who do it by hand."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from engine.migrations.differences import differences
from engine.migrations.errors import UnknownRevision
from engine.migrations.lock import WAIT_S, migrating
from engine.migrations.scope import options
from outbox.base.drivers import named
from outbox.base.errors import DatabaseUrlError

_HERE: Final = Path(__file__).parent
#: Alembic keeps the running migration in module globals, so one at a time in a process.
_ALEMBIC: Final = threading.Lock()


def upgrade(engine: sa.Engine, revision: str = "head", *, wait_s: int = WAIT_S) -> list[str]:
    """Bring the database to ``revision`` and return the revisions that were applied; none is fine.

    May be started by many processes at once: the others wait up to ``wait_s`` seconds and then have
    nothing to do. On PostgreSQL and SQLite it is one transaction; on MySQL and MariaDB, whose DDL
    commits by itself, a killed upgrade is completed by the next. Raises
    :class:`~engine.migrations.errors.MigrationError` and database errors.
    """
    applied: list[str] = []

    def note(*, step: Any, **_: Any) -> None:
        applied.extend(step.up_revision_ids)

    with migrating(engine, wait_s) as conn:
        _run(command.upgrade, revision, connection=conn, on_version_apply=note)
    return applied


def stamp(engine: sa.Engine, revision: str = "head") -> None:
    """Write down that the tables are at ``revision``, without touching them.

    For tables that were made in another way; ``check`` says whether they fit.
    """
    with migrating(engine) as conn:
        _run(command.stamp, revision, connection=conn)


def current(engine: sa.Engine) -> str | None:
    """The revision of the database, or None where no migration ever ran. Changes nothing."""
    with _reading(engine) as conn:
        return MigrationContext.configure(conn, opts=options()).get_current_revision()


def head() -> str:
    """The newest revision that this release knows."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    assert newest is not None, "the package has migrations"
    return newest


def is_known(revision: str) -> bool:
    """Whether this release has that revision; it has not where a later release has migrated."""
    try:
        return ScriptDirectory.from_config(_config()).get_revision(revision) is not None
    except CommandError:
        return False


def check(engine: sa.Engine) -> list[str]:
    """What is different between the database and the models, one sentence each; empty when nothing is.

    Looks at our tables only and changes nothing.
    """
    with _reading(engine) as conn:
        context = MigrationContext.configure(conn, opts=options())
        found = context.get_current_revision()
        behind = (
            [] if found == head() else [f"the revision is {found}, this release needs {head()}"]
        )
        return behind + differences(context)


def sql(url: str, revision: str = "head", *, start: str = "base") -> str:
    """The statements that lead from revision ``start`` to ``revision``, for a database like ``url``.

    Nothing is connected to; of the URL only its kind matters, so ``postgresql://`` is enough.
    """
    try:
        dialect = named(sa.make_url(url)).get_backend_name()
    except sa.exc.ArgumentError:
        raise DatabaseUrlError() from None
    output = io.StringIO()
    steps = revision if start == "base" else f"{start}:{revision}"
    _run(command.upgrade, steps, output=output, dialect_name=dialect, sql=True)
    return output.getvalue()


def _reading(engine: sa.Engine) -> sa.Connection:
    return engine.execution_options(aijobs_reading=True).connect()


def _run(
    act: Callable[..., None],
    revision: str,
    *,
    output: io.StringIO | None = None,
    sql: bool = False,
    **configure: Any,
) -> None:
    config = _config(output)
    config.attributes["configure"] = options() | configure
    try:
        with _ALEMBIC:
            act(config, revision, sql=sql)
    except CommandError as error:
        raise UnknownRevision(str(error)) from error


def _config(output: io.StringIO | None = None) -> Config:
    config = Config(output_buffer=output) if output is not None else Config()
    # ConfigParser reads % as the beginning of a reference
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    return config
