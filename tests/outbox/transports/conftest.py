"""Transports on each carrier; each test has a key prefix, or a server, of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from outbox.transports.base import SteerableTransport
from outbox.transports.factory import open_transport
from outbox.transports.rq import RqTransport
from tests.support.servers import RedisServer, free_port

pytest.register_assert_rewrite("outbox.transports.conformance")

_numbers = itertools.count()


@pytest.fixture
def memory() -> Iterator[SteerableTransport]:
    transport = open_transport("memory://")
    yield transport
    transport.close()


@pytest.fixture
def fake() -> Iterator[RqTransport]:
    transport = RqTransport.fake(f"fakeredis://{os.getpid()}-{next(_numbers)}")
    yield transport
    transport.close()


@pytest.fixture
def rq_transport(redis_server: RedisServer) -> Iterator[RqTransport]:
    """On the session's Redis, which is emptied before the test."""
    transport = RqTransport(redis_server.url)
    yield transport
    transport.close()


@pytest.fixture
def bare_cluster() -> Iterator[RedisServer]:
    """A cluster of one node that owns no slot yet."""
    # the bus's default port is the server's + 10000, which may be beyond the last one
    options = {"cluster-enabled": "yes", "cluster-port": str(free_port())}
    with RedisServer(options=options) as server:
        yield server
