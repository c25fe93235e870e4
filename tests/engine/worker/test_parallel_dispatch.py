"""Several rounds of one dispatcher process at a time: every event once, and a stop that leaves none in hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from engine.worker.assembly import make_dispatcher
from outbox.base.telemetry import Telemetry
from tests.support.wait import eventually
from tests.support.world import World
from tests.support.worlds import *  # noqa: F403 - the fixtures of this file

JOBS, BATCH = 120, 5


@pytest.fixture(params=[1, 2, 4])
def backlog(request: pytest.FixtureRequest, make_world: Callable[..., World]) -> World:
    world = make_world("memory://", dispatcher={"batch": BATCH, "parallel": request.param})
    for _ in range(JOBS):
        world.create()
    return world


def published(telemetry: Telemetry) -> int:
    return telemetry.count("outbox.published")


def test_every_event_of_a_backlog_is_published_once(backlog: World) -> None:
    process = make_dispatcher(backlog.app, upkeep=False)

    process.start()
    eventually(lambda: published(backlog.app.telemetry) >= JOBS, message="all are published")
    process.stop()

    assert process.join()
    assert published(backlog.app.telemetry) == JOBS
    assert backlog.count("outbox.claim_lost") == 0
    assert backlog.depth() == JOBS
    assert Counter(row["status"] for row in backlog.rows("outbox_event")) == {"published": JOBS}


def test_a_stop_finishes_the_batches_in_hand(backlog: World) -> None:
    process = make_dispatcher(backlog.app, upkeep=False)

    process.start()
    eventually(lambda: published(backlog.app.telemetry) > 0, message="it has begun")
    process.stop()

    assert process.join()
    states = Counter(row["status"] for row in backlog.rows("outbox_event"))
    assert states["processing"] == 0
    assert states["published"] == backlog.depth() == published(backlog.app.telemetry)
