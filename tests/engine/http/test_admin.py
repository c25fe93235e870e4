"""What operators may do over HTTP, and that every act is written down."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
import sqlalchemy as sa

from engine.lifecycle import views
from engine.lifecycle.audit import AuditEntry
from engine.lifecycle.values import Failure
from engine.worker.assembly import make_outbox_dispatcher
from outbox import queries
from outbox.models import OUTBOX_EVENT
from registry.job import JobView, LifecycleStatus
from tests.engine.http.conftest import World
from tests.engine.http.test_jobs import fail, start, succeed

ADMIN = "/admin-api/ai"


def operator(world: World, *scopes: str) -> httpx2.Client:
    return world.client("boss", *(scopes or ("admin",)))


def audit(world: World) -> list[AuditEntry]:
    return list(reversed(world.app.uow.read(lambda conn: world.edge.audit.page(conn))))


def written(world: World) -> list[tuple[str, str, str]]:
    return [(entry.verb, entry.object_id, entry.result) for entry in audit(world)]


def fail_plainly(world: World, job: JobView) -> None:
    fail(world, job, Failure("PROVIDER_ERROR", "It could not answer.", "stack of /srv/app"))


def event_of(world: World, job: JobView) -> UUID:
    return world.app.uow.read(lambda conn: queries.of_job(conn, job.id))[0].id


def kill_event(world: World, job: JobView) -> UUID:
    """Make the delivery of ``job`` dead, as a dispatcher does that was refused too often."""
    event_id = event_of(world, job)

    def unit(conn: sa.Connection) -> None:
        token, claimed = world.app.outbox.claim(
            conn, job.queue_name, ["ai.job.enqueue"], limit=10, owner="d"
        )
        assert world.app.outbox.refuse(conn, event_id, token, "E", max_attempts=1, delay_ms=0) == 1
        others = [event.id for event in claimed if event.id != event_id]
        world.app.outbox.give_back(conn, others, token, "E")

    world.app.uow.run(unit)
    return event_id


# -- who


EVERYTHING = [
    ("GET", "/jobs"),
    ("GET", f"/jobs/{uuid4()}"),
    ("POST", f"/jobs/{uuid4()}/retry"),
    ("POST", f"/jobs/{uuid4()}/cancel"),
    ("POST", "/bulk/cancel"),
    ("POST", "/bulk/retry"),
    ("GET", "/outbox"),
    ("GET", "/outbox/events"),
    ("POST", f"/outbox/events/{uuid4()}/redeliver"),
    ("POST", f"/outbox/events/{uuid4()}/discard"),
    ("GET", "/queues"),
    ("POST", "/queues/ai-background/pause"),
    ("POST", "/queues/ai-background/resume"),
    ("GET", "/workers"),
    ("GET", "/types"),
    ("GET", "/audit"),
]


def test_only_operators_get_in(world: World) -> None:
    with world.client(None) as nobody, world.client("u1", "user", "approver") as user:
        for method, path in EVERYTHING:
            assert nobody.request(method, ADMIN + path).status_code == 401, path
            assert user.request(method, ADMIN + path).status_code == 403, path
    assert written(world) == []


def test_error_text_for_engineers_is_for_super_admins_alone(world: World) -> None:
    job = world.create()
    fail_plainly(world, job)
    for scope, shown in (("admin", False), ("SUPER_ADMIN", True)):
        with operator(world, scope) as client:
            listed = client.get(f"{ADMIN}/jobs").json()["items"][0]
            detail = client.get(f"{ADMIN}/jobs/{job.id}").json()
        assert ("internalErrorMessage" in listed) is shown
        assert ("internalErrorMessage" in detail["job"]) is shown
        assert ("srv" in str(detail)) is shown


# -- jobs


def test_jobs_are_listed_by_filter_and_page(each_world: World) -> None:
    jobs = [each_world.create("u1", target_id=str(n)) for n in range(5)]
    other = each_world.create("u2", job_type="active_recall", payload={
        "question": "q", "reference": "r", "answer": "a"})  # fmt: skip
    fail_plainly(each_world, jobs[0])
    with operator(each_world) as client:

        def ids(**query: Any) -> list[str]:
            answer = client.get(f"{ADMIN}/jobs", params=query)
            assert answer.status_code == 200, answer.text
            return [item["jobId"] for item in answer.json()["items"]]

        newest_first = [str(job.id) for job in [other, *reversed(jobs)]]
        assert ids() == newest_first
        assert ids(status="failed") == [str(jobs[0].id)]
        assert set(ids(status=["failed", "queued"])) == set(newest_first)
        assert ids(userId="u2") == ids(jobType="active_recall") == [str(other.id)]
        assert ids(queueName="ai-interactive") == [str(other.id)]
        assert ids(targetType="t", targetId="3") == [str(jobs[3].id)]
        assert ids(errorCode="PROVIDER_ERROR") == [str(jobs[0].id)]
        assert ids(createdFrom="2000-01-01T00:00:00Z") == newest_first
        assert ids(createdUntil="2000-01-01T00:00:00+02:00") == []
        assert ids(createdFrom="0001-01-01T00:00:00+14:00") == newest_first
        assert ids(userId="nobody") == []

        pages, before = [], {}
        while True:
            body = client.get(f"{ADMIN}/jobs", params={"limit": 4} | before).json()
            pages.append([item["jobId"] for item in body["items"]])
            if "next" not in body:
                break
            before = {"before": body["next"]}
        assert pages == [newest_first[:4], newest_first[4:]]


@pytest.mark.parametrize(
    "query",
    ["status=lost", "limit=0", "limit=501", "before=x", "createdFrom=yesterday",
     "createdFrom=2020-01-01T00:00:00", "userId=a%00b"],
)  # fmt: skip
def test_filter_that_makes_no_sense_is_refused(world: World, query: str) -> None:
    with operator(world) as client:
        answer = client.get(f"{ADMIN}/jobs?{query}")

    assert (answer.status_code, answer.json()["code"]) == (422, "REQUEST_INVALID")
    assert answer.json()["errors"][0]["place"].startswith("query.")


def test_detail_says_what_happened_and_why_the_job_is_where_it_is(each_world: World) -> None:
    job = each_world.create()
    start(each_world, job)
    with operator(each_world) as client:
        body = client.get(f"{ADMIN}/jobs/{job.id}").json()

    assert body["job"]["jobId"] == str(job.id)
    assert body["job"]["userId"] == "u1"
    assert body["why"]["code"].startswith("LEASE_")
    assert [a["startReason"] for a in body["attempts"]] == ["first"]
    assert [d["eventType"] for d in body["deliveries"]] == ["ai.job.enqueue"]
    assert body["calls"] == []


def test_failed_job_is_made_anew_and_stays_as_it_is(each_world: World) -> None:
    job = each_world.create(payload={"value": 7})
    fail_plainly(each_world, job)
    with operator(each_world) as client:
        answer = client.post(f"{ADMIN}/jobs/{job.id}/retry", json={"reason": "provider is back"})
        followed = client.get(answer.headers["location"])

    new = each_world.app.jobs.get(UUID(answer.json()["jobId"]))
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/ai/jobs/{new.id}"
    assert followed.json() == answer.json()
    assert (new.retry_of_job_id, new.lifecycle_status) == (job.id, "queued")
    assert each_world.app.jobs.get(job.id).lifecycle_status == "failed"
    entry = audit(each_world)[0]
    assert (entry.verb, entry.object_type, entry.object_id) == ("job.retry", "job", str(job.id))
    assert (entry.actor, entry.edge, entry.reason) == ("boss", "http", "provider is back")
    assert entry.detail == {"newJobId": str(new.id)}
    assert entry.request_id == answer.headers["x-request-id"]


def test_retry_that_is_sent_twice_with_a_key_makes_one_job(world: World) -> None:
    job = world.create()
    fail_plainly(world, job)
    with operator(world) as client:
        answers = [
            client.post(f"{ADMIN}/jobs/{job.id}/retry", headers={"idempotency-key": "k"})
            for _ in range(2)
        ]

    assert answers[0].content == answers[1].content
    assert answers[0].headers["location"] == answers[1].headers["location"]
    assert len(written(world)) == 1


def test_refused_acts_are_written_down_too(world: World) -> None:
    job = world.create()
    with operator(world) as client:
        retry = client.post(f"{ADMIN}/jobs/{job.id}/retry")
        absent = client.post(f"{ADMIN}/jobs/{(nowhere := uuid4())}/cancel")
        succeed(world, job)
        late = client.post(f"{ADMIN}/jobs/{job.id}/cancel")

    assert [a.status_code for a in (retry, absent, late)] == [409, 404, 409]
    assert written(world) == [
        ("job.retry", str(job.id), "JOB_NOT_RETRYABLE"),
        ("job.cancel", str(nowhere), "JOB_NOT_FOUND"),
        ("job.cancel", str(job.id), "JOB_NOT_CANCELLABLE"),
    ]


def test_any_users_job_can_be_cancelled(each_world: World) -> None:
    queued, running = each_world.create("u1"), each_world.create("u2")
    start(each_world, running)
    with operator(each_world) as client:
        answers = [client.post(f"{ADMIN}/jobs/{job.id}/cancel") for job in (queued, running)]

    assert [a.status_code for a in answers] == [200, 202]
    assert [e.detail["lifecycleStatus"] for e in audit(each_world)] == ["cancelled", "running"]


def test_act_and_its_record_stand_or_fall_together(own_world: World) -> None:
    """Where the audit cannot be written, nothing is done."""
    job = own_world.create()
    with own_world.app.database.begin() as conn:
        conn.execute(sa.text("DROP TABLE audit_log"))
    with operator(own_world) as client:
        answer = client.post(f"{ADMIN}/jobs/{job.id}/cancel")

    assert answer.status_code == 500
    assert answer.json()["detail"] == "Something went wrong on our side."
    assert own_world.app.jobs.get(job.id).lifecycle_status == "queued"


# -- many at once


def test_dry_run_tells_how_many_match_and_does_nothing(world: World) -> None:
    for _ in range(3):
        world.create()
    succeed(world, world.create())
    with operator(world) as client:
        answer = client.post(f"{ADMIN}/bulk/cancel", json={"filter": {}})
        none = client.post(f"{ADMIN}/bulk/cancel", json={"filter": {"status": ["succeeded"]}})

    assert answer.json() == {"dryRun": True, "matched": 3, "done": 0, "skipped": []}
    assert none.json()["matched"] == 0
    assert written(world) == []


def test_all_that_match_are_done_page_by_page(each_world: World) -> None:
    jobs = [each_world.create("u1") for _ in range(5)]
    kept = each_world.create("u2")
    order: dict[str, Any] = {"filter": {"userId": "u1"}, "dryRun": False, "limit": 2, "reason": "x"}
    done, pages = 0, 0
    with operator(each_world) as client:
        while True:
            body = client.post(f"{ADMIN}/bulk/cancel", json=order).json()
            done, pages = done + body["done"], pages + 1
            if "next" not in body:
                break
            order["before"] = body["next"]

        again = client.post(
            f"{ADMIN}/bulk/retry", json={"filter": {"userId": "u1"}, "dryRun": False}
        )

    assert (done, pages) == (5, 3)
    assert each_world.app.jobs.get(kept.id).lifecycle_status == "queued"
    assert again.json()["done"] == 5
    assert {e.verb for e in audit(each_world)} == {"job.cancel", "job.retry"}
    assert len(audit(each_world)) == 10
    assert all(each_world.app.jobs.get(j.id).lifecycle_status == "cancelled" for j in jobs)


# -- the outbox


def test_outbox_is_counted_and_listed(each_world: World) -> None:
    jobs = [each_world.create() for _ in range(3)]
    dead = kill_event(each_world, jobs[0])
    with operator(each_world) as client:
        counts = client.get(f"{ADMIN}/outbox").json()
        listed = client.get(f"{ADMIN}/outbox/events", params={"status": "dead"}).json()
        page = client.get(f"{ADMIN}/outbox/events", params={"limit": 2}).json()

    assert counts["counts"]["dead"] == 1
    assert counts["unroutable"] == 0
    assert [e["id"] for e in listed["items"]] == [str(dead)]
    assert listed["items"][0]["jobId"] == str(jobs[0].id)
    assert len(page["items"]) == 2
    assert "next" in page


def test_dead_event_is_redelivered_or_discarded_with_a_reason(each_world: World) -> None:
    kept, given_up = each_world.create(), each_world.create()
    first, second = kill_event(each_world, kept), kill_event(each_world, given_up)
    with operator(each_world) as client:
        sent = client.post(f"{ADMIN}/outbox/events/{first}/redeliver")
        bare = client.post(f"{ADMIN}/outbox/events/{second}/discard", json={"reason": " "})
        gone = client.post(f"{ADMIN}/outbox/events/{second}/discard", json={"reason": "bad data"})
        twice = client.post(f"{ADMIN}/outbox/events/{second}/discard", json={"reason": "again"})
        absent = client.post(f"{ADMIN}/outbox/events/{uuid4()}/redeliver")

    assert (sent.status_code, sent.json()["effect"]) == (200, "revived")
    assert bare.status_code == 422
    assert (gone.status_code, gone.json()["effect"]) == (200, "job_failed")
    assert (twice.status_code, twice.json()["code"]) == (409, "OUTBOX_EVENT_STATE")
    assert (absent.status_code, absent.json()["code"]) == (404, "OUTBOX_EVENT_NOT_FOUND")
    job = each_world.app.jobs.get(given_up.id)
    assert (job.lifecycle_status, job.error_code) == ("failed", "DISPATCH_DISCARDED")
    assert [(e.verb, e.result) for e in audit(each_world)] == [
        ("outbox.redeliver", "done"),
        ("outbox.discard", "done"),
        ("outbox.discard", "OUTBOX_EVENT_STATE"),
        ("outbox.redeliver", "OUTBOX_EVENT_NOT_FOUND"),
    ]


# -- queues and the rest


def test_queue_shows_what_waits_and_is_paused_and_resumed(each_world: World) -> None:
    each_world.create()
    delivered = each_world.create()
    running = each_world.create()
    make_outbox_dispatcher(each_world.app).run_once()
    start(each_world, running)
    each_world.create()
    with operator(each_world) as client:

        def background() -> dict[str, Any]:
            items = client.get(f"{ADMIN}/queues").json()["items"]
            return next(item for item in items if item["name"] == "ai-background")

        before = background()
        pause = client.post(
            f"{ADMIN}/queues/ai-background/pause",
            json={"reason": "provider down", "forSeconds": 60},
        )
        during = background()
        resume = [client.post(f"{ADMIN}/queues/ai-background/resume") for _ in range(2)]
        unknown = client.post(f"{ADMIN}/queues/nowhere/pause", json={"reason": "x"})

    assert delivered.lifecycle_status == "queued"
    assert (before["depth"], before["queued"], before["running"], before["parked"]) == (3, 3, 1, 0)
    assert before["oldestAgeSeconds"] >= 0
    assert "pause" not in before
    assert (pause.status_code, pause.json()["reason"]) == (200, "provider down")
    assert during["pause"]["pausedBy"] == "boss"
    assert during["pause"]["pausedUntil"] > during["pause"]["pausedAt"]
    assert [answer.status_code for answer in resume] == [204, 409]
    assert unknown.status_code == 404
    assert [(e.verb, e.result) for e in audit(each_world)] == [
        ("queue.pause", "done"),
        ("queue.resume", "done"),
        ("queue.resume", "QUEUE_NOT_PAUSED"),
    ]


def test_workers_types_and_the_audit_are_listed(world: World) -> None:
    world.app.transport.register_worker("w-1", ["ai-background"])
    job = world.create()
    with operator(world) as client:
        client.post(f"{ADMIN}/jobs/{job.id}/cancel")
        workers = client.get(f"{ADMIN}/workers").json()["items"]
        types = client.get(f"{ADMIN}/types").json()["items"]
        found = client.get(f"{ADMIN}/audit", params={"objectId": str(job.id)}).json()["items"]
        others = client.get(f"{ADMIN}/audit", params={"actor": "nobody"}).json()["items"]

    assert [(w["name"], w["queues"]) for w in workers] == [("w-1", ["ai-background"])]
    synthetic = next(t for t in types if t["jobType"] == "synthetic")
    assert synthetic["inputSchema"]["properties"]["sleep_ms"]["maximum"] == 600_000
    assert [(a["verb"], a["objectId"]) for a in found] == [("job.cancel", str(job.id))]
    assert others == []


@pytest.mark.parametrize(
    ("route", "name"),
    [("jobs", "jobType"), ("jobs", "queueName"), ("jobs", "errorCode"), ("jobs", "userId"), ("jobs", "targetId"),
     ("outbox/events", "queueName"), ("audit", "verb"), ("audit", "objectType"), ("audit", "actor")],
)  # fmt: skip
def test_filter_with_a_value_of_another_alphabet_finds_nothing_or_is_refused(
    each_world: World, route: str, name: str
) -> None:
    each_world.create()
    with operator(each_world) as client:
        for value in ("é", "💡", "' OR 1=1 --", "%"):
            answer = client.get(f"{ADMIN}/{route}", params={name: value})
            assert answer.status_code in (200, 422)
            assert answer.json().get("items", []) == []


def test_list_by_a_name_of_another_alphabet_is_empty_on_every_database(each_world: World) -> None:
    each_world.create()
    for wanted in (
        views.JobFilter(job_type="é"),
        views.JobFilter(error_code="é", queue_name="ai-background"),
    ):
        assert each_world.app.uow.read(lambda conn, wanted=wanted: views.page(conn, wanted)) == []  # type: ignore[misc]


def test_open_jobs_are_listed_alike_whether_they_are_few_or_many(
    each_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few are looked up by upkeep's index and the outbox, many are walked to."""
    waiting, delivered, dead, running, cancelled = (each_world.create() for _ in range(5))
    make_outbox_dispatcher(each_world.app).run_once()
    late = each_world.create()
    died = sa.update(OUTBOX_EVENT).where(OUTBOX_EVENT.c.aggregate_id == dead.id).values(status="dead")
    each_world.app.uow.run(lambda conn: conn.execute(died))
    start(each_world, running)
    each_world.app.jobs.request_cancel(cancelled.id)

    def listed(*statuses: LifecycleStatus) -> set[object]:
        wanted = views.JobFilter(statuses=statuses)
        found, count = each_world.app.uow.read(
            lambda conn: (views.page(conn, wanted), views.count(conn, wanted))
        )
        assert len(found) == count
        return {job.id for job in found}

    queued = {waiting.id, delivered.id, dead.id, late.id}
    for _ in range(2):
        assert listed(LifecycleStatus.QUEUED) == queued
        assert listed(LifecycleStatus.RUNNING) == {running.id}
        assert listed(LifecycleStatus.QUEUED, LifecycleStatus.RUNNING) == queued | {running.id}
        assert listed(LifecycleStatus.CANCELLED) == {cancelled.id}
        monkeypatch.setattr("engine.lifecycle.views.few_open_ids", lambda conn: None)
