"""How a URL names its database, and what a driver is told beyond it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from outbox.base.light_pymysql import load_pymysql


def named(url: sa.URL) -> sa.URL:
    """The URL under SQLAlchemy's name: many hosting services write ``postgres://``."""
    name, plus, driver = url.drivername.partition("+")
    return url.set(drivername=f"postgresql{plus}{driver}") if name == "postgres" else url


def load_driver(url: sa.URL) -> None:
    """Import a driver before SQLAlchemy does, where there is a lighter way to do it."""
    if url.drivername.endswith("+pymysql"):
        load_pymysql()


def connect_arguments(url: sa.URL) -> dict[str, Any]:
    """Arguments for the driver's ``connect``; empty where it needs none."""
    return {"conv": _conversions()} if url.drivername.endswith("+pymysql") else {}


def share_tls(engine: sa.Engine) -> None:
    """Let all connections of ``engine`` use one TLS context where the driver would make each its own."""
    if engine.dialect.driver == "pymysql":
        # Not by the event "do_connect", which the first listener answers for all: a host's may bring a fresh password.
        engine.dialect.connect = _connect_pymysql  # type: ignore[method-assign]


def _connect_pymysql(*arguments: Any, **options: Any) -> Any:
    # Only here: the driver itself is loaded for those who use it.
    from outbox.base.preferred_tls import PreferredTls

    return PreferredTls(*arguments, **options)


def _conversions() -> dict[Any, Any]:
    """PyMySQL's own, but for instants: it takes them apart with a regular expression, the dearest of all."""
    from pymysql.constants import FIELD_TYPE
    from pymysql.converters import conversions, convert_datetime

    def instant(text: str) -> Any:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            # A zero date of somebody else's table.
            return convert_datetime(text)

    return {**conversions, FIELD_TYPE.DATETIME: instant}
