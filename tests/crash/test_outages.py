"""The database server dies in the middle of a job and comes back: nothing is lost, nothing is asked twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from outbox.base import points
from outbox.base.errors import CommitOutcomeUnknown, DatabaseUnavailable
from outbox.base.points import Point
from tests.crash.samples import ASKED, QUICK, assert_done_once, daemons, is_settled, teach
from tests.support.servers import Server
from tests.support.wait import eventually
from tests.support.world import World


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    points.arm(None)


@pytest.mark.parametrize(
    "at",
    [
        Point.WORKER_BEFORE_EXECUTE,  # the intent of the call cannot be stored
        Point.WORKER_AFTER_CALL,  # the answer is there, its usage cannot be settled
        Point.WORKER_BEFORE_COMMIT,  # the final transaction is lost
    ],
)
def test_outage_of_the_database_costs_no_attempt_and_no_second_call(
    server: Server, server_url: str, at: Point
) -> None:
    with teach(World(server_url)) as world:
        job = world.create(job_type=ASKED, payload={})
        world.dispatch()
        hurt = threading.Event()

        def hook(passed: Point) -> None:
            if passed is at and not hurt.is_set():
                server.kill()
                hurt.set()

        def heal() -> None:
            hurt.wait()
            # not before the engine has met the outage
            eventually(lambda: world.count("settle.database_unavailable"), message="the outage is met")
            server.start()

        points.arm(hook)
        healer = threading.Thread(target=heal)
        healer.start()
        with world.working():
            eventually(lambda: world.count("job.succeeded"), timeout=60, message="the job succeeds")
        healer.join()

        assert_done_once(world, job)


def test_daemons_outlive_a_restart_of_the_database(server: Server, server_url: str) -> None:
    with teach(World(server_url, **QUICK)) as world, daemons(world):
        before = [world.create(job_type=ASKED, payload={}) for _ in range(5)]
        server.kill()
        # Unknown, where it is the first to find its connection dead: all that it sends goes with the COMMIT.
        with pytest.raises((DatabaseUnavailable, CommitOutcomeUnknown)):
            world.create(job_type=ASKED, payload={})
        server.start()

        after = [world.create(job_type=ASKED, payload={}) for _ in range(5)]
        eventually(lambda: is_settled(world), timeout=60)

        for job in before + after:
            assert_done_once(world, job)
        assert len(world.rows("ai_job")) == 10, "what could not be created was not created"
