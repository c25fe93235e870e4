"""Probes that say what is so, and metrics that Prometheus' own parser reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from engine.app import AiJobApp
from engine.observe.readiness import Progress
from registry.queues import DEFAULT_QUEUES
from tests.engine.http.conftest import MakeWorld, World, settings_for
from tests.support.daemons import Daemons
from tests.support.servers import MariaDbServer, RedisServer
from tests.support.wait import eventually

NAMES = {
    "aijobs_jobs_created",
    "aijobs_jobs_finished",
    "aijobs_job_wait_seconds",
    "aijobs_job_run_seconds",
    "aijobs_outbox_events",
    "aijobs_outbox_oldest_pending_age_seconds",
    "aijobs_outbox_dispatch",
    "aijobs_queue_depth",
    "aijobs_queue_oldest_age_seconds",
    "aijobs_workers",
    "aijobs_leases_expired",
    "aijobs_approvals_pending",
    "aijobs_llm_tokens",
    "aijobs_build_info",
}


def read(world: World) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Every sample by name and labels, read by Prometheus' parser."""
    with world.client("prom", "metrics") as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    families = list(text_string_to_metric_families(answer.text))
    assert {f.name for f in families} >= NAMES
    for family in families:
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_metrics_have_their_names_and_count_what_happens(each_own_world: World) -> None:
    each_own_world.app.transport.register_worker("w-1", ["ai-background"])
    for _ in range(3):
        each_own_world.create()
    before = read(each_own_world)
    with Daemons(each_own_world.app):
        eventually(
            lambda: sum(read(each_own_world)["aijobs_job_run_seconds_count"].values()) == 3,
            interval=0.2,
        )
    after = read(each_own_world)

    pending = (("status", "pending"),)
    assert before["aijobs_jobs_created_total"][()] == 3
    assert before["aijobs_outbox_events"][pending] == 3
    assert after["aijobs_outbox_events"][pending] == 0
    assert after["aijobs_outbox_dispatch_total"][(("outcome", "published"),)] == 3
    assert before["aijobs_job_wait_seconds_count"][()] == 0
    assert after["aijobs_job_wait_seconds_count"][()] == 3
    assert 0 < after["aijobs_job_wait_seconds_sum"][()] < 60
    ended = (("error_class", "none"), ("status", "succeeded"))
    assert after["aijobs_jobs_finished_total"][ended] == 3
    assert before["aijobs_queue_depth"][(("queue", "ai-background"),)] == 0
    assert sum(before["aijobs_workers"].values()) == 1


def test_failure_is_counted_by_its_family(own_world: World) -> None:
    own_world.create(payload={"fail_times": 9, "error": "credential"})
    with Daemons(own_world.app):
        failed = (("error_class", "credential"), ("status", "failed"))
        eventually(
            lambda: read(own_world).get("aijobs_jobs_finished_total", {}).get(failed) == 1,
            interval=0.2,
        )


def test_ends_and_beginnings_without_a_worker_are_counted(own_world: World) -> None:
    first, doomed = own_world.create(), own_world.create()
    dead = sa.text("UPDATE outbox_event SET status = 'dead' WHERE aggregate_id = :id")
    own_world.app.uow.run(lambda conn: conn.execute(dead, {"id": doomed.id.bytes}))
    with own_world.client() as client:
        client.post(f"/api/ai/jobs/{first.id}/cancel")
    with own_world.client("boss", "admin") as client:
        client.post(f"/admin-api/ai/jobs/{first.id}/retry")
        outbox = "/admin-api/ai/outbox/events"
        [event] = client.get(outbox, params={"status": "dead"}).json()["items"]
        client.post(f"{outbox}/{event['id']}/discard", json={"reason": "r"})
    found = read(own_world)

    assert found["aijobs_jobs_created_total"][()] == 3
    assert found["aijobs_jobs_finished_total"] == {
        (("error_class", "none"), ("status", "cancelled")): 1,
        (("error_class", "dispatch"), ("status", "failed")): 1,
    }


def test_wait_of_a_job_is_counted_once_however_often_it_is_started(
    make_world: MakeWorld, migrated_sqlite: str
) -> None:
    queues = tuple(replace(queue, backoff_ms=1) for queue in DEFAULT_QUEUES)
    settings = settings_for(migrated_sqlite).model_copy(update={"queues": queues})
    world = make_world(migrated_sqlite, app=AiJobApp(settings=settings))
    job = world.create(payload={"fail_times": 1, "error": "provider"})
    with Daemons(world.app):
        eventually(lambda: world.app.jobs.get(job.id).is_final)
        eventually(lambda: read(world)["aijobs_job_run_seconds_count"][()] >= 1)

    assert world.app.jobs.get(job.id).attempt_count == 2
    assert read(world)["aijobs_job_wait_seconds_count"][()] == 1


def test_age_of_what_waits_is_told(own_world: World) -> None:
    own_world.create()
    with own_world.app.database.begin() as conn:
        conn.execute(sa.text("UPDATE outbox_event SET available_at = '2026-01-01 00:00:00.000000'"))
    metrics = read(own_world)

    assert metrics["aijobs_outbox_oldest_pending_age_seconds"][()] > 3_600
    assert metrics["aijobs_queue_oldest_age_seconds"][(("queue", "ai-background"),)] > 3_600
    assert metrics["aijobs_queue_oldest_age_seconds"][(("queue", "ai-interactive"),)] == 0


