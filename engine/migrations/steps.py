"""The steps that migrations are made of. Each may be run again where a killed migration left it (MySQL)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        constraints = [
            sa.UniqueConstraint(*names, name=f"uq_{name}_{'_'.join(names)}") for names in unique
        ]
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


def _columns_of(table: str) -> set[str]:
    if op.get_context().as_sql:
        return set()
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(table):
        return set()
    return {column["name"] for column in inspector.get_columns(table)}


def _indexes_of(table: str) -> set[str | None]:
    return {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
