"""The job API over real HTTP: the frozen response, waiting, cancelling, and jobs that are not one's own."""

from __future__ import annotations

import threading
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from engine.lifecycle.outputs import Output
from engine.lifecycle.values import Failure
from outbox.base.canonical import canonical_bytes, sha256
from projectors import artifacts
from projectors.protocol import ArtifactRef
from registry.job import JobView
from tests.engine.http.conftest import World


def start(world: World, job: JobView) -> Any:
    """Claim ``job`` as a worker would; returns the lease."""
    claimed = world.app.uow.run(
        lambda conn: world.app.lifecycle.claim(
            conn, {job.id: job.delivery_no}, worker="w", lease_ms=60_000
        )
    )
    return claimed[job.id].claim.lease  # type: ignore[union-attr]


def succeed(world: World, job: JobView, output: Any = None, *refs: ArtifactRef) -> None:
    """Run ``job`` to its end."""
    lease, content = start(world, job), canonical_bytes({"value": output})

    def unit(conn: sa.Connection) -> None:
        artifacts.record(conn, job.id, refs, world.app.clock)
        stored = Output(content, sha256(content), "1", "1", 30)
        world.app.outputs.insert(conn, [(job.id, stored)])
        assert world.app.lifecycle.mark_succeeded(conn, [lease]) == 1

    world.app.uow.run(unit)


def fail(world: World, job: JobView, failure: Failure) -> None:
    lease = start(world, job)
    assert world.app.uow.run(lambda conn: world.app.lifecycle.mark_failed(conn, lease, failure))


# -- the frozen response


def test_queued_job_has_exactly_the_members_of_the_record(each_world: World) -> None:
    job = each_world.create()
    with each_world.client() as client:
        answer = client.get(f"/api/ai/jobs/{job.id}")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "jobId": str(job.id),
        "jobType": "synthetic",
        "lifecycleStatus": "queued",
        "queueName": "ai-background",
        "priority": 50,
        "progress": 0,
        "createdAt": job.created_at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["cache-control"] == "private, no-cache"


def test_succeeded_job_shows_its_artifacts(each_world: World) -> None:
    job = each_world.create()
    succeed(each_world, job, 7, ArtifactRef("card", "c-1", 1), ArtifactRef("card", "c-0", 0))
    with each_world.client() as client:
        answer = client.get(f"/api/ai/jobs/{job.id}")
        output = client.get(f"/api/ai/jobs/{job.id}/output")

    body = answer.json()
    assert (body["lifecycleStatus"], body["progress"]) == ("succeeded", 100)
    assert body["result"] == {
        "artifactCount": 2,
        "artifacts": [
            {"artifactType": "card", "artifactId": "c-0"},
            {"artifactType": "card", "artifactId": "c-1"},
        ],
    }
    assert body["startedAt"] <= body["finishedAt"]
    assert "retry-after" not in answer.headers
    assert output.content == b'{"value":7}'


def test_failed_job_tells_the_public_and_nothing_else(each_world: World) -> None:
    job = each_world.create()
    fail(each_world, job, Failure("PROVIDER_ERROR", "The AI provider could not answer.", "stack"))
    with each_world.client() as client:
        body = client.get(f"/api/ai/jobs/{job.id}").json()

    assert body["errorCode"] == "PROVIDER_ERROR"
    assert body["publicErrorMessage"] == "The AI provider could not answer."
    assert "stack" not in str(body)
    assert "result" not in body


@pytest.mark.parametrize(
    "text",
    [
        "cannot open /srv/app/secret.db",
        "no route to 10.1.2.3",
        "no route to fe80::1:2:3:4",
        "http://internal.example/x failed",
        "C:\\app\\x.py",
        'File "x.py", line 3, in run',
        "Traceback (most recent call last):",
        "key sk-proj-0123456789abcdef was refused",
        "localhost:5432 refused",
    ],
)
def test_public_message_with_a_path_address_key_or_stack_is_not_shown(
    world: World, text: str
) -> None:
    job = world.create()
    fail(world, job, Failure("INTERNAL_HANDLER", text))
    with world.client() as client:
        body = client.get(f"/api/ai/jobs/{job.id}").json()

    assert body["publicErrorMessage"] == "Something went wrong on our side."


@pytest.mark.parametrize(
    "text", ["The text/format is not known.", "3 of 4 cards failed.", "See our help and/or retry."]
)
def test_harmless_public_message_is_shown(world: World, text: str) -> None:
    job = world.create()
    fail(world, job, Failure("VALIDATION_OUTPUT", text))
    with world.client() as client:
        assert client.get(f"/api/ai/jobs/{job.id}").json()["publicErrorMessage"] == text


# -- whose it is


def test_job_of_another_user_does_not_exist(world: World) -> None:
    job = world.create("u2")
    with world.client("u1") as client:
        absent = client.get(f"/api/ai/jobs/{uuid4()}")
        for method, path in (
            ("GET", ""),
            ("POST", "/cancel"),
            ("GET", "/events"),
            ("GET", "/output"),
        ):
            answer = client.request(method, f"/api/ai/jobs/{job.id}{path}")

            assert answer.status_code == 404
            assert answer.json()["code"] == "JOB_NOT_FOUND"
            same = absent.json() | {"request_id": answer.json()["request_id"]}
            assert answer.json() == same
    with world.client("u2") as client:
        assert client.get(f"/api/ai/jobs/{job.id}").status_code == 200