def test_no_label_names_a_user_or_a_job(own_world: World) -> None:
    job = own_world.create("ada@example.org")
    with Daemons(own_world.app):
        eventually(lambda: own_world.app.jobs.get(job.id).is_final)
    with own_world.client("prom", "metrics") as client:
        text = client.get("/metrics").text

    assert "ada@example.org" not in text
    assert str(job.id) not in text
    assert job.id.hex not in text


def test_metrics_are_for_those_who_may_read_them(own_world: World) -> None:
    for subject, scopes, status in (
        (None, (), 401), ("u1", ("user",), 403), ("p", ("metrics",), 200), ("a", ("admin",), 200),
    ):  # fmt: skip
        with own_world.client(subject, *scopes) as client:
            assert client.get("/metrics").status_code == status
    with own_world.client("p", "metrics") as client:
        assert client.get("/admin-api/ai/jobs").status_code == 403


# -- probes


def test_server_with_its_database_is_ready(each_own_world: World) -> None:
    with each_own_world.client(None) as client:
        live, ready = client.get("/livez"), client.get("/readyz")

    assert (live.status_code, live.json()) == (200, {"status": "alive"})
    assert ready.status_code == 200
    assert ready.json() == {"status": "ready", "checks": {"database": "ok", "redis": "ok"}}


def test_server_without_its_tables_is_not_ready_until_they_are_made(
    make_world: MakeWorld, sqlite_url: str
) -> None:
    from tests.support.migrated import migrate

    world = make_world(sqlite_url)
    with world.client(None) as client:
        early = client.get("/readyz")
        migrate(sqlite_url)
        eventually(lambda: client.get("/readyz").status_code == 200, interval=0.2)

    assert early.status_code == 503
    assert early.json()["checks"]["database"] == "schema out of date"


def world_on(make_world: MakeWorld, url: str, redis_url: str) -> World:
    settings = settings_for(url).model_copy(update={"redis_url": redis_url})
    return make_world(url, app=AiJobApp(settings=settings))


def test_loss_of_redis_is_told_and_jobs_are_created_all_the_same(
    make_world: MakeWorld, migrated_sqlite: str, own_redis: RedisServer
) -> None:
    world = world_on(make_world, migrated_sqlite, own_redis.url)
    own_redis.kill()
    job = world.create()
    with world.client(None) as client:
        ready = client.get("/readyz")
    with world.client() as client:
        shown = client.get(f"/api/ai/jobs/{job.id}")
        cancelled = client.post(f"/api/ai/jobs/{job.id}/cancel")
    with world.client("boss", "admin") as client:
        workers = client.get("/admin-api/ai/workers")
        queues = client.get("/admin-api/ai/queues")

    assert (ready.status_code, ready.json()["checks"]["redis"]) == (200, "unavailable")
    assert shown.json()["lifecycleStatus"] == "queued"
    assert cancelled.status_code == 200
    assert (workers.status_code, workers.json()["code"]) == (503, "PLATFORM_UNAVAILABLE")
    assert queues.status_code == 200
    assert "depth" not in queues.json()["items"][0]


def test_loss_of_the_database_is_answered_with_503_until_it_is_back(
    make_world: MakeWorld, own_mariadb: MariaDbServer
) -> None:
    from tests.support.migrated import migrate

    with own_mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE aijobs")
    url = own_mariadb.url("aijobs")
    migrate(url)
    world = make_world(url)
    job = world.create()
    own_mariadb.kill()
    with world.client(None) as client:
        ready = client.get("/readyz")
        live = client.get("/livez")
    with world.client() as client:
        away = client.get(f"/api/ai/jobs/{job.id}")
        chat: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        openai = client.post("/v1/chat/completions", json=chat)
        keyed = client.post("/v1/chat/completions", json=chat, headers={"idempotency-key": "k"})
        own_mariadb.start()
        back = client.get(f"/api/ai/jobs/{job.id}")

    assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "unavailable")
    assert live.status_code == 200
    assert (away.status_code, away.json()["code"]) == (503, "PLATFORM_UNAVAILABLE")
    assert int(away.headers["retry-after"]) >= 1
    for answer in (openai, keyed):
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "server_error"
        assert "127.0.0.1" not in answer.text
    assert back.status_code == 200


def test_loop_that_makes_no_rounds_is_overdue() -> None:
    now = [0.0]
    progress = Progress(monotonic=lambda: now[0])
    progress.mark("dispatch", within_s=10)
    progress.mark("upkeep", within_s=60)
    now[0] = 11.0

    assert progress.stalled() == ["dispatch"]
    progress.mark("dispatch", within_s=10)
    assert progress.stalled() == []
    now[0] = 100.0
    progress.rest("dispatch")
    assert progress.stalled() == ["upkeep"]


def test_server_that_keeps_somebody_waiting_is_not_ready(own_world: World) -> None:
    own_world.edge.progress.mark("watch", within_s=-1)
    with own_world.client(None) as client:
        ready = client.get("/readyz")

    assert ready.status_code == 503
    assert ready.json()["checks"]["loop watch"] == "stalled"
