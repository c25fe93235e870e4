"""The steps that migrations are made of. Each may be run again where a killed migration left it (MySQL)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from engine.migrations.columns import TABLE_OPTIONS
from engine.migrations.errors import TableInTheWay


def create_table(
    name: str,
    *columns: sa.Column[object],
    key: Sequence[str] = ("id",),
    unique: Sequence[Sequence[str]] = (),
    indexes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Create a table with its primary key, unique constraints and indexes.

    A table that is there with exactly these columns is taken for ours and completed. Raises
    :class:`~engine.migrations.errors.TableInTheWay` for one with others.
    """
    present = _columns_of(name)
    if not present:
        constraints = [sa.UniqueConstraint(*names, name=_unique_name(name, names)) for names in unique]
        op.create_table(
            name,
            *columns,
            sa.PrimaryKeyConstraint(*key, name=f"pk_{name}"),
            *constraints,
            **TABLE_OPTIONS,
        )
    elif present != {column.name for column in columns}:
        raise TableInTheWay(
            f"table {name!r} exists and is not ours; rename it, or give aijobs a database of its own",
            table=name,
        )
    for index, names in (indexes or {}).items():
        if not present or index not in _indexes_of(name):
            op.create_index(index, name, list(names))


def replace_unique(
    name: str,
    old: Sequence[str],
    new: Sequence[str],
    *,
    columns: Sequence[sa.Column[Any]],
    indexes: Mapping[str, Sequence[str]],
    drop: Sequence[str] = (),
) -> None:
    """Make ``new`` unique in a table instead of ``old``, and drop the indexes that this makes needless.

    ``columns`` and ``indexes``: all that the table has besides. SQLite cannot drop a constraint, so it gets the table
    anew, with its rows.
    """
    if op.get_context().dialect.name == "sqlite":
        kept = {index: names for index, names in indexes.items() if index not in drop}
        _make_anew(name, columns, unique=new, indexes=kept)
        return
    # The new one first: nothing is inserted twice in between.
    present = None if op.get_context().as_sql else _indexes_of(name)
    if present is None or _unique_name(name, new) not in present:
        op.create_unique_constraint(_unique_name(name, new), name, list(new))
    if present is None or _unique_name(name, old) in present:
        op.drop_constraint(_unique_name(name, old), name, type_="unique")
    for index in drop:
        if present is None or index in present:
            op.drop_index(index, name)


def _make_anew(
    name: str, columns: Sequence[sa.Column[Any]], *, unique: Sequence[str], indexes: Mapping[str, Sequence[str]]
) -> None:
    former = f"{name}_former"
    op.rename_table(name, former)
    op.create_table(
        name,
        *columns,
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        sa.UniqueConstraint(*unique, name=_unique_name(name, unique)),
    )
    names = ", ".join(column.name for column in columns)
    op.execute(f"INSERT INTO {name} ({names}) SELECT {names} FROM {former}")  # noqa: S608 - names of ours
    # With it go its indexes, whose names are free then.
    op.drop_table(former)
    for index, indexed in indexes.items():
        op.create_index(index, name, list(indexed))


def _unique_name(table: str, columns: Sequence[str]) -> str:
    return f"uq_{table}_{'_'.join(columns)}"


def _columns_of(table: str) -> set[str]:
    if op.get_context().as_sql:
        return set()
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(table):
        return set()
    return {column["name"] for column in inspector.get_columns(table)}


def _indexes_of(table: str) -> set[str | None]:
    return {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
