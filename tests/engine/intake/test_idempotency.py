"""One key, one job: raced, repeated, refused with other content, and compared byte for byte."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import IdempotencyConflictError
from engine.intake.commands import CreatedJob, JobOverrides
from engine.lifecycle.values import Failure
from registry.job import LifecycleStatus
from tests.support import racers
from tests.support.crowd import at_once
from tests.support.processes import Children
from tests.support.world import World, ids

NEW_ROWS = {
    "ai_job": 1, "ai_job_snapshot": 1, "outbox_event": 1,
    "ai_job_output": 0, "ai_job_claim": 0, "ai_job_artifact": 0,
}  # fmt: skip


def jobs_of(answers: list[Any]) -> list[CreatedJob]:
    """The answers, of which none may be an error."""
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    assert errors == []
    return answers


def test_twenty_threads_with_one_key_get_one_job(world: World) -> None:
    """CI-1. Nobody sees an error, one row of each kind exists, and exactly one caller made it."""
    made = jobs_of(at_once([lambda: world.created(key="k")] * 20))

    assert len({one.job.id for one in made}) == 1
    assert sum(one.created for one in made) == 1
    assert world.counts() == NEW_ROWS


def test_four_processes_with_the_same_keys_get_the_same_jobs(tables_url: str, children: Children) -> None:
    """CI-1. Two threads in each of four processes, key by key."""
    keys = [f"key-{n}" for n in range(12)]

    answers = json.loads(children.call(racers.create_keys, tables_url, keys, 4, 2).check(timeout=90))

    assert [answer["errors"] for answer in answers] == [[]] * 4
    for key in keys:
        found = [one.split() for answer in answers for one in answer["found"][key]]
        assert len(found) == 8
        assert len({job for job, _ in found}) == 1, key
        assert [how for _, how in found].count("made") == 1
    with World(tables_url) as world:
        assert world.counts()["ai_job"] == world.counts()["outbox_event"] == len(keys)


def test_batches_with_the_same_keys_in_other_orders_do_not_lock_each_other_out(world: World) -> None:
    """CI-1. Every batch gets the same jobs, whatever order it names them in."""
    requests = [world.request(key=f"k{n}") for n in range(8)]
    orders = [requests, requests[::-1], requests[4:] + requests[:4]] * 3

    made = at_once([lambda o=order: world.app.jobs.create_jobs(o) for order in orders])  # type: ignore[misc]

    found = [
        {one.job.idempotency_key: one.job.id for one in batch} for batch in jobs_of(made)
    ]
    assert all(one == found[0] for one in found)
    assert len(set(found[0].values())) == 8
    assert world.counts()["outbox_event"] == 8


def test_created_job_is_told_with_its_id_and_a_repeat_as_nothing_new(shared_world: World) -> None:
    heard: list[dict[str, Any]] = []
    shared_world.app.telemetry.listen(
        lambda name, ids: heard.append(dict(ids)) if name == "job.created" else None
    )

    made = [shared_world.created(key="told") for _ in range(2)]

    job = made[0].job
    assert heard == [{"count": 1, "job_id": str(job.id), "job_type": job.job_type}, {"count": 0}]


def test_without_a_key_every_request_makes_a_job(shared_world: World) -> None:
    request = shared_world.request()

    first, second = (shared_world.app.jobs.create_job(request) for _ in range(2))

    assert first.created
    assert second.created
    assert first.job.id != second.job.id


OTHER: dict[str, dict[str, Any]] = {
    "target_id": {"target_id": "other"},
    "target_type": {"target_type": "other"},
    "payload": {"payload": {"value": "other"}},
    "a nested payload": {"payload": {"value": {"deep": [1, {"er": 2}]}}},
    "priority": {"overrides": JobOverrides(priority=1)},
    "output version": {"overrides": JobOverrides(output_schema_version="2")},
    "prompt version": {"overrides": JobOverrides(prompt_version="2")},
}


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER.keys())
def test_a_key_with_another_request_is_refused(shared_world: World, other: dict[str, Any]) -> None:
    """CI-5. A conflict names the field and the first job, makes nothing, and the first request still works."""
    key = f"conflict {sorted(other)} {other}"[:100]
    first = shared_world.create(key=key)
    before = shared_world.counts()

    with pytest.raises(IdempotencyConflictError) as conflict:
        shared_world.create(key=key, **other)

    assert conflict.value.details["job_id"] == first.id
    assert conflict.value.details["field"] == "idempotency_key"
    assert shared_world.counts() == before
    again = shared_world.created(key=key)
    assert (again.job.id, again.created) == (first.id, False)


def test_equal_requests_are_equal_however_they_are_written(shared_world: World) -> None:
    """CI-5, PC-3. The order of members and a later start do not make another request."""
    first = shared_world.create(key="same", payload={"value": {"a": 1, "b": {"c": 2, "d": 3}}})

    again = shared_world.created(
        key="same",
        payload={"value": {"b": {"d": 3, "c": 2}, "a": 1}},
        available_at=first.created_at.replace(year=2040),
    )

    assert (again.job.id, again.created) == (first.id, False)


ALIKE = [
    "order-a", "Order-A", "ORDER-A", "order-a ", " order-a", "order\u00a0a", "order-\u00e5",
    "resume", "résumé", unicodedata.normalize("NFD", "résumé"), "ｏｒｄｅｒ-ａ", "straße", "strasse", "order-a.",
    "1", "01", "1.0", "ı", "i", "I", "İ", "k\u200bk", "kk",
]  # fmt: skip


def test_keys_are_compared_byte_for_byte(shared_world: World) -> None:
    """CI-3. Case, accents, width, blanks, compositions: another key is another job, everywhere."""
    made = [shared_world.create(key=key) for key in ALIKE]

    assert len({job.id for job in made}) == len(ALIKE)
    assert [shared_world.create(key=key).id for key in ALIKE] == ids(made)
    assert [shared_world.job(job.id).idempotency_key for job in made] == ALIKE


def test_a_key_belongs_to_its_user_and_type(make_typed: Callable[..., World], database_kind: str) -> None:
    """Promise 6, X42. Scopes are structured: no text of one part can pretend to be another's."""
    world = make_typed()
    wanted: list[dict[str, Any]] = [
        {"user_id": "a", "key": "b:c"}, {"user_id": "a:b", "key": "c"}, {"user_id": "ab", "key": "c"},
        {"user_id": "a", "key": "bc"}, {"user_id": "A", "key": "bc"},
        {"user_id": "a", "key": "bc", "job_type": "anything"},
    ]  # fmt: skip

    made = [world.create(**one) for one in wanted]

    assert len({job.id for job in made}) == len(wanted)


