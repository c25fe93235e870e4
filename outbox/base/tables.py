"""What every table of the engine is made of: one MetaData, MySQL's options, columns that are NOT NULL.

Tables are SQLAlchemy's Core: no row is ever mapped to an object, and the ORM would be 6.5 MB of every process.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

#: Where all tables of the engine stand; what Alembic compares.
METADATA: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: Every table names its engine and character set: the database's default may be latin1 (DB-9).
MYSQL_TABLE: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def column(name: str, type_: Any, *, nullable: bool = False, **options: Any) -> sa.Column[Any]:
    """``sqlalchemy.Column``, but NOT NULL where nothing else is said."""
    return sa.Column(name, type_, nullable=nullable, **options)
