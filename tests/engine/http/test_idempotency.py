"""A host's own routes under the middleware, through real HTTP: one key, one run, one answer (AH-1 to AH-6)."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from engine.app import AiJobApp
from engine.lifecycle import views
from outbox.base.clock import DatabaseClock
from tests.engine.http.conftest import TLS, MakeWorld, World, settings_for, token_of
from tests.engine.http.hosts import Counter, make_host, serve_child
from tests.support.processes import Child, Children
from tests.support.wait import eventually

MakeHost = Callable[..., World]

#: One for all hosts: those that live as long as the session go on counting with it.
_COUNTER = Counter()


@pytest.fixture
def counter() -> Counter:
    _COUNTER.reset()
    return _COUNTER


@pytest.fixture
def make_host_world(make_world: MakeWorld, counter: Counter) -> MakeHost:
    def make(url: str, **options: Any) -> World:
        return make_world(url, build=lambda app: make_host(app, counter, **options))

    return make


@pytest.fixture
def host(kept_world: MakeWorld, counter: Counter) -> World:
    return kept_world("sqlite", "host", build=lambda app: make_host(app, counter))


@pytest.fixture
def each_host(kept_world: MakeWorld, database_kind: str, counter: Counter) -> World:
    return kept_world(database_kind, "host", build=lambda app: make_host(app, counter))


def key(value: str = "k-1") -> dict[str, str]:
    return {"idempotency-key": value}


def jobs_of(world: World) -> int:
    return world.app.uow.read(lambda conn: views.count(conn, views.JobFilter()))


# -- replay


def test_answer_is_replayed_to_the_byte_with_status_type_and_chosen_headers(
    each_host: World, counter: Counter
) -> None:
    with each_host.client() as client:
        first = client.post("/count", headers=key(), json={"x": 1})
        again = client.post("/count", headers=key(), json={"x": 1})

    assert counter.runs == 1
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.status_code, again.content) == (201, first.content)
    for name in ("content-type", "location", "content-length"):
        assert again.headers[name] == first.headers[name]
    assert "x-other" not in again.headers


@pytest.mark.parametrize("path", ["/raw", "/empty"])
def test_any_answer_is_replayed_as_it_was(host: World, counter: Counter, path: str) -> None:
    with host.client() as client:
        first, again = (client.post(path, headers=key()) for _ in range(2))

    assert counter.runs == 1
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert first.headers.get("content-type") == again.headers.get("content-type")


def test_request_without_a_key_runs_every_time_and_leaves_nothing(
    host: World, counter: Counter
) -> None:
    with host.client(None) as client:
        for _ in range(3):
            assert client.post("/count", json={"x": 1}).status_code == 201

    assert counter.runs == 3
    with host.app.database.connect() as conn:
        assert conn.execute(sa.text("SELECT COUNT(*) FROM idempotency_record")).scalar_one() == 0


def test_key_of_a_reading_request_says_nothing(host: World, counter: Counter) -> None:
    with host.client() as client:
        answers = [client.get("/count", headers=key()).json()["runs"] for _ in range(2)]

    assert answers == [1, 2]


def test_key_may_be_used_anew_a_day_after_its_answer(
    host: World, counter: Counter, clock: DatabaseClock
) -> None:
    with host.client() as client:
        client.post("/count", headers=key(), json={"x": 1})
        clock.advance(86_400_000 - 10_000)
        assert "idempotency-replayed" in client.post("/count", headers=key(), json={"x": 1}).headers
        clock.advance(20_000)
        assert client.post("/count", headers=key(), json={"x": 2}).status_code == 201

    assert counter.runs == 2


# -- refusals


@pytest.mark.parametrize("given", ["", "a b", "é", "k" * 256, '""'])
def test_malformed_key_is_refused_and_nothing_runs(
    host: World, counter: Counter, given: str
) -> None:
    with host.client() as client:
        answer = client.post("/count", headers={"idempotency-key": given.encode()}, json={})

    assert (answer.status_code, answer.json()["code"]) == (400, "IDEMPOTENCY_KEY_INVALID")
    assert answer.headers["content-type"] == "application/problem+json"
    assert counter.runs == 0


def test_the_other_name_of_the_header_counts_too(host: World, counter: Counter) -> None:
    with host.client() as client:
        client.post("/count", headers=key("same"), json={})
        again = client.post("/count", headers={"idempotency_key": '"same"'}, json={})
        both = client.post("/count", headers=key("a") | {"idempotency_key": "b"}, json={})

    assert again.headers["idempotency-replayed"] == "true"
    assert both.status_code == 400


def test_other_body_is_refused_while_the_first_runs_and_after_it(
    each_host: World, counter: Counter
) -> None:
    """AH-2: the client is told that it is wrong, not to wait."""
    counter.gate.clear()
    with each_host.client() as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/count", headers=key(), json={"x": 1})
        assert counter.entered.wait(30)
        other = client.post("/count", headers=key(), json={"x": 2})
        same = client.post("/count", headers=key(), json={"x": 1})
        counter.gate.set()
        assert first.result().status_code == 201
        later = client.post("/count", headers=key(), json={"x": 2})
        query = client.post("/count?n=1", headers=key(), json={"x": 1})

    for answer in (other, later, query):
        assert (answer.status_code, answer.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert (same.status_code, same.json()["code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert int(same.headers["retry-after"]) >= 1
    assert counter.runs == 1


def test_key_of_a_caller_that_is_not_known_is_refused(host: World, counter: Counter) -> None:
    """AH-3, X58: never silently without the protection that was asked for."""
    with host.client(None) as client:
        answer = client.post("/count", headers=key(), json={})

    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
    assert counter.runs == 0


def test_callers_and_routes_with_one_key_never_meet(host: World, counter: Counter) -> None:
    for subject in ("u1", "u2"):
        with host.client(subject) as client:
            assert client.post("/count", headers=key(), json={}).status_code == 201
            assert client.post("/raw", headers=key(), json={}).status_code == 200

    assert counter.runs == 4


@pytest.mark.parametrize("status", [400, 404, 409, 422, 429, 500, 503])
def test_error_is_not_kept(host: World, counter: Counter, status: int) -> None:
    """AH-4."""
    with host.client() as client:
        for runs in (1, 2):
            answer = client.post(f"/count?status={status}", headers=key(), json={})
            assert (answer.status_code, counter.runs) == (status, runs)


def test_crash_of_a_route_frees_the_key(host: World, counter: Counter) -> None:
    for runs in (1, 2):
        # uvicorn hangs up after an error that nobody handled
        with host.client() as client:
            answer = client.post("/crash", headers=key())
        assert (answer.status_code, counter.runs) == (500, runs)
        assert "srv" not in answer.text


@pytest.mark.parametrize("headers", [{}, key()], ids=["no key", "a key"])
def test_crash_of_a_route_is_its_applications_to_handle(
    host: World, headers: dict[str, str]
) -> None:
    with host.client() as client:
        answer = client.post("/crash", headers=headers)

    assert (answer.status_code, answer.text) == (500, "Internal Server Error")


def test_request_that_fails_before_its_route_stands_in_the_log(
    host: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise LookupError("hidden in this test")

    monkeypatch.setattr(host.edge.idempotency, "claim", broken)
    with host.client() as client:
        answer = client.post("/count", headers=key(), json={})

    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL_ERROR")
    assert "POST /count: LookupError at test_idempotency.py" in caplog.text
    assert "hidden" not in caplog.text


def test_route_may_require_a_key(host: World) -> None:
    with host.client() as client:
        missing = client.post("/required")
        given = client.post("/required", headers=key())

    assert (missing.status_code, missing.json()["code"]) == (400, "IDEMPOTENCY_KEY_MISSING")
    assert given.json() == "k-1"


def test_request_that_had_sent_something_is_not_run_again(host: World, counter: Counter) -> None:
    """X59."""
    with host.client() as client:
        failed = client.post("/sends", headers=key())
        again = client.post("/sends", headers=key())
        sent = [client.post("/sends?fail=false", headers=key("k-2")) for _ in range(2)]

    assert failed.status_code == 502
    assert (again.status_code, again.json()["code"]) == (409, "IDEMPOTENCY_OUTCOME_UNKNOWN")
    assert "retry-after" not in again.headers
    assert [answer.json() for answer in sent] == ["sent", "sent"]
    assert counter.runs == 2


# -- what is not kept


@pytest.mark.parametrize("chunked", [False, True])
def test_answer_that_is_too_large_reaches_its_client_and_is_not_kept(
    make_host_world: MakeHost, migrated_sqlite: str, counter: Counter, chunked: bool
) -> None:
    host = make_host_world(migrated_sqlite, answer_limit=10_000)
    path = f"/large?size=50000&chunked={chunked}"
    with host.client() as client:
        first = client.post(path, headers=key())
        again = client.post(path, headers=key())
        small = [
            client.post(f"/large?size=10000&chunked={chunked}", headers=key("s")) for _ in "12"
        ]

    assert len(first.content) == 50_000
    assert (again.status_code, again.json()["code"]) == (409, "IDEMPOTENCY_ANSWER_NOT_KEPT")
    assert [answer.content for answer in small] == [b"x" * 10_000] * 2
    assert counter.runs == 2


def test_event_stream_goes_out_as_it_comes_and_is_not_kept(host: World, counter: Counter) -> None:
    with host.client() as client:
        for runs in (1, 2):
            answer = client.post("/stream", headers=key())
            assert answer.text == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
            assert counter.runs == runs


# -- jobs


def test_route_that_makes_a_job_answers_202_and_a_repeat_the_same(each_host: World) -> None:
    with each_host.client() as client:
        first = client.post("/jobs-by-key", headers=key(), json={"x": 1})
        again = client.post("/jobs-by-key", headers=key(), json={"x": 1})
        other = client.post("/jobs-by-key", headers=key(), json={"x": 2})
        job = client.get(first.headers["location"])

    assert (first.status_code, again.status_code, other.status_code) == (202, 202, 422)
    assert first.content == again.content
    assert job.json()["jobId"] == first.json()["jobId"]
    assert jobs_of(each_host) == 1


def test_job_finds_its_repeat_also_when_the_http_record_is_gone(host: World) -> None:
    with host.client() as client:
        first = client.post("/jobs-by-key", headers=key(), json={"x": 1})
        with host.app.database.begin() as conn:
            conn.execute(sa.text("DELETE FROM idempotency_record"))
        again = client.post("/jobs-by-key", headers=key(), json={"x": 1})

    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.json()["jobId"] == first.json()["jobId"]


# -- several processes


class Server:
    """A child process that serves the host's routes."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.port = int(child.wait_for_output("port ", 60).split()[1])

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return httpx2.post(
            f"http://127.0.0.1:{self.port}{path}",
            json=body,
            headers={"authorization": f"Bearer {token_of('u1')}", **headers},
            timeout=60,
            verify=TLS,
        )


