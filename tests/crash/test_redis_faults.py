"""Redis is killed, full, read-only, slow, or loses its answers: every job ends, none twice, no event is dead."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from registry.job import JobView
from tests.crash.samples import ASKED, QUICK, assert_done_once, daemons, is_settled, teach
from tests.support.proxy import TcpProxy
from tests.support.servers import RedisServer
from tests.support.wait import eventually
from tests.support.world import World

Hurt = Callable[[RedisServer], None]


def asked(world: World, count: int) -> list[JobView]:
    return [world.create(job_type=ASKED, payload={}) for _ in range(count)]


def assert_all_done_once(world: World, jobs: list[JobView]) -> None:
    for job in jobs:
        assert_done_once(world, job)
    assert not [event for event in world.rows("outbox_event") if event["status"] == "dead"]


# -- outages, with the daemons running ---------------------------------------------------


def kill(redis: RedisServer) -> None:
    redis.kill()


def fill(redis: RedisServer) -> None:
    with redis.client() as client:
        client.config_set("maxmemory", "1")


def make_read_only(redis: RedisServer) -> None:
    with redis.client() as client:
        # of a master that is not there
        client.execute_command("REPLICAOF", "127.0.0.1", "1")


def heal(redis: RedisServer) -> None:
    """Restarted empty where it was killed; otherwise what was lost stays lost."""
    redis.start()
    with redis.client() as client:
        client.config_set("maxmemory", "0")
        client.execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("hurt", [kill, fill, make_read_only], ids=["killed", "out of memory", "read-only"])
def test_outage_of_redis_loses_nothing_and_needs_nobody(
    tables_url: str, own_redis: RedisServer, hurt: Hurt
) -> None:
    with teach(World(tables_url, own_redis.url, **QUICK)) as world:
        before = asked(world, 5)
        world.dispatch()
        hurt(own_redis)
        with daemons(world):
            during = asked(world, 5)
            eventually(lambda: world.count("outbox.transport_unavailable"), message="the outage is met")
            heal(own_redis)
            after = asked(world, 5)
            eventually(lambda: is_settled(world), timeout=60, message=lambda: f"{world.open_jobs()}")

        assert_all_done_once(world, before + during + after)


def test_redis_that_starts_last_is_waited_for(tables_url: str, own_redis: RedisServer) -> None:
    own_redis.kill()
    with teach(World(tables_url, own_redis.url, **QUICK)) as world, daemons(world):
        jobs = asked(world, 3)
        eventually(lambda: world.count("outbox.transport_unavailable"))
        eventually(lambda: world.count("fetch.failed"), message="the worker keeps trying")
        own_redis.start()
        eventually(lambda: is_settled(world), timeout=60)

        assert_all_done_once(world, jobs)


def test_slow_redis_delivers_late_and_once(
    tables_url: str, redis_server: RedisServer, tcp_proxy: Callable[[str, int], TcpProxy]
) -> None:
    wire = tcp_proxy(*redis_server.address)
    with teach(World(tables_url, wire.url(redis_server.url), **QUICK)) as world:
        wire.delay(0.1)
        with daemons(world):
            jobs = asked(world, 5)
            eventually(lambda: is_settled(world), timeout=60)
            wire.mend()

        assert_all_done_once(world, jobs)


# -- answers lost one by one -------------------------------------------------------------


def test_lost_answer_of_each_call_to_redis_is_harmless(
    sqlite_tables_url: str, redis_server: RedisServer, tcp_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """Put, claim, heartbeat, settle and recover each happen although nobody hears of it."""
    wire = tcp_proxy(*redis_server.address)
    lost = 0
    with teach(World(sqlite_tables_url, wire.url(redis_server.url))) as world:
        run_path(world)
        for number in itertools.count(1):
            calls = itertools.count(1)
            fault = wire.drop_answers_once(nth(number, calls))
            job = run_path(world)
            if not fault.happened.is_set():
                break
            world.settle()
            assert_done_once(world, job)
            lost += 1

    # depth and put of the dispatcher; claim and settlement of the worker
    assert lost >= 4


def nth(number: int, calls: Iterator[int]) -> Callable[[bytes], bool]:
    return lambda request: b"EVALSHA" in request and next(calls) == number


def run_path(world: World) -> JobView:
    [job] = asked(world, 1)
    world.dispatch()
    world.work()
    return job
