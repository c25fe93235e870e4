"""How many jobs a worker claims at once: few where they last, many where their slots are free again at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from engine import JobContext
from engine.worker.fetcher import FIRST_CLAIM
from outbox.transports.base import MAX_CLAIM, Delivery
from outbox.transports.memory import MemoryTransport
from tests.support.wait import eventually
from tests.support.world import QUEUE, World
from tests.support.worlds import *  # noqa: F403 - the fixtures of this file

SLOTS = 200


class Ask(BaseModel):
    """Nothing is asked."""


class Answer(BaseModel):
    """Nothing is answered."""


class Counting(MemoryTransport):
    """Notes how many tickets were handed out at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[int] = []

    def claim(self, queue: str, limit: int, worker: str, lease_ms: int, **waiting: Any) -> list[Delivery]:
        found = super().claim(queue, limit, worker, lease_ms, **waiting)
        if found:
            self.claims.append(len(found))
        return found


def queued(world: World, number: int) -> None:
    world.app.jobs.create_jobs([world.request(job_type="lasting", payload={}) for _ in range(number)])
    world.dispatch()


def test_calls_that_last_are_claimed_ever_fewer_at_a_time(make_world: Callable[..., World]) -> None:
    """Design 14. What is claimed together ends together, and its slots then all wait for one claim."""
    transport = Counting()
    world = make_world(transport)
    go_on = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    @world.app.job("lasting", input=Ask, output=Answer)
    async def lasting(ctx: JobContext[Ask]) -> Answer:
        loops.append(asyncio.get_running_loop())
        await go_on.wait()
        return Answer()

    queued(world, SLOTS)
    with world.working(QUEUE, concurrency=SLOTS):
        eventually(lambda: len(loops) == SLOTS, message="every slot is taken")
        first = transport.claims[:]
        queued(world, SLOTS)
        loops[0].call_soon_threadsafe(go_on.set)
        eventually(lambda: len(loops) == 2 * SLOTS, message="every slot is taken again")

    assert first == [16, 24, 32, 40, 48, 40]
    assert transport.claims[len(first)] <= 28


def test_jobs_that_are_over_at_once_are_soon_claimed_by_the_largest_batch(make_world: Callable[..., World]) -> None:
    transport = Counting()
    world = make_world(transport)

    @world.app.job("lasting", input=Ask, output=Answer)
    async def over(ctx: JobContext[Ask]) -> Answer:
        return Answer()

    queued(world, 1_000)
    world.work(QUEUE, concurrency=SLOTS)

    assert transport.claims[0] == FIRST_CLAIM
    assert max(transport.claims) == MAX_CLAIM
    assert sum(transport.claims) == 1_000