@pytest.fixture
def servers(children: Children, migrated_url: str) -> Callable[..., list[Server]]:
    def start(count: int, lease_ms: int = 60_000) -> list[Server]:
        started = [children.call(serve_child, migrated_url, lease_ms) for _ in range(count)]
        return [Server(child) for child in started]

    return start


@pytest.fixture
def reader(migrated_url: str) -> Iterator[AiJobApp]:
    app = AiJobApp(settings=settings_for(migrated_url))
    yield app
    app.close()


def count_jobs(app: AiJobApp) -> int:
    return app.uow.read(lambda conn: views.count(conn, views.JobFilter()))


@pytest.mark.slow
def test_fifty_at_once_over_three_processes_make_one_job(
    servers: Callable[..., list[Server]], reader: AiJobApp
) -> None:
    """AH-5: every answer is that job, or 409 with the time to come back; however the route keys its job."""
    running = servers(3)
    for made, path in enumerate(("/jobs-linked", "/jobs-by-key"), 1):
        _rush(running, path)
        assert count_jobs(reader) == made


def _rush(running: list[Server], path: str) -> None:
    def ask(number: int) -> httpx2.Response:
        return running[number % 3].post(path, {"x": 1}, **{"idempotency-key": "k"})

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(50)))
    last = [server.post(path, {"x": 1}, **{"idempotency-key": "k"}) for server in running]

    assert set(Tally(a.status_code for a in answers)) <= {202, 409}
    ids = {a.json()["jobId"] for a in answers if a.status_code == 202}
    assert len(ids) == 1
    assert {a.json()["jobId"] for a in last} == ids
    assert all(int(a.headers["retry-after"]) >= 1 for a in answers if a.status_code == 409)


