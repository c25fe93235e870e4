"""A host application's own declarative models, which SQLAlchemy's ORM maps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


@contextmanager
def essay_on(metadata: sa.MetaData) -> Iterator[Any]:
    """A mapped class ``Essay`` whose table stands in ``metadata``, which may be the engine's, while it is used."""

    class HostBase(DeclarativeBase):
        pass

    HostBase.metadata = metadata

    class Essay(HostBase):
        __tablename__ = "host_essay"

        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str] = mapped_column(sa.String(40))

    try:
        yield Essay
    finally:
        metadata.remove(metadata.tables["host_essay"])
        HostBase.registry.dispose()
