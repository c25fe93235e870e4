"""Whether the database has the tables of this release, asked before anything is started on it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from engine.app import AiJobApp
from engine.cli.errors import SchemaBehind
from engine.migrations import standing


def refuse_missing_file(app: AiJobApp) -> None:
    """Raise :class:`SchemaBehind` where the database would be a new, empty SQLite file: reading makes none."""
    path = sqlite_file(app)
    if path is not None and not path.exists():
        raise SchemaBehind(f"there is no file {path.absolute()}")


def sqlite_file(app: AiJobApp) -> Path | None:
    """The file of a SQLite database, None for a server."""
    try:
        url = sa.make_url(app.settings.database_url)
    except sa.exc.ArgumentError:
        return None
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def require_current(app: AiJobApp) -> str | None:
    """Raise :class:`SchemaBehind` unless the tables are those of this release or of a later one.

    A later one is what an old process meets in a rolling update, so it is no error: returns a warning then.
    """
    refuse_missing_file(app)
    if standing.is_current(app.database):
        return None
    # Here and not above: Alembic is memory and a quarter of a second that few need.
    from engine.migrations import runner

    found = runner.current(app.database)
    if found == runner.head():
        return None
    if found is None:
        raise SchemaBehind("it has none of them")
    if runner.is_known(found):
        raise SchemaBehind(f"it is at revision {found}, {runner.head()} is needed")
    return f"the database is at revision {found}, which is newer than this release ({runner.head()})"
