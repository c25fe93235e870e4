"""The whole path on every database and every transport: create, dispatch, work, end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.world import World


@pytest.fixture(params=["memory", "fakeredis", "redis"])
def carried(request: pytest.FixtureRequest, make_world: Callable[..., World], tmp_path: object) -> World:
    urls = {
        "memory": lambda: "memory://",
        "fakeredis": lambda: f"fakeredis://path-{id(request)}",
        "redis": lambda: request.getfixturevalue("redis_url"),
    }
    return make_world(urls[request.param]())


def test_jobs_go_from_creation_to_their_result(carried: World) -> None:
    jobs = [carried.create(payload={"value": n}) for n in range(5)]
    carried.dispatch()
    assert carried.depth() == 5

    carried.work()

    assert [carried.job(job.id).lifecycle_status for job in jobs] == ["succeeded"] * 5
    assert [carried.output(job.id) for job in jobs] == [{"value": n} for n in range(5)]
    assert carried.depth() == 0
    for job in jobs:
        assert [e.status for e in carried.events(job.id)] == ["published", "published"]
        assert [(c.epoch, c.attempt_no, c.start_reason) for c in carried.claims(job.id)] == [(1, 1, "first")]
