"""A server that runs and lets nobody in is told apart from one that cannot be reached, in the server's own words."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox.base.db import UnitOfWork, create_engine_for
from outbox.base.errors import DatabaseLoginRefused, DatabaseMissing, DatabaseUnavailable
from outbox.base.failures import translate


class _Driver(Exception):
    """What psycopg raises where a connection is refused: no state, only words."""


_Driver.__module__ = "psycopg"


def asked(url: sa.URL) -> DatabaseUnavailable:
    engine = create_engine_for(url.render_as_string(hide_password=False))
    try:
        with pytest.raises(DatabaseUnavailable) as caught:
            UnitOfWork(engine).read(lambda conn: conn.execute(sa.select(1)))
    finally:
        engine.dispose()
    return caught.value


def test_a_database_that_does_not_exist_is_named(server_engine: sa.Engine) -> None:
    told = asked(server_engine.url.set(database="no_such_shop"))

    assert type(told) is DatabaseMissing
    assert "no_such_shop" in str(told)
    assert "lost" not in str(told)


def test_a_user_that_does_not_exist_is_named(server_engine: sa.Engine) -> None:
    told = asked(server_engine.url.set(username="nobody_here", password="hunter2"))

    assert type(told) is DatabaseLoginRefused
    assert "nobody_here" in str(told)
    assert "hunter2" not in str(told)


@pytest.mark.parametrize(
    ("says", "kind", "named"),
    [
        ('FATAL:  database "shop" does not exist', DatabaseMissing, 'database "shop" does not exist'),
        ('FATAL:  role "me" does not exist', DatabaseLoginRefused, 'role "me" does not exist'),
        (
            'FATAL:  password authentication failed for user "me"',
            DatabaseLoginRefused,
            'password authentication failed for user "me"',
        ),
        ("fe_sendauth: no password supplied", DatabaseLoginRefused, "no password supplied"),
        ("Connection refused\n\tIs the server running?", DatabaseUnavailable, "cannot be reached"),
    ],
)
def test_the_words_of_postgresql_are_understood(says: str, kind: type[Exception], named: str) -> None:
    cause = _Driver(f'connection failed: connection to server at "127.0.0.1", port 5432 failed: {says}')

    told = translate(sa.exc.OperationalError(None, None, cause))

    assert type(told) is kind
    assert named in str(told)


@pytest.mark.parametrize("number", [1044, 1045, 1698])
def test_every_refusal_of_mysql_is_a_refused_login(number: int) -> None:
    cause = _Driver(number, "Access denied for user 'me'@'localhost'")

    assert type(translate(sa.exc.OperationalError(None, None, cause))) is DatabaseLoginRefused


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgres+psycopg"])
def test_every_spelling_of_postgresql_is_the_same_driver(scheme: str) -> None:
    engine = create_engine_for(f"{scheme}://me@127.0.0.1/x")

    assert engine.url.drivername == "postgresql+psycopg"
