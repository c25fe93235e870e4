"""Every transport keeps the promises of the protocol: the same suite on each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outbox.transports.base import SteerableTransport
from outbox.transports.conformance import TransportConformance
from outbox.transports.rq import RqTransport
from tests.support.servers import RedisServer


class TestMemory(TransportConformance):
    @pytest.fixture
    def transport(self, memory: SteerableTransport) -> SteerableTransport:
        return memory


class TestFakeRedis(TransportConformance):
    @pytest.fixture
    def transport(self, fake: RqTransport) -> SteerableTransport:
        return fake


class TestRedis(TransportConformance):
    @pytest.fixture
    def transport(self, rq_transport: RqTransport) -> SteerableTransport:
        return rq_transport

    @pytest.fixture
    def peer(self, redis_server: RedisServer) -> Iterator[RqTransport]:
        peer = RqTransport(redis_server.url)
        yield peer
        peer.close()


class TestRedisKeepingSettledTickets(TransportConformance):
    @pytest.fixture
    def transport(self, redis_server: RedisServer) -> Iterator[RqTransport]:
        transport = RqTransport(redis_server.socket_url, prefix="{tenant-7}", keep_settled_s=60)
        yield transport
        transport.close()
