"""Limits per user: off without a trace, exact under a race, and never charged for a job that was not made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine.errors import CreateError, QuotaExceededError, TooManyJobsError
from engine.lifecycle.values import Failure
from tests.support.crowd import at_once
from tests.support.faults import statements
from tests.support.world import World

MakeWorld = Callable[..., World]


def limited(make_world: MakeWorld, **limits: int) -> World:
    return make_world(admission=limits)


def made(answers: list[Any]) -> list[Any]:
    """The jobs; the rest must be refusals."""
    assert all(isinstance(a, CreateError) for a in answers if isinstance(a, BaseException)), answers
    return [a for a in answers if not isinstance(a, BaseException)]


def used(world: World) -> dict[str, int]:
    """What the counters of quotas say, by window kind."""
    return {row["window"][:1]: row["used"] for row in world.rows("admission_counter")}


def test_limits_that_are_off_cost_no_statement(world: World) -> None:
    with statements(world.engine) as seen:
        world.create()

    assert not [s for s in seen if "admission_counter" in s]
    assert world.rows("admission_counter") == []


def test_open_jobs_are_limited_per_user_and_free_again_when_they_end(make_world: MakeWorld) -> None:
    """X76. Another user is not concerned; an ended job counts no more."""
    world = limited(make_world, max_open_jobs=2)
    first = world.create()
    world.create()

    with pytest.raises(TooManyJobsError) as refusal:
        world.create()
    assert (refusal.value.code, refusal.value.details["limit"]) == ("TOO_MANY_JOBS", 2)
    assert world.counts()["ai_job"] == 2
    world.create(user_id="another")

    world.app.jobs.request_cancel(first.id)
    world.create()


@pytest.mark.parametrize(("limit", "window"), [("daily_quota", "day"), ("monthly_quota", "month")])
def test_quotas_count_what_was_made_and_begin_anew(make_world: MakeWorld, limit: str, window: str) -> None:
    """X76. Days and months are the database's, in UTC; ended jobs count."""
    world = limited(make_world, **{limit: 2})
    world.app.jobs.request_cancel(world.create().id)
    world.create()

    with pytest.raises(QuotaExceededError) as refusal:
        world.create()
    assert (refusal.value.code, refusal.value.details["window"]) == ("QUOTA_EXCEEDED", window)

    world.app.clock.advance(32 * 86_400_000)
    world.create()


def test_a_known_key_is_answered_beyond_every_limit(make_world: MakeWorld) -> None:
    """Design 7: limits are asked after the idempotent look-up."""
    world = limited(make_world, max_open_jobs=1, daily_quota=1)
    first = world.create(key="k")

    assert world.create(key="k").id == first.id
    assert used(world) == {"o": 0, "d": 1}


@pytest.mark.parametrize("limit", ["max_open_jobs", "daily_quota"])
def test_a_race_never_passes_a_limit(make_world: MakeWorld, limit: str) -> None:
    """X76. Twelve threads, five places: five jobs and seven refusals."""
    world = limited(make_world, **{limit: 5})

    answers = at_once([world.create] * 12)

    assert len(made(answers)) == 5
    assert world.counts()["ai_job"] == world.counts()["outbox_event"] == 5


def test_losers_of_a_race_for_one_key_are_neither_refused_nor_charged(make_world: MakeWorld) -> None:
    """CI-1. With one place left, twenty callers with one key all get the one job, which is charged once."""
    world = limited(make_world, max_open_jobs=1, daily_quota=1)

    answers = at_once([lambda: world.created(key="k")] * 12)

    assert len({a.job.id for a in made(answers)}) == 1
    assert len(made(answers)) == 12
    assert used(world) == {"o": 0, "d": 1}


def test_a_batch_is_admitted_whole_or_not_at_all(make_world: MakeWorld) -> None:
    world = limited(make_world, daily_quota=3)
    world.create()

    with pytest.raises(QuotaExceededError):
        world.app.jobs.create_jobs([world.request() for _ in range(3)])

    assert world.counts()["ai_job"] == 1
    assert used(world) == {"d": 1}
    world.app.jobs.create_jobs([world.request() for _ in range(2)])


def test_a_refusal_charges_nobody_even_when_the_caller_commits(make_world: MakeWorld) -> None:
    """Nothing was written means: in the caller's transaction neither."""
    world = limited(make_world, daily_quota=2, monthly_quota=1)
    world.create(user_id="b")
    requests = [world.request(user_id="a"), world.request(user_id="b")]

    with Session(world.engine) as session:
        with pytest.raises(QuotaExceededError):
            world.app.jobs.create_jobs(requests, session=session)
        session.commit()

    assert sum(row["used"] for row in world.rows("admission_counter", user_id="a")) == 0
    assert sum(row["used"] for row in world.rows("admission_counter", user_id="b")) == 2
    world.create(user_id="a")


def test_a_refused_renewal_keeps_the_failed_jobs_key(make_typed: Callable[..., World]) -> None:
    """X48. The key is given up together with the new job or not at all."""
    world = make_typed(admission={"daily_quota": 1})
    failed = world.create(job_type="renewing", key="k")
    lease = world.claim(failed.id)
    world.run(lambda conn: world.app.lifecycle.mark_failed(conn, lease, Failure("PROVIDER_ERROR")))

    with Session(world.engine) as session:
        with pytest.raises(QuotaExceededError):
            world.create(job_type="renewing", key="k", session=session)
        session.commit()

    assert world.row(failed.id)["idempotency_digest"] is not None


@pytest.mark.databases("mariadb")
def test_limits_hold_against_an_old_snapshot(
    make_world: MakeWorld, database_kind: str, tables_url: str
) -> None:
    """DB-2. A caller at REPEATABLE READ does not see the jobs made since; the limit does."""
    world = limited(make_world, max_open_jobs=1)
    engine = sa.create_engine(tables_url, isolation_level="REPEATABLE READ")
    with Session(engine) as session:
        session.execute(sa.select(world.table("ai_job").c.id)).all()
        world.create()
        with pytest.raises(TooManyJobsError):
            world.create(session=session)
    engine.dispose()
