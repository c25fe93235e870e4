"""Every connection keeps the rules, wherever its engine came from, and what does not is found at start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.base.db import LOCK_WAIT_S, create_engine_for, is_prepared, prepare_engine
from outbox.base.errors import DatabaseUrlError
from outbox.base.verify import problems
from tests.outbox.base.notes import NOTES, add_one, write
from tests.support.servers import MariaDbServer

Opened = Callable[..., sa.Engine]


@pytest.fixture
def opened() -> Iterator[Callable[[sa.Engine], sa.Engine]]:
    """Engines whose connections are closed after the test."""
    engines: list[sa.Engine] = []

    def keep(engine: sa.Engine) -> sa.Engine:
        engines.append(engine)
        return engine

    yield keep
    for engine in engines:
        engine.dispose()


@pytest.fixture(params=["ours", "host", "host-null-pool"])
def any_engine(
    request: pytest.FixtureRequest, database_url: str, opened: Callable[[sa.Engine], sa.Engine]
) -> sa.Engine:
    """One of the ways to an engine: ours, or a host application's that `prepare_engine` has seen."""
    if request.param == "ours":
        return opened(create_engine_for(database_url))
    options: dict[str, Any] = {}
    if request.param == "host-null-pool":
        options["poolclass"] = sa.pool.NullPool
    return opened(prepare_engine(sa.create_engine(database_url, **options)))


def test_every_way_to_an_engine_keeps_every_rule(any_engine: sa.Engine) -> None:
    with any_engine.begin() as conn:
        NOTES.create(conn)
        write(conn, n=1)

    assert is_prepared(any_engine)
    assert problems(any_engine, probe="note.n") == []


def test_an_equal_write_counts_as_a_row(any_engine: sa.Engine) -> None:
    with any_engine.begin() as conn:
        NOTES.create(conn)
        note = write(conn, n=1)

        same = sa.update(NOTES).where(NOTES.c.id == note).values(n=1)
        assert [conn.execute(same).rowcount for _ in range(2)] == [1, 1]
        assert add_one(conn, note) == 1


def test_a_host_that_insists_on_another_level_is_overruled_or_found(
    server_engine: sa.Engine, opened: Any
) -> None:
    host = sa.create_engine(server_engine.url, isolation_level="REPEATABLE READ")

    found = problems(prepare_engine(opened(host)))

    # psycopg names the level in each BEGIN, which nothing can undo from outside
    insists = ["transaction_isolation is 'repeatable read', should be 'read committed'"]
    assert found == (insists if server_engine.dialect.name == "postgresql" else [])


def test_chinese_text_and_emoji_survive_the_connection(any_engine: sa.Engine) -> None:
    with any_engine.begin() as conn:
        assert conn.execute(sa.select(sa.literal("测验 🎓"))).scalar_one() == "测验 🎓"


def test_preparing_twice_changes_nothing(sqlite_url: str, opened: Any) -> None:
    engine = opened(sa.create_engine(sqlite_url))

    assert prepare_engine(prepare_engine(engine)) is engine

    begun: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda _c, _u, text, *_: begun.append(text))
    with engine.begin() as conn:
        conn.execute(sa.text("SELECT 1"))
    assert begun == ["BEGIN IMMEDIATE", "SELECT 1"]


def test_a_copy_of_a_prepared_engine_is_prepared(sqlite_url: str, opened: Any) -> None:
    engine = opened(create_engine_for(sqlite_url))

    assert is_prepared(engine.execution_options(tag="copy"))
    assert not is_prepared(opened(sa.create_engine(sqlite_url)))


def test_readers_of_sqlite_take_no_write_lock(sqlite_url: str, opened: Any) -> None:
    engine = opened(create_engine_for(sqlite_url))
    reader = engine.execution_options(aijobs_reading=True)
    with engine.begin() as conn:
        NOTES.create(conn)

    with reader.connect() as reading, engine.begin() as writing:
        reading.execute(sa.select(NOTES)).all()
        write(writing, n=1)

        assert reading.execute(sa.select(NOTES)).all() == []


