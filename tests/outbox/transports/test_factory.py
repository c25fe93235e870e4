"""One URL, one transport."""

from __future__ import annotations

import pytest

from outbox.errors import TransportMisconfigured
from outbox.transports.base import Features, PutResult
from outbox.transports.conformance.words import QUEUE, make_ticket
from outbox.transports.factory import open_transport
from outbox.transports.rq import RqTransport
from tests.support.servers import RedisServer


def test_memory_is_this_object_alone() -> None:
    one, other = open_transport("memory://"), open_transport("memory://")
    one.put_many([make_ticket()])

    assert one.depth([QUEUE]) == {QUEUE: 1}
    assert other.depth([QUEUE]) == {QUEUE: 0}
    assert one.features == Features(cross_process=False, blocking_wait=True, visible_to_rq=False)


def test_one_fakeredis_url_is_one_server() -> None:
    here, same, other = (open_transport(f"fakeredis://factory-{n}") for n in ("a", "a", "b"))
    here.put_many([make_ticket()])

    assert same.depth([QUEUE]) == {QUEUE: 1}
    assert other.depth([QUEUE]) == {QUEUE: 0}
    assert here.features == Features(cross_process=False, blocking_wait=False, visible_to_rq=True)


@pytest.mark.parametrize("kind", ["url", "socket_url"])
def test_redis_urls_lead_to_the_server(redis_server: RedisServer, kind: str) -> None:
    transport = open_transport(getattr(redis_server, kind), prefix="factory", keep_settled_s=5)

    assert transport.put_many([make_ticket()]) == [PutResult.NEW]
    assert transport.features == Features(
        cross_process=True, blocking_wait=True, visible_to_rq=True
    )
    transport.close()


def test_a_fakeredis_client_is_recognised() -> None:
    import fakeredis

    transport = RqTransport(fakeredis.FakeRedis())

    assert transport.features.blocking_wait is False
    assert transport.wait(QUEUE, 30) is False


@pytest.mark.parametrize(
    "url", ["", "redis", "memory", "amqp://host", "http://host", "redis://host:port/0", "://"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(TransportMisconfigured):
        open_transport(url)


@pytest.mark.parametrize("options", [{"prefix": "a b"}, {"entry": "not a path"}, {"prefix": ""}])
def test_wrong_settings_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(TransportMisconfigured):
        open_transport("redis://127.0.0.1:1", **options)
