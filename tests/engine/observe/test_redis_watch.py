"""A Redis that is away is told once, by an address without secrets, and once more when it is back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from engine.observe.redis_watch import RedisWatch, address_of
from outbox.errors import TransportUnavailable
from tests.support.wait import eventually


class Outage:
    """A Redis that is away until it is told otherwise."""

    def __init__(self) -> None:
        self.over = False
        self.asked = 0
        self.others: list[str] = []
        self.watch = RedisWatch(self.ask, "redis://here", others=self.hear, pause_s=0.01)

    def ask(self) -> None:
        self.asked += 1
        if not self.over:
            raise TransportUnavailable(reason="connection")

    def hear(self, name: str, _ids: Mapping[str, Any]) -> None:
        self.others.append(name)


@pytest.fixture
def outage(caplog: pytest.LogCaptureFixture) -> Iterator[Outage]:
    caplog.set_level(logging.WARNING, "aijobs.redis")
    outage = Outage()
    yield outage
    # Its last word belongs to this test and not to the log of the next one.
    outage.over = True
    eventually(lambda: not [each for each in threading.enumerate() if each.name == "aijobs-redis-watch"])


FACTS = [
    ("outbox.transport_unavailable", {"reason": "connection"}),
    ("fetch.failed", {"code": "TRANSPORT_UNAVAILABLE"}),
    ("heartbeat.transport_unavailable", {}),
]


def test_an_outage_is_told_once_and_its_end_once(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        for name, ids in FACTS:
            outage.watch.note(name, ids)
    eventually(lambda: outage.asked > 2)
    outage.over = True

    eventually(lambda: len(caplog.messages) == 2)

    away, back = caplog.messages
    assert away.startswith("Redis at redis://here does not answer; nothing is lost")
    assert back.startswith("Redis at redis://here answers again")
    assert outage.others == []


def test_a_second_outage_is_told_again(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    outage.over = True
    for number in (1, 2):
        outage.watch.away("connection")
        eventually(lambda number=number: len(caplog.messages) == 2 * number)  # type: ignore[misc]


def test_a_refused_password_is_told_as_that(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    outage.over = True

    outage.watch.note("outbox.transport_unavailable", {"reason": "auth"})

    assert "AIJOBS_REDIS_URL" in caplog.messages[0]


def test_other_facts_are_passed_on(outage: Outage) -> None:
    outage.watch.note("job.succeeded", {})
    outage.watch.note("fetch.failed", {"code": "DATABASE_UNAVAILABLE"})

    assert outage.others == ["job.succeeded", "fetch.failed"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me:hunter2@redis:6379/0", "redis://redis:6379/0"),
        ("redis://:hunter2@redis/0?password=hunter2", "redis://redis/0"),
        ("unix:///run/redis.sock?password=hunter2", "unix:///run/redis.sock"),
        ("rediss://redis", "rediss://redis"),
    ],
)
def test_the_address_holds_no_secret(url: str, shown: str) -> None:
    assert address_of(url) == shown


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("outbox.transport_unavailable", {"reason": "oom"}),
        ("fetch.failed", {"code": "TRANSPORT_UNAVAILABLE", "reason": "oom"}),
        ("heartbeat.transport_unavailable", {"code": "TRANSPORT_UNAVAILABLE", "reason": "oom"}),
        ("upkeep.transport_unavailable", {"code": "TRANSPORT_UNAVAILABLE", "reason": "oom"}),
    ],
)
def test_every_process_says_the_same_of_the_same_trouble(
    outage: Outage, caplog: pytest.LogCaptureFixture, name: str, ids: dict[str, str]
) -> None:
    outage.watch.note(name, ids)
    outage.over = True

    assert caplog.messages[0].startswith("Redis at redis://here is full; nothing is lost")
