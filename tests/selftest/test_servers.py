"""Private servers come up, survive what tests do to them, and go away."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pymysql
import pytest
import redis
import sqlalchemy as sa

from tests.support.databases import Databases
from tests.support.processes import Children
from tests.support.server import is_alive
from tests.support.servers import (
    MariaDbServer,
    PostgresServer,
    RedisServer,
    Server,
    ServerFailed,
    ServerMissing,
    start_or_skip,
)
from tests.support.wait import eventually

SQL_SERVERS = [MariaDbServer, PostgresServer]


@pytest.mark.parametrize("kind", SQL_SERVERS)
def test_sql_server_keeps_its_port_and_its_commits_over_a_kill(
    kind: type[MariaDbServer] | type[PostgresServer],
) -> None:
    with kind() as server:
        engine = sa.create_engine(server.url("mysql" if kind is MariaDbServer else "postgres"))
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE kept (n INTEGER PRIMARY KEY)"))
            connection.execute(sa.text("INSERT INTO kept VALUES (7)"))
        engine.dispose()
        old = server.pid

        server.kill()
        assert not is_alive(old)
        server.start()

        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT n FROM kept")) == 7
        engine.dispose()


def test_killed_redis_comes_back_empty_on_the_same_port(own_redis: RedisServer) -> None:
    with own_redis.client() as client:
        client.set("a", 1)

        own_redis.kill()
        own_redis.start()

        assert client.get("a") is None


def test_redis_takes_options() -> None:
    options = {"maxmemory-policy": "allkeys-lru", "requirepass": "x"}
    with RedisServer(options=options) as server, server.client(password="x") as client:
        policy = client.config_get("maxmemory-policy")

    assert policy == {"maxmemory-policy": "allkeys-lru"}


def test_paused_server_answers_nothing_until_resumed(own_redis: RedisServer) -> None:
    own_redis.pause()

    with own_redis.client(socket_timeout=0.2, retry=None) as client:
        with pytest.raises(redis.TimeoutError):
            client.ping()
        own_redis.resume()
        assert client.ping()


def test_paused_server_can_be_stopped(own_redis: RedisServer) -> None:
    own_redis.pause()

    own_redis.stop()

    assert not own_redis.running


def test_closed_server_leaves_neither_process_nor_folder() -> None:
    server = PostgresServer().start()
    pid, folder = server.pid, server.folder

    server.close()

    assert folder is not None
    assert not folder.exists()
    assert not is_alive(pid)


def test_server_that_refuses_to_start_tells_its_log() -> None:
    with pytest.raises(ServerFailed, match="no_such_option"):
        RedisServer(options={"no_such_option": "1"}).start()


def test_missing_program_has_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "program", "aijobs-no-such-server")

    with pytest.raises(ServerMissing, match="scripts/setup"):
        Server().start()


def start_redis_and_wait() -> None:
    server = RedisServer().start()
    print("server", server.pid, server.folder)
    signal.pause()


def test_servers_of_a_killed_test_session_are_killed_and_deleted(children: Children) -> None:
    session = children.call(start_redis_and_wait)
    _, pid, folder = session.wait_for_output("server").split()

    session.kill()

    eventually(lambda: not is_alive(int(pid)) and not os.path.exists(folder))


def test_mariadb_has_no_utf8mb4_default(mariadb_server: MariaDbServer) -> None:
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@character_set_server")

        assert cursor.fetchone() == ("latin1",)


def test_shared_server_is_well_again_after_a_test_that_hurt_it(
    redis_server: RedisServer,
) -> None:
    redis_server.kill()
    # the next test asks for it and gets a running one
    assert not redis_server.running


def test_shared_server_was_healed(redis_client: redis.Redis) -> None:
    assert redis_client.ping()


# -- databases -----------------------------------------------------------------------------------


def make_table(url: str) -> None:
    engine = sa.create_engine(url)
    key = "INTEGER PRIMARY KEY" + (" AUTO_INCREMENT" if engine.dialect.name == "mariadb" else "")
    if engine.dialect.name == "postgresql":
        key = "SERIAL PRIMARY KEY"
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE parent (n {key}, word VARCHAR(9))"))
        connection.execute(
            sa.text(
                "CREATE TABLE child (n INTEGER NOT NULL, FOREIGN KEY (n) REFERENCES parent (n))"
            )
        )
    engine.dispose()


def fill(url: str) -> int:
    """Insert a parent with a child; return the parent's number."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO parent (word) VALUES ('x')"))
        number = int(connection.scalar(sa.text("SELECT max(n) FROM parent")) or 0)
        connection.execute(sa.text("INSERT INTO child (n) VALUES (:n)"), {"n": number})
    engine.dispose()
    return number


def test_database_is_empty_and_of_its_kind(database_kind: str, database_url: str) -> None:
    engine = sa.create_engine(database_url)

    assert engine.dialect.name == database_kind
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


def test_prepared_database_forgets_rows_and_numbers_but_keeps_tables(
    database_kind: str, databases: Callable[[str], Databases]
) -> None:
    pool = databases(database_kind)
    key = f"selftest-{database_kind}"

    numbers = []
    for _ in range(3):
        url = pool.prepared(key, make_table)
        numbers.append(fill(url))
        pool.give_back(key, url)

    assert numbers == [1, 1, 1]


def test_prepared_database_keeps_the_rows_it_was_prepared_with(
    database_kind: str, databases: Callable[[str], Databases]
) -> None:
    def prepare(url: str) -> None:
        make_table(url)
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE version (n INTEGER PRIMARY KEY)"))
            connection.execute(sa.text("INSERT INTO version VALUES (7)"))
        engine.dispose()

    pool = databases(database_kind)
    key = f"version-{database_kind}"
    for _ in range(2):
        url = pool.prepared(key, prepare)
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT n FROM version")) == 7
            assert connection.scalar(sa.text("SELECT count(*) FROM parent")) == 0
        engine.dispose()
        fill(url)
        pool.give_back(key, url)


@pytest.mark.parametrize("hurt", ["pause", "stop", "kill"])
def test_database_is_given_back_when_the_test_hurt_its_server(
    hurt: str, databases: Callable[[str], Databases], postgres_server: PostgresServer
) -> None:
    pool = databases("postgresql")
    url = pool.empty()

    getattr(postgres_server, hurt)()

    pool.drop(url)
    assert postgres_server.running


def test_session_left_in_a_transaction_does_not_block_the_next_test(
    databases: Callable[[str], Databases], database_kind: str
) -> None:
    pool = databases(database_kind)
    url = pool.empty()
    make_table(url)
    engine = sa.create_engine(url)
    left_behind = engine.connect()
    left_behind.execute(sa.text("INSERT INTO parent (word) VALUES ('x')"))

    pool.drop(url)

    left_behind.invalidate()
    left_behind.close()
    engine.dispose()


def test_pymysql_sees_the_killed_session(
    mariadb_server: MariaDbServer, databases: Callable[[str], Databases]
) -> None:
    pool = databases("mariadb")
    url = pool.empty()
    connection = mariadb_server.connect(pool.name(url))

    pool.drop(url)

    with pytest.raises(pymysql.Error):
        connection.ping(reconnect=False)


# -- skip or fail --------------------------------------------------------------------------------


class MissingServer(RedisServer):
    program = "aijobs-no-such-server"
    patterns = ()


def test_missing_server_is_a_failure_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(ServerMissing):
        start_or_skip(MissingServer())


def test_missing_server_is_a_skip_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)

    with pytest.raises(pytest.skip.Exception, match="not installed"):
        start_or_skip(MissingServer())