@pytest.mark.parametrize("ending", ["queued", "running", "succeeded", "failed", "cancelled"])
def test_a_key_finds_its_job_in_every_state(shared_world: World, ending: str) -> None:
    """CI-6. The same job with its present state, no work started; Redis is not asked."""
    world = shared_world
    job = world.create(key=f"state {ending}")
    acts: dict[str, Callable[[], object]] = {
        "queued": lambda: None,
        "running": lambda: world.claim(job.id),
        "succeeded": lambda: _end(world, job.id, "succeeded"),
        "failed": lambda: _end(world, job.id, "failed"),
        "cancelled": lambda: world.app.jobs.request_cancel(job.id),
    }
    acts[ending]()
    before = world.counts()

    again = world.created(key=f"state {ending}")

    assert (again.job.id, again.created, again.job.lifecycle_status) == (job.id, False, ending)
    assert world.counts() == before


def _end(world: World, job_id: Any, how: str) -> None:
    lease = world.claim(job_id)
    it = world.app.lifecycle
    if how == "succeeded":
        assert world.run(lambda conn: it.mark_succeeded(conn, [lease]))
    else:
        assert world.run(lambda conn: it.mark_failed(conn, lease, Failure("PROVIDER_ERROR")))


class TestRenewing:
    """`on_failed="new"`: a failed job gives its key up."""

    @pytest.fixture
    def typed(self, make_typed: Callable[..., World]) -> World:
        return make_typed()

    def test_a_new_job_after_a_failure_takes_the_key_over(self, typed: World) -> None:
        """X48. The failed job stays, without its key; the new one has it."""
        failed = typed.create(job_type="renewing", key="k")
        _end(typed, failed.id, "failed")

        again = typed.created(job_type="renewing", key="k")

        assert again.created
        assert again.job.id != failed.id
        assert typed.job(failed.id).lifecycle_status is LifecycleStatus.FAILED
        assert typed.row(failed.id)["idempotency_digest"] is None
        assert typed.create(job_type="renewing", key="k").id == again.job.id

    @pytest.mark.parametrize("ending", ["succeeded", "queued"])
    def test_only_a_failure_gives_the_key_up(self, typed: World, ending: str) -> None:
        first = typed.create(job_type="renewing", key="k")
        if ending == "succeeded":
            _end(typed, first.id, ending)

        assert typed.create(job_type="renewing", key="k").id == first.id

    def test_many_callers_after_a_failure_get_one_new_job(self, typed: World) -> None:
        """CI-1, X48. Letting go of a key is raced like taking it."""
        failed = typed.create(job_type="renewing", key="k")
        _end(typed, failed.id, "failed")

        made = jobs_of(at_once([lambda: typed.created(job_type="renewing", key="k")] * 12))

        assert len({one.job.id for one in made}) == 1
        assert made[0].job.id != failed.id
        assert sum(one.created for one in made) == 1
        assert typed.counts()["outbox_event"] == 2

    def test_a_refused_request_leaves_the_key_where_it_is(self, typed: World) -> None:
        """CI-5. Other content is a conflict even where the same content would make a new job."""
        failed = typed.create(job_type="renewing", key="k")
        _end(typed, failed.id, "failed")

        with pytest.raises(IdempotencyConflictError):
            typed.create(job_type="renewing", key="k", payload={"value": "other"})

        assert typed.row(failed.id)["idempotency_digest"] is not None


