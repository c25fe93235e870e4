"""A hint names its queue: that one is looked at at once, and no other is forgotten over it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from engine.intake.wake import dispatcher_channel
from engine.worker.assembly import make_dispatcher
from outbox.events import EventType, NewEvent
from tests.support.wait import eventually
from tests.support.world import QUEUE, World
from tests.support.worlds import *  # noqa: F403 - the fixtures of this file

OTHER_QUEUE = "ai-interactive"
MakeWorld = Callable[..., World]


@contextmanager
def dispatching(world: World) -> Any:
    process = make_dispatcher(world.app, upkeep=False)
    process.start()
    eventually(lambda: world.app.transport.dispatchers(), message="it is there")
    yield
    process.stop()
    assert process.join()


def published(world: World) -> set[Any]:
    return {row["id"] for row in world.rows("outbox_event", status="published")}


def test_jobs_of_every_queue_leave_on_their_hints_alone(make_world: MakeWorld) -> None:
    """Nothing is found by polling here: the next poll is minutes away."""
    world = make_world("memory://", dispatcher={"poll_ms": 300_000})
    with dispatching(world):
        for number in range(1, 4):
            world.create()
            world.create(job_type="active_recall", payload={"question": "?", "reference": "a", "answer": "b"})
            eventually(lambda: len(published(world)) == 2 * number, message="both queues were looked at")  # noqa: B023


def test_hints_about_one_queue_keep_nobody_from_the_others(make_world: MakeWorld) -> None:
    """What came without a hint is found by polling, however busy another queue is."""
    world = make_world("memory://", dispatcher={"poll_ms": 50})
    silent = NewEvent(EventType.ENQUEUE, uuid4(), "synthetic", OTHER_QUEUE, 50, 1)
    with dispatching(world):
        world.run(lambda conn: world.app.outbox.append(conn, [silent]))

        def busy() -> bool:
            world.app.transport.wake(dispatcher_channel(QUEUE))
            return silent.id in published(world)

        eventually(busy, message="the silent event was found")


@pytest.mark.parametrize("redis", [False, True], ids=["memory", "redis"])
@pytest.mark.parametrize(("busy", "quiet"), [(QUEUE, OTHER_QUEUE), (OTHER_QUEUE, QUEUE)])
def test_a_hint_waits_for_no_lull_in_those_about_another_queue(
    make_world: MakeWorld,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    redis: bool,
    busy: str,
    quiet: str,
) -> None:
    """Creators of one queue may hint faster than rounds are made; the next poll is minutes away."""
    url = request.getfixturevalue("redis_url") if redis else "memory://"
    world = make_world(url, dispatcher={"poll_ms": 300_000})
    transport = world.app.transport
    really = transport.wait_wake

    def wait_wake(*arguments: Any) -> str | None:
        transport.wake(dispatcher_channel(busy))
        return really(*arguments)

    with dispatching(world):
        monkeypatch.setattr(transport, "wait_wake", wait_wake)
        event = NewEvent(EventType.ENQUEUE, uuid4(), "synthetic", quiet, 50, 1)
        world.run(lambda conn: world.app.outbox.append(conn, [event]))
        transport.wake(dispatcher_channel(busy))
        transport.wake(dispatcher_channel(quiet))

        eventually(lambda: event.id in published(world), message="the other queue was looked at")
