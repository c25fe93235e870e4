"""The rules that hold for every route: limits, request ids, closed by default, and mounting in a host."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request

from engine.app import AiJobApp
from engine.config import HttpSettings
from engine.errors import (
    IdempotencyConflictError,
    JobNotFoundError,
    QuotaExceededError,
    SettingsError,
    TooManyJobsError,
)
from engine.http.admin.router import admin_router
from engine.http.app import create_http_app
from engine.http.auth import LoopbackOnly, Principal
from engine.http.edge import Edge
from engine.http.errors import RateLimited
from engine.http.jobs import job_router
from engine.http.limits import RateLimiter
from engine.http.openai.router import openai_router
from engine.http.problem import describe, publicly
from engine.http.security import authenticator_of, refuse_exposure
from engine.http.server import EdgeServer, make_server
from engine.intake.commands import CreateJobInput
from outbox.base.errors import DatabaseUnavailable
from outbox.errors import TransportUnavailable
from registry.errors import AiJobsError
from tests.engine.http.conftest import TLS, MakeWorld, World, settings_for, token_of
from tests.engine.http.hosts import make_host
from tests.support.wait import eventually
from tests.support.web import WebServer

# -- request ids and headers


def test_every_answer_has_the_clients_request_id_or_a_new_one(world: World) -> None:
    with world.client() as client:
        given = client.get("/livez", headers={"x-request-id": "abc-1"})
        new = [client.get("/livez").headers["x-request-id"] for _ in range(2)]
        unsound = client.get("/livez", headers={"x-request-id": "a b\tc"})
        problem = client.get("/nowhere", headers={"x-request-id": "abc-2"})

    assert given.headers["x-request-id"] == "abc-1"
    assert new[0] != new[1]
    assert unsound.headers["x-request-id"] != "a b\tc"
    assert problem.json()["request_id"] == "abc-2"


def test_answers_are_not_kept_by_caches_nor_guessed_at(world: World) -> None:
    with world.client() as client:
        answer = client.get("/v1/models")

    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_other_sites_may_not_read_answers(world: World) -> None:
    with world.client() as client:
        headers = {"origin": "https://evil.example.org", "access-control-request-method": "GET"}
        plain = client.get("/v1/models", headers=headers)
        preflight = client.options("/v1/models", headers=headers)

    for answer in (plain, preflight):
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "NOT_FOUND"),
        ("DELETE", "/api/ai/jobs/0197a3f0-0000-7000-8000-000000000000", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/api/ai/jobs/17", 422, "REQUEST_INVALID"),
    ],
)
def test_what_is_not_there_is_a_problem_too(
    world: World, method: str, path: str, status: int, code: str
) -> None:
    with world.client() as client:
        answer = client.request(method, path)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert ("allow" in answer.headers) is (status == 405)


# -- limits


def test_caller_that_asks_too_often_is_told_when_to_come_back(
    make_world: MakeWorld, migrated_sqlite: str
) -> None:
    world = make_world(migrated_sqlite, requests_per_minute=5)
    with world.client("u1") as one, world.client("u2") as two:
        answers = [one.get("/v1/models") for _ in range(8)]
        other = two.get("/v1/models")
        keyed = one.post("/v1/chat/completions", json={}, headers={"idempotency-key": "k"})

    assert [a.status_code for a in answers].count(200) == 5
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert answers[-1].json()["error"]["code"] == "rate_limit_exceeded"
    assert other.status_code == 200
    assert keyed.status_code == 429


def test_bucket_refills_and_is_never_more_than_full() -> None:
    now = [0.0]
    limiter = RateLimiter(60, monotonic=lambda: now[0])

    for pause, free in ((0, 60), (10, 10), (100_000, 60)):
        now[0] += pause
        for _ in range(free):
            limiter.take("u")
        with pytest.raises(RateLimited) as refused:
            limiter.take("u")
        assert refused.value.retry_after_s == 1


def test_bucket_is_counted_right_by_many_at_once() -> None:
    limiter = RateLimiter(100, monotonic=lambda: 0.0)

    def take(_: int) -> bool:
        try:
            limiter.take("u")
        except RateLimited:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(take, range(400))) == 100


def test_callers_are_not_remembered_for_ever() -> None:
    limiter = RateLimiter(1, monotonic=lambda: 0.0)
    for number in range(30_000):
        limiter.take(str(number))

    limiter.take("0")
    with pytest.raises(RateLimited):
        limiter.take("29999")


@pytest.mark.parametrize("path", ["/api/ai/jobs/x/cancel", "/channels/api/acme/main"])
def test_body_over_the_limit_is_refused_before_anything_else(
    make_world: MakeWorld, migrated_sqlite: str, path: str
) -> None:
    world = make_world(migrated_sqlite, body_limit_bytes=1_024)
    with world.client() as client:
        answer = client.post(path, content=b"x" * 1_025)

    assert (answer.status_code, answer.json()["code"]) == (413, "REQUEST_TOO_LARGE")


def test_admission_limits_are_answered_with_429(
    make_world: MakeWorld, migrated_sqlite: str
) -> None:
    settings = settings_for(migrated_sqlite)
    admission = settings.admission.model_copy(update={"max_open_jobs": 1, "daily_quota": 3})
    app = AiJobApp(settings=settings.model_copy(update={"admission": admission}))
    world = make_world(migrated_sqlite, app=app)
    first = world.create("u1")
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    with world.client("u1") as client:
        many = client.post("/v1/chat/completions", json=body)
        for job in (first, None, None):
            job = job or world.create("u1")
            app.jobs.request_cancel(job.id)
        quota = client.post("/v1/chat/completions", json=body)

    assert many.status_code == quota.status_code == 429
    assert many.json()["error"]["code"] == "rate_limit_exceeded"
    assert quota.json()["error"]["code"] == "insufficient_quota"
    assert int(many.headers["retry-after"]) <= 10
    assert 1 <= int(quota.headers["retry-after"]) <= 86_400


# -- closed by default


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_nothing_is_served_beyond_this_machine_without_authentication(
    migrated_sqlite: str, host: str
) -> None:
    app = AiJobApp(settings=settings_for(migrated_sqlite, jwt_secret=None))
    with pytest.raises(SettingsError) as refused:
        make_server(app, host=host)
    assert "AIJOBS_HTTP__TOKEN_FILE" in str(refused.value)
    app.close()


def test_with_authentication_any_address_may_be_listened_on(migrated_sqlite: str) -> None:
    app = AiJobApp(settings=settings_for(migrated_sqlite))
    assert make_server(app, host="0.0.0.0").config.host == "0.0.0.0"
    app.close()


def test_without_settings_only_this_machine_is_let_in(
    make_world: MakeWorld, migrated_sqlite: str
) -> None:
    world = make_world(migrated_sqlite, jwt_secret=None)
    job = world.create("somebody")
    with httpx2.Client(base_url=world.server.url, verify=TLS) as client:
        mine = client.get(f"/api/ai/jobs/{job.id}")
        admin = client.get("/admin-api/ai/jobs")
        rebound = client.get("/admin-api/ai/jobs", headers={"host": "evil.example.org"})
        forwarded = client.get("/admin-api/ai/jobs", headers={"x-forwarded-for": "203.0.113.7"})
        cross = client.post(
            f"/admin-api/ai/jobs/{job.id}/cancel", headers={"origin": "https://evil.example.org"}
        )

    assert (mine.status_code, admin.status_code) == (200, 200)
    assert (rebound.status_code, forwarded.status_code, cross.status_code) == (401, 401, 401)
    assert isinstance(authenticator_of(HttpSettings()), LoopbackOnly)


def test_hosts_own_callable_decides(make_world: MakeWorld, migrated_sqlite: str) -> None:
    async def by_header(request: Any) -> Principal | None:
        name = request.headers.get("x-user")
        return Principal(name) if name else None

    world = make_world(
        migrated_sqlite, build=lambda app: create_http_app(app, authenticate=by_header)
    )
    job = world.create("ada")
    with httpx2.Client(base_url=world.server.url, verify=TLS) as client:
        statuses = [
            client.get(f"/api/ai/jobs/{job.id}", headers=headers).status_code
            for headers in ({}, {"x-user": "ada"}, {"x-user": "eve"})
        ]

    assert statuses == [401, 200, 404]
    refuse_exposure(world.edge.gate, "0.0.0.0")


# -- mounted in a host


def test_every_router_can_be_mounted_in_a_host_under_a_prefix(
    make_world: MakeWorld, migrated_sqlite: str
) -> None:
    def host(app: AiJobApp) -> FastAPI:
        edge = Edge(app, authenticate=lambda request: Principal("u1", frozenset({"admin"})))
        inner = FastAPI()
        inner.include_router(job_router(edge), prefix="/api/ai")
        inner.include_router(admin_router(edge), prefix="/ops")
        inner.include_router(openai_router(edge))
        outer = FastAPI()
        outer.mount("/learn", inner)

        @outer.get("/own")
        def own(request: Request) -> dict[str, str]:
            raise ValueError("the host's own business")

        outer.state.edge = edge
        return outer

    world = make_world(migrated_sqlite, build=host, chat_wait_ms=100)
    job, ended = world.create("u1"), world.create("u1")
    world.app.jobs.request_cancel(ended.id)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    with httpx2.Client(base_url=world.server.url, verify=TLS) as client:
        mine = client.get(f"/learn/api/ai/jobs/{job.id}")
        absent = client.get("/learn/api/ai/jobs/0197a3f0-0000-7000-8000-000000000000")
        wrong = client.get("/learn/ops/jobs?status=lost")
        late = client.post("/learn/v1/chat/completions", json=body)
        followed = client.get(late.headers["location"])
        bad = client.post("/learn/v1/chat/completions", json={})
        again = client.post(f"/learn/ops/jobs/{ended.id}/retry")

    assert mine.json()["jobId"] == str(job.id)
    # without any handler in the host
    assert (absent.status_code, absent.json()["code"]) == (404, "JOB_NOT_FOUND")
    assert absent.headers["content-type"] == "application/problem+json"
    assert (wrong.status_code, wrong.json()["code"]) == (422, "REQUEST_INVALID")
    assert late.status_code == 504
    assert late.headers["location"].startswith("/learn/api/ai/jobs/")
    assert followed.json()["lifecycleStatus"] == "queued"
    assert again.headers["location"] == f"/learn/api/ai/jobs/{again.json()['jobId']}"
    assert bad.json()["error"]["type"] == "invalid_request_error"


# -- stopping


def test_server_that_stops_answers_who_waits(own_world: World) -> None:
    job = own_world.create()
    answers: list[httpx2.Response] = []

    def ask() -> None:
        with own_world.client() as client:
            answers.append(client.get(f"/api/ai/jobs/{job.id}", headers={"prefer": "wait=60"}))

    waiting = threading.Thread(target=ask)
    with own_world.client() as client:
        client.get("/livez")
        waiting.start()
        eventually(lambda: bool(own_world.edge.watch._watchers))
        own_world.server.stop()
        waiting.join(30)

    assert answers[0].json()["lifecycleStatus"] == "queued"


@pytest.mark.parametrize("extra", ["", "Idempotency-Key: k\r\n"])
def test_body_that_does_not_come_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    monkeypatch.setattr("engine.http.limits.BODY_S", 0.3)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of('u1')}\r\n"
        f"{extra}Connection: close\r\nContent-Length: 100\r\n\r\n{{"
    )
    with socket.create_connection(("127.0.0.1", world.server.port)) as raw:
        raw.settimeout(20)
        raw.sendall(head.encode())
        answer = raw.makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_too_slow"' in answer


def test_whole_body_leaves_all_the_time_there_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.http.limits.BODY_S", 0.2)
    job = world.create()
    with world.client() as client:
        answer = client.get(f"/api/ai/jobs/{job.id}", headers={"prefer": "wait=1"})

    assert answer.status_code == 200


def test_make_server_serves_on_a_free_port(migrated_sqlite: str) -> None:
    app = AiJobApp(settings=settings_for(migrated_sqlite))
    server = make_server(app, port=0, log_level="warning")
    with WebServer(server.config.app, lambda config: EdgeServer(config, server._edge)) as web:
        assert httpx2.get(f"{web.url}/livez").status_code == 200
        with socket.create_connection(("127.0.0.1", web.port)) as raw:
            raw.sendall(b"NONSENSE\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 400")
    app.close()


# -- what a problem says


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (JobNotFoundError(), 404, "JOB_NOT_FOUND"),
        (TooManyJobsError(), 429, "TOO_MANY_JOBS"),
        (QuotaExceededError(), 429, "QUOTA_EXCEEDED"),
        (IdempotencyConflictError(), 422, "IDEMPOTENCY_KEY_REUSED"),
        (DatabaseUnavailable("10.0.0.1 refused"), 503, "PLATFORM_UNAVAILABLE"),
        (TransportUnavailable("redis://h:1 refused"), 503, "PLATFORM_UNAVAILABLE"),
        (AiJobsError("x"), 500, "INTERNAL_UNCLASSIFIED"),
        (RuntimeError("/srv/secret"), 500, "INTERNAL_ERROR"),
    ],
)
def test_error_has_its_status_and_says_nothing_it_must_not(
    error: Exception, status: int, code: str
) -> None:
    answer = describe(error)

    assert (answer.status, answer.code) == (status, code)
    assert "srv" not in answer.detail
    assert "refused" not in answer.detail
    assert ("Retry-After" in answer.headers) is (status in (429, 503))


@pytest.mark.parametrize(
    "text", ["", None, "at /a/b/c.py", "1.2.3.4", "sk-abcdefghijklmnop", "eyJhbGciOiJIUzI1NiJ9.x"]
)
def test_text_that_may_not_leave_is_replaced(text: str | None) -> None:
    assert publicly(text) == "Something went wrong on our side."


def test_creating_a_job_from_a_route_of_the_host_is_one_line(
    make_world: MakeWorld, migrated_sqlite: str
) -> None:
    world = make_world(migrated_sqlite, build=make_host)
    headers = {"authorization": f"Bearer {token_of('u1')}", "idempotency-key": "k"}
    first = httpx2.post(f"{world.server.url}/jobs-by-key", json={"a": 1}, headers=headers)

    assert first.status_code == 202
    assert world.app.jobs.create_job(
        CreateJobInput(
            user_id="u1", job_type="synthetic", target_type="t", target_id="1",
            payload={"value": {"a": 1}}, idempotency_key="k",
        )
    ).job.id.hex == first.json()["jobId"].replace("-", "")  # fmt: skip


# -- logs


def test_no_user_key_or_content_reaches_a_log(
    make_world: MakeWorld, migrated_sqlite: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world = make_world(migrated_sqlite)
    secret = "a-secret-thought"
    with world.client("ada@example.org", "admin") as client:
        client.get("/admin-api/ai/jobs", params={"userId": "ada@example.org"})
        client.post("/v1/chat/completions", json={"model": secret, "messages": secret})
        client.post("/v1/models", headers={"idempotency-key": "my-private-key"})
        client.get("/v1/models", headers={"authorization": "Bearer my-private-token"})
        with world.app.database.begin() as conn:
            conn.exec_driver_sql("DROP TABLE ai_job_snapshot")
        body = {"model": "m", "messages": [{"role": "user", "content": secret}]}
        broken = client.post("/v1/chat/completions", json=body)

    assert broken.status_code == 500
    assert "INTERNAL" not in broken.json()["error"]["message"]
    assert any("OperationalError at" in record.getMessage() for record in caplog.records)
    for private in ("ada@example.org", secret, "my-private-key", "my-private-token"):
        assert private not in caplog.text