@pytest.mark.slow
def test_killed_server_leaves_a_job_whose_answer_the_next_one_gives(
    servers: Callable[..., list[Server]], reader: AiJobApp
) -> None:
    """AH-1: kill -9 after the job was made and before the answer was."""
    first, second = servers(2, lease_ms=1_500)
    asking = threading.Thread(
        target=lambda: _ignore_hang_up(
            lambda: first.post("/jobs-linked?hang=true", {"x": 1}, **{"idempotency-key": "k"})
        )
    )
    asking.start()
    first.child.wait_for_output("job made")
    busy = second.post("/jobs-linked?hang=true", {"x": 1}, **{"idempotency-key": "k"})
    first.child.kill()
    asking.join(30)

    answers: list[httpx2.Response] = []

    def answered() -> bool:
        answers.append(second.post("/jobs-linked?hang=true", {"x": 1}, **{"idempotency-key": "k"}))
        return answers[-1].status_code != 409

    eventually(answered, interval=0.2)

    assert (busy.status_code, busy.json()["code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert "job_id" in busy.json()
    assert answers[-1].status_code == 200
    assert answers[-1].headers["idempotency-replayed"] == "true"
    assert answers[-1].json()["jobId"] == busy.json()["job_id"]
    assert answers[-1].headers["location"].endswith(busy.json()["job_id"])
    other = second.post("/jobs-linked?hang=true", {"x": 2}, **{"idempotency-key": "k"})
    assert other.status_code == 422
    assert count_jobs(reader) == 1


@pytest.mark.slow
def test_frozen_server_that_was_overtaken_gives_the_answer_of_the_other(
    servers: Callable[..., list[Server]], reader: AiJobApp
) -> None:
    """Its claim is lost while it stands still: what it would answer must not differ from what counts."""
    first, second = servers(2, lease_ms=1_500)
    answers: list[httpx2.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(first.post("/count", {"x": 1}, **{"idempotency-key": "k"}))
    )
    first.child.freeze()
    asking.start()
    other = second.post("/count", {"x": 1}, **{"idempotency-key": "k"})
    first.child.thaw()
    asking.join(30)

    assert other.status_code == 201
    assert answers[0].content == other.content
    assert answers[0].headers["idempotency-replayed"] == "true"


def _ignore_hang_up(act: Callable[[], object]) -> None:
    try:
        act()
    except httpx2.TransportError:
        return
