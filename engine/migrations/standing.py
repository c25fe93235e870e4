"""How the database stands, asked without Alembic: every daemon asks at its start, and most need no more.

Alembic and its templates take 19 MB that a process would then keep for its life; nor are the models needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa

#: Where our revision stands; a host's own Alembic uses ``alembic_version``.
VERSION_TABLE: Final = "aijobs_alembic_version"
_VERSIONS: Final = Path(__file__).parent / "versions"
_VERSION: Final = sa.table(VERSION_TABLE, sa.column("version_num", sa.String))


def is_current(engine: sa.Engine) -> bool:
    """Whether the database is at the newest revision of this release; :mod:`runner` says how it stands if not."""
    return _revisions(engine) == [newest()]


def is_recent(engine: sa.Engine) -> bool:
    """Whether it is at that revision or a later one, which is what an old process meets in a rolling update."""
    found = _revisions(engine)
    return bool(found) and min(found) >= newest()


def _revisions(engine: sa.Engine) -> list[str]:
    with engine.execution_options(aijobs_reading=True).connect() as conn:
        if not sa.inspect(conn).has_table(VERSION_TABLE):
            return []
        return list(conn.execute(sa.select(_VERSION.c.version_num)).scalars())


def newest() -> str:
    """The newest revision: migrations are numbered, and the number is the beginning of the file's name."""
    return max(path.name.partition("_")[0] for path in _VERSIONS.glob("[0-9]*.py"))
