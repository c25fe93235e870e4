"""Redis over TLS: what a server says at first belongs to no command, and a stop loses nothing there either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from outbox.transports.base import SteerableTransport
from outbox.transports.conformance.wait import WaitPromises
from outbox.transports.conformance.words import PATIENCE_MS, QUEUE, Conversation, make_ticket
from outbox.transports.rq import RqTransport
from tests.support.certificates import make_certificate
from tests.support.servers import RedisServer, free_port, start_or_skip

Connect = Callable[[], RqTransport]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server without a password, whose first answer is the one to a command of ours."""
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    for place in (folder, *folder.parents[:2]):
        place.chmod(0o755)
    certificate, key = make_certificate(Path(folder), "server")
    options = {
        "tls-port": str(port), "tls-cert-file": certificate, "tls-key-file": key,
        "tls-ca-cert-file": certificate, "tls-auth-clients": "no",
    }  # fmt: skip
    server = start_or_skip(RedisServer(options=options))
    yield f"rediss://{server.host}:{port}/0?ssl_cert_reqs=none&ssl_check_hostname=false"
    server.stop()


@pytest.fixture
def connect(url: str) -> Iterator[Connect]:
    """Opens a transport on tickets of this test alone."""
    opened: list[RqTransport] = []
    prefix = uuid4().hex

    def open_one() -> RqTransport:
        opened.append(RqTransport(url, prefix=prefix))
        return opened[-1]

    yield open_one
    for transport in opened:
        transport.close()


class TestOverTls(WaitPromises):
    @pytest.fixture
    def transport(self, connect: Connect) -> SteerableTransport:
        return connect()

    @pytest.fixture
    def peer(self, connect: Connect) -> SteerableTransport:
        return connect()


class TestFirstWords(Conversation):
    def test_every_new_connection_is_fit_for_its_first_command(self, connect: Connect) -> None:
        for _ in range(8):
            transport = connect()
            self.put(transport, make_ticket())
            assert transport.wait(QUEUE, PATIENCE_MS)
            [delivery] = self.await_claim(transport)
            assert self.finish(transport, delivery) == [True]
            assert self.await_claim(transport, wait_ms=30) == []