def test_operator_sees_every_job_but_not_its_output(world: World) -> None:
    job = world.create("u2")
    succeed(world, job, "private")
    with world.client("boss", "admin") as client:
        assert client.get(f"/api/ai/jobs/{job.id}").status_code == 200
        assert client.get(f"/api/ai/jobs/{job.id}/output").status_code == 404
        assert client.post(f"/api/ai/jobs/{job.id}/cancel").status_code == 404
    with world.client("root", "SUPER_ADMIN") as client:
        assert client.get(f"/api/ai/jobs/{job.id}/output").json() == {"value": "private"}


def test_nobody_gets_in_without_credentials(world: World) -> None:
    job = world.create()
    with world.client(None) as client:
        for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic eDp5"}):
            answer = client.get(f"/api/ai/jobs/{job.id}", headers=headers)

            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == "UNAUTHENTICATED"


def test_scope_that_is_no_users_is_refused(world: World) -> None:
    job = world.create()
    with world.client("u1", "approver") as client:
        answer = client.get(f"/api/ai/jobs/{job.id}")

    assert answer.status_code == 403
    assert answer.json()["code"] == "FORBIDDEN"


# -- validators and waiting


def test_unchanged_job_is_not_sent_again(world: World) -> None:
    job = world.create()
    with world.client() as client:
        tag = client.get(f"/api/ai/jobs/{job.id}").headers["etag"]
        again = client.get(f"/api/ai/jobs/{job.id}", headers={"if-none-match": f'"x", W/{tag}'})
        start(world, job)
        changed = client.get(f"/api/ai/jobs/{job.id}", headers={"if-none-match": tag})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (changed.status_code, changed.json()["lifecycleStatus"]) == (200, "running")


def test_waiting_request_is_answered_when_the_job_ends(each_world: World) -> None:
    job = each_world.create()
    answers = []

    def ask() -> None:
        with each_world.client() as client:
            answers.append(client.get(f"/api/ai/jobs/{job.id}", headers={"prefer": "wait=60"}))

    waiting = threading.Thread(target=ask)
    waiting.start()
    succeed(each_world, job)
    waiting.join(30)

    assert answers[0].json()["lifecycleStatus"] == "succeeded"
    assert answers[0].headers["preference-applied"] == "wait=60"


def test_waiting_request_with_a_tag_is_answered_at_the_next_change(world: World) -> None:
    job = world.create()
    answers = []
    with world.client() as client:
        tag = client.get(f"/api/ai/jobs/{job.id}").headers["etag"]

        def ask() -> None:
            headers = {"prefer": "respond-async, wait=60", "if-none-match": tag}
            answers.append(client.get(f"/api/ai/jobs/{job.id}", headers=headers))

        waiting = threading.Thread(target=ask)
        waiting.start()
        start(world, job)
        waiting.join(30)

    assert answers[0].json()["lifecycleStatus"] == "running"


def test_wait_ends_after_its_time_and_never_lasts_longer_than_a_minute(world: World) -> None:
    job = world.create()
    with world.client() as client:
        short = client.get(f"/api/ai/jobs/{job.id}", headers={"prefer": "wait=1"})
        world.app.jobs.request_cancel(job.id)
        long = client.get(f"/api/ai/jobs/{job.id}", headers={"prefer": "wait=9999"})

    assert (short.status_code, short.json()["lifecycleStatus"]) == (200, "queued")
    assert long.headers["preference-applied"] == "wait=60"


@pytest.mark.parametrize("prefer", ["wait=", "wait=x", "wait=-1", "await=5", "return=minimal", ""])
def test_other_preferences_are_passed_over(world: World, prefer: str) -> None:
    job = world.create()
    with world.client() as client:
        answer = client.get(f"/api/ai/jobs/{job.id}", headers={"prefer": prefer})

    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers


# -- cancelling


def test_queued_job_is_cancelled_at_once(each_world: World) -> None:
    job = each_world.create()
    with each_world.client() as client:
        first = client.post(f"/api/ai/jobs/{job.id}/cancel")
        again = client.post(f"/api/ai/jobs/{job.id}/cancel")

    assert (first.status_code, first.json()["lifecycleStatus"]) == (200, "cancelled")
    assert (again.status_code, again.json()["code"]) == (409, "JOB_ALREADY_CANCELLED")


def test_worker_of_a_running_job_is_asked_and_asking_twice_is_the_same(each_world: World) -> None:
    job = each_world.create()
    start(each_world, job)
    with each_world.client() as client:
        answers = [client.post(f"/api/ai/jobs/{job.id}/cancel") for _ in range(2)]

    assert [a.status_code for a in answers] == [202, 202]
    assert answers[0].json()["lifecycleStatus"] == "running"
    assert each_world.app.jobs.get(job.id).cancel_requested_at is not None


def test_job_that_has_ended_cannot_be_cancelled(world: World) -> None:
    job = world.create()
    succeed(world, job)
    with world.client() as client:
        answer = client.post(f"/api/ai/jobs/{job.id}/cancel")

    assert answer.status_code == 409
    problem = answer.json()
    assert problem["code"] == "JOB_NOT_CANCELLABLE"
    assert problem["type"] == "urn:aijobs:error:job-not-cancellable"
    assert problem["status"] == 409
    assert "succeeded" in problem["detail"]


def test_output_that_is_not_there_is_told_apart_from_a_job_that_is_not(world: World) -> None:
    job = world.create()
    with world.client() as client:
        answer = client.get(f"/api/ai/jobs/{job.id}/output")

    assert (answer.status_code, answer.json()["code"]) == (404, "OUTPUT_NOT_STORED")
