"""The wire does what its words say, with real servers at its end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import psycopg
import pymysql
import pytest
import redis

from tests.support.proxy import TcpProxy
from tests.support.servers import MariaDbServer, PostgresServer, RedisServer

StartProxy = Callable[[str, int], TcpProxy]


@pytest.fixture
def wire(tcp_proxy: StartProxy, redis_server: RedisServer) -> TcpProxy:
    return tcp_proxy(*redis_server.address)


def connect(wire: TcpProxy, **arguments: float) -> redis.Redis:
    return redis.Redis(host=wire.host, port=wire.port, retry=None, **arguments)


def test_bytes_pass_in_both_directions(wire: TcpProxy, redis_url: str) -> None:
    with redis.Redis.from_url(wire.url(redis_url)) as client:
        client.set("a", b"x" * 1_000_000)

        assert client.get("a") == b"x" * 1_000_000
        assert wire.connections == 1


def test_cut_wire_breaks_connections_and_refuses_new_ones_until_mended(wire: TcpProxy) -> None:
    with connect(wire) as client:
        client.ping()

        wire.cut()

        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                client.ping()
        wire.mend()
        assert client.ping()


def test_dropped_connection_is_reset_and_a_new_one_is_welcome(wire: TcpProxy) -> None:
    def connection() -> socket.socket:
        peer = socket.create_connection((wire.host, wire.port), timeout=20)
        peer.sendall(b"PING\r\n")
        assert peer.recv(100) == b"+PONG\r\n"
        return peer

    with connection() as old:
        wire.drop_connections()

        with pytest.raises(ConnectionResetError):
            old.recv(100)
        connection().close()


def test_stalled_wire_answers_nothing_and_delivers_later(
    wire: TcpProxy, redis_client: redis.Redis
) -> None:
    with connect(wire, socket_timeout=0.2) as client:
        client.ping()
        wire.stall()

        with pytest.raises(redis.TimeoutError):
            client.set("a", 1)
        assert redis_client.get("a") is None

        wire.mend()
        assert client.set("b", 1)


def test_delayed_wire_is_slower_than_the_clients_patience(wire: TcpProxy) -> None:
    with connect(wire, socket_timeout=0.2) as client:
        client.ping()
        wire.delay(60)

        with pytest.raises(redis.TimeoutError):
            client.ping()

        wire.mend()
        assert client.ping()


def test_lost_answer_hides_a_write_that_was_made(wire: TcpProxy, redis_client: redis.Redis) -> None:
    with connect(wire) as client:
        client.ping()
        fault = wire.drop_answers_once(b"INCR")

        with pytest.raises(redis.ConnectionError):
            client.incr("n")

        fault.wait()
        assert redis_client.get("n") == b"1"
        assert client.incr("n") == 2


def test_lost_request_is_a_write_that_was_not_made(
    wire: TcpProxy, redis_client: redis.Redis
) -> None:
    with connect(wire) as client:
        client.ping()
        fault = wire.drop_requests_once(lambda data: data.count(b"INCR") == 1)

        with pytest.raises(redis.ConnectionError):
            client.incr("n")

        fault.wait()
        assert redis_client.get("n") is None


def test_answer_of_a_commit_can_be_lost_on_mariadb(
    tcp_proxy: StartProxy, mariadb_server: MariaDbServer, mariadb_url: str
) -> None:
    name = mariadb_url.rpartition("/")[2]
    wire = tcp_proxy(*mariadb_server.address)
    watcher = mariadb_server.connect(name)
    watcher.query("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    client = pymysql.connect(host=wire.host, port=wire.port, user="root", database=name)
    client.query("INSERT INTO t VALUES (1)")
    fault = wire.drop_answers_once(b"COMMIT")

    with pytest.raises(pymysql.OperationalError):
        client.commit()

    fault.wait()
    with watcher.cursor() as cursor:
        assert cursor.execute("SELECT n FROM t") == 1
    watcher.close()


def test_answer_of_a_commit_can_be_lost_on_postgresql(
    tcp_proxy: StartProxy, postgres_server: PostgresServer, postgresql_url: str
) -> None:
    name = postgresql_url.rpartition("/")[2]
    wire = tcp_proxy(*postgres_server.address)
    with postgres_server.connect(name) as watcher:
        watcher.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        client = psycopg.connect(host=wire.host, port=wire.port, user="postgres", dbname=name)
        client.execute("INSERT INTO t VALUES (1)")
        fault = wire.drop_answers_once(b"COMMIT")

        with pytest.raises(psycopg.OperationalError):
            client.commit()

        fault.wait()
        client.close()
        assert watcher.execute("SELECT n FROM t").fetchall() == [(1,)]
