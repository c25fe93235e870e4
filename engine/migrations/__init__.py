"""HOW THE TABLES COME INTO A DATABASE, and how they change: Alembic, inside the package, without an ini file.

    runner ....... upgrade, current, head, check, sql, stamp: what `aijobs db` calls
    standing ..... is the database up to date? asked without Alembic
    scope ........ which tables are ours; `include_object` for a host application's own Alembic
    lock ......... one migration at a time, however many processes start one
    columns ...... column types as migrations write them; never changed, only added to
    steps ........ create_table: names its character set, goes on where a killed one stopped
    errors ....... MIGRATION_*
    env .......... what Alembic runs for each command
    versions/ .... the migrations, numbered;   initial/ ... the tables of the first one, by subject

Our revision stands in a table of its own, `aijobs_alembic_version`, so that a host application may keep its
tables and its Alembic in the same database: neither sees the other's tables.

How a migration is made
    1. Change the table in `models`, and add it to `scope.MODELS` when it is new.
    2. Write `versions/NNNN_what_it_does.py` by hand, with `down_revision` the number before it. Take types from
       `columns` and never from the models, which move on. What MySQL does in several statements must bear being
       run again from its start, because there a killed migration stays half done; `steps` does.
    3. Migrate forward only, and so that the release before still runs on the new tables: add columns as
       nullable or with a server default, drop them one release later.
    4. Run `pytest tests/engine/migrations`: it compares migrated tables with the models on every database.
    No file of `versions/` and `initial/` ever changes again: some database has been through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.migrations.standing import VERSION_TABLE

if TYPE_CHECKING:
    from engine.migrations.scope import include_object

__all__ = ["VERSION_TABLE", "include_object"]


def __getattr__(name: str) -> Any:
    # Every command passes this package; only Alembic needs every model.
    if name != "include_object":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine.migrations.scope import include_object

    return include_object
