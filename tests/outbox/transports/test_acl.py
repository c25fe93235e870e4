"""The production user: the whole suite passes with its rights, and nothing beyond them is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
import redis

from outbox.errors import TransportMisconfigured
from outbox.transports.base import PutResult
from outbox.transports.conformance import TransportConformance
from outbox.transports.conformance.words import QUEUE, make_ticket
from outbox.transports.rq import RqTransport
from outbox.transports.rq.acl import SCRIPT_COMMANDS, acl_line, acl_rules
from tests.support.servers import RedisServer

USER, PASSWORD, PREFIX = "aijobs", "quiet-river", "{shop}:aijobs"


def url_of(server: RedisServer) -> str:
    return server.url.replace("redis://", f"redis://{USER}:{PASSWORD}@")


@pytest.fixture
def restricted_url(redis_server: RedisServer) -> Iterator[str]:
    """The URL of the session's Redis for a user with our rights and a database other than 0."""
    with redis_server.client() as admin:
        admin.execute_command(
            "ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *acl_rules(PREFIX)
        )
        yield url_of(redis_server).removesuffix("0") + "3"
        admin.acl_deluser(USER)


class TestRestrictedUser(TransportConformance):
    @pytest.fixture
    def transport(self, restricted_url: str) -> Iterator[RqTransport]:
        transport = RqTransport(restricted_url, prefix=PREFIX, keep_settled_s=60)
        yield transport
        transport.close()

    @pytest.fixture
    def peer(self, restricted_url: str) -> Iterator[RqTransport]:
        transport = RqTransport(restricted_url, prefix=PREFIX)
        yield transport
        transport.close()


@pytest.mark.parametrize(
    "command",
    [
        ("GET", f"{PREFIX}:job:x"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("CONFIG", "GET", "*"),
        ("ACL", "LIST"),
        ("SHUTDOWN",),
        ("SCRIPT", "FLUSH"),
        ("EVAL", "return 1", "0"),
        ("PUBLISH", "rq:pubsub:x", "x"),
        ("SUBSCRIBE", "x"),
        ("CLIENT", "LIST"),
        ("LLEN", "rq:queue:other"),
        ("DEL", "business-data"),
        ("BLPOP", "business-data", "1"),
    ],
)
def test_everything_else_is_denied(restricted_url: str, command: tuple[str, ...]) -> None:
    with (
        redis.Redis.from_url(restricted_url) as client,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        client.execute_command(*command)


def test_scripts_cannot_reach_other_keys(restricted_url: str) -> None:
    with RqTransportFor(restricted_url, "other") as transport, pytest.raises(Exception) as caught:
        transport.put_many([make_ticket()])

    assert getattr(caught.value, "reason", None) == "auth"


class RqTransportFor:
    """A transport with another prefix than the user's, closed at the end."""

    def __init__(self, url: str, prefix: str) -> None:
        self._transport = RqTransport(url, prefix=prefix)

    def __enter__(self) -> RqTransport:
        return self._transport

    def __exit__(self, *exc: object) -> None:
        self._transport.close()


def test_scripts_may_call_what_they_call_and_no_more() -> None:
    folder = resources.files("outbox.transports.rq") / "scripts"
    files = [*folder.iterdir(), *(folder / "lib").iterdir()]
    texts = [file.read_text("utf-8") for file in files if file.name.endswith(".lua")]

    called = {name.lower() for text in texts for name in re.findall(r"p?call\('(\w+)'", text)}

    assert called == set(SCRIPT_COMMANDS)


def test_the_line_serves_as_an_aclfile(tmp_path: Path) -> None:
    file = tmp_path / "users.acl"
    file.write_text(f"user default off\n{acl_line(USER, PASSWORD, PREFIX)}\n")
    assert PASSWORD not in file.read_text()
    server = RedisServer(options={"aclfile": str(file)})
    with server:
        transport = RqTransport(url_of(server), prefix=PREFIX)

        assert transport.check() == []
        assert transport.put_many([make_ticket()]) == [PutResult.NEW]
        assert transport.depth([QUEUE]) == {QUEUE: 1}
        transport.close()


def test_a_user_without_info_is_told_that_nothing_could_be_checked(
    redis_server: RedisServer,
) -> None:
    with redis_server.client() as admin:
        rules = [rule for rule in acl_rules(PREFIX) if rule != "+info"]
        admin.execute_command("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *rules)
        transport = RqTransport(url_of(redis_server), prefix=PREFIX)

        [problem] = transport.check()

        assert "INFO" in problem
        transport.close()
        admin.acl_deluser(USER)


@pytest.mark.parametrize("prefix", ["", "a b", "rq*", "rq?", "[rq]", "rq\\", "r\nq", "é", "x" * 65])
def test_a_prefix_that_would_widen_the_pattern_is_refused(prefix: str) -> None:
    with pytest.raises(TransportMisconfigured):
        acl_rules(prefix)