# -- urls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("mysql://root@db/shop", "mysql+pymysql"),
        ("mariadb://root@db/shop", "mariadb+pymysql"),
        ("mariadb+pymysql://root@db/shop", "mariadb+pymysql"),
        ("postgresql://db/shop", "postgresql+psycopg"),
        ("postgresql+psycopg://db/shop", "postgresql+psycopg"),
        ("sqlite:///shop.db", "sqlite"),
    ],
)
def test_a_url_without_a_driver_gets_ours(url: str, driver: str, opened: Any) -> None:
    assert opened(create_engine_for(url)).url.drivername == driver


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("", "not a database URL"),
        ("shop.db", "not a database URL"),
        ("oracle://db/shop", "oracle is not supported"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("mysql+mysqldb://db/shop", "is not installed"),
    ],
)
def test_a_url_that_cannot_work_is_refused_with_the_way_out(url: str, part: str) -> None:
    with pytest.raises(DatabaseUrlError) as refused:
        create_engine_for(url)

    assert part in str(refused.value)


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in its place is how Python itself marks what cannot be imported.
    for name in {"pymysql", *(name for name in sys.modules if name.partition(".")[0] == "pymysql")}:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(DatabaseUrlError, match="pymysql is not installed"):
        create_engine_for("mysql://db/shop")


def test_a_refusal_does_not_repeat_a_password() -> None:
    with pytest.raises(DatabaseUrlError) as refused:
        create_engine_for("oracle://scott:tiger@db/shop")

    assert "tiger" not in str(refused.value)


def test_an_error_does_not_repeat_a_value(database_url: str, opened: Any) -> None:
    engine = opened(create_engine_for(database_url))

    with engine.connect() as conn, pytest.raises(sa.exc.DBAPIError) as failed:
        conn.execute(sa.text("SELECT nothing FROM nowhere WHERE x = :x"), {"x": "secret"})

    assert "secret" not in str(failed.value)


# -- what is found at start ---------------------------------------------------------------------------


def test_an_unprepared_engine_is_found(database_url: str, opened: Any) -> None:
    found = problems(opened(sa.create_engine(database_url)))

    assert "the engine was not made ready with prepare_engine" in found


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "transaction_isolation is 'REPEATABLE-READ', should be 'READ-COMMITTED'",
        ),
        ("SET time_zone = '+08:00'", "time_zone is '+08:00', should be '+00:00'"),
        (
            "SET sql_mode = ''",
            "sql_mode has no STRICT_TRANS_TABLES, so too long values would be cut",
        ),
        ("SET NAMES latin1", "character_set_connection is 'latin1', should be 'utf8mb4'"),
        (
            "SET innodb_lock_wait_timeout = 50",
            f"innodb_lock_wait_timeout is '50', should be '{LOCK_WAIT_S}'",
        ),
    ],
)
def test_a_mariadb_connection_that_was_changed_is_found(
    mariadb_url: str, opened: Any, statement: str, sentence: str
) -> None:
    engine = opened(create_engine_for(mariadb_url))
    undo_rules_with(engine, statement)

    assert sentence in problems(engine)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "transaction_isolation is 'serializable', should be 'read committed'",
        ),
        ("SET TIME ZONE 'Asia/Shanghai'", "TimeZone is 'Asia/Shanghai', should be 'UTC'"),
        ("SET lock_timeout = 0", f"lock_timeout is '0', should be '{LOCK_WAIT_S}s'"),
        (
            "SET default_transaction_read_only = on",
            "transaction_read_only is 'on', should be 'off'",
        ),
    ],
)
def test_a_postgresql_connection_that_was_changed_is_found(
    postgresql_url: str, opened: Any, statement: str, sentence: str
) -> None:
    engine = opened(create_engine_for(postgresql_url))
    undo_rules_with(engine, statement)

    assert sentence in problems(engine)


def undo_rules_with(engine: sa.Engine, statement: str) -> None:
    """As a proxy or a pooler might, after the connection was made ready."""

    def undo(dbapi_connection: Any, _record: Any) -> None:
        cursor = dbapi_connection.cursor()
        cursor.execute(statement)
        cursor.close()
        dbapi_connection.commit()

    sa.event.listen(engine, "connect", undo)


def test_row_counts_of_changed_rows_are_found(mariadb_url: str, opened: Any) -> None:
    # what plain PyMySQL does: SQLAlchemy's flag is taken away again
    engine = opened(create_engine_for(mariadb_url))

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: Any, args: Any, kwargs: Any) -> Any:
        return dialect.connect(*args, **(kwargs | {"client_flag": 0}))

    with engine.begin() as conn:
        NOTES.create(conn)
        write(conn, n=1)
    (found,) = problems(engine, probe="note.n")

    assert found.startswith("row counts leave out rows that keep their value (0 of 1)")


def test_an_unusual_sql_mode_of_the_server_is_overruled(opened: Any) -> None:
    with MariaDbServer(options={"sql-mode": ""}) as server:
        server_name = server.url("mysql")

        assert problems(opened(create_engine_for(server_name))) == []