class TestBatches:
    """Many requests in one call."""

    def test_a_repeated_key_in_one_batch_makes_one_job(self, world: World) -> None:
        requests = [world.request(key="a"), world.request(), world.request(key="b"), world.request(key="a")]

        made = world.app.jobs.create_jobs(requests)

        assert [one.created for one in made] == [True, True, True, False]
        assert made[0].job.id == made[3].job.id
        assert len({one.job.id for one in made}) == 3
        assert world.counts()["ai_job"] == world.counts()["outbox_event"] == 3

    def test_a_conflict_inside_one_batch_refuses_all_of_it(self, world: World) -> None:
        requests = [world.request(), world.request(key="a"), world.request(key="a", target_id="other")]

        with pytest.raises(IdempotencyConflictError):
            world.app.jobs.create_jobs(requests)

        assert world.counts()["ai_job"] == 0

    def test_a_conflict_with_an_older_job_refuses_all_of_the_batch(self, world: World) -> None:
        world.create(key="a")

        with pytest.raises(IdempotencyConflictError):
            world.app.jobs.create_jobs([world.request(), world.request(key="a", target_id="other")])

        assert world.counts()["ai_job"] == 1

    def test_answers_come_in_the_order_of_the_requests(self, world: World) -> None:
        old = world.create(key="k3")
        requests = [world.request(key=f"k{n}") if n % 2 else world.request() for n in range(7)]

        made = world.app.jobs.create_jobs(requests)

        assert [one.job.target_id for one in made] == [request.target_id for request in requests]
        assert [one.job.idempotency_key for one in made] == [r.idempotency_key for r in requests]
        assert made[3].job.id == old.id

    def test_many_jobs_are_made_in_one_go(self, world: World) -> None:
        made = world.app.jobs.create_jobs([world.request() for _ in range(600)])

        assert len({one.job.id for one in made}) == 600
        assert world.counts()["outbox_event"] == 600
