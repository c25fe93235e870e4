"""Known failure TR-5: what the broker's own books say of a job decides nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.support.databases import Databases
from tests.support.migrated import MIGRATED, migrate
from tests.support.world import QUEUE, World

_names = itertools.count(1)


def _says(status: str, registry: str) -> Callable[[redis.Redis, str], None]:
    def write(client: redis.Redis, ticket: str) -> None:
        client.lrem(f"rq:queue:{QUEUE}", 0, ticket)
        client.hset(f"rq:job:{ticket}", "status", status)
        client.zadd(f"rq:{registry}:{QUEUE}", {ticket: 2e10})

    return write


def _forgets(client: redis.Redis, ticket: str) -> None:
    client.lrem(f"rq:queue:{QUEUE}", 0, ticket)
    client.delete(f"rq:job:{ticket}")


WORDS: dict[str, Callable[[redis.Redis, str], None]] = {
    "failed": _says("failed", "failed"),
    "finished": _says("finished", "finished"),
    "canceled": _says("canceled", "canceled"),
    "started by nobody": _says("started", "wip"),
    "unknown": _forgets,
}


@pytest.mark.parametrize("words", WORDS)
def test_whatever_the_broker_says_of_a_job_its_row_is_believed_and_it_runs_once(
    databases: Callable[[str], Databases], words: str
) -> None:
    pool = databases("sqlite")
    url = pool.prepared(MIGRATED, migrate)
    with World(url, f"fakeredis://words-{next(_names)}") as world:
        job = world.create()
        world.dispatch()
        client: Any = world.transport._broker._commands  # type: ignore[attr-defined]
        [key] = client.keys("rq:job:*")
        WORDS[words](client, key.decode().rpartition(":")[2])

        assert world.job(job.id).lifecycle_status == "queued"
        world.settle()

        assert world.job(job.id).lifecycle_status == "succeeded"
        assert len(world.claims(job.id)) == 1
    pool.give_back(MIGRATED, url)
