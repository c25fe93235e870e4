"""Outbox, queues and workers from the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.lifecycle.audit import AuditRepository
from outbox.queries import EventView
from registry.job import LifecycleStatus
from tests.engine.cli.conftest import Run
from tests.support.world import QUEUE, World


@pytest.fixture
def here(database: str) -> Iterator[World]:
    with World(database, "memory://") as world:
        yield world


def dead(here: World) -> EventView:
    job = here.create()
    [event] = here.deliveries(job.id)
    here.change("outbox_event", {"id": event.id}, status="dead", attempt_count=3, last_error="TICKET_REFUSED")
    return here.deliveries(job.id)[0]


# -- outbox --------------------------------------------------------------------------------------


def test_the_counts_tell_what_waits_for_a_person(aijobs: Run, here: World) -> None:
    dead(here)
    here.create()

    done = aijobs("outbox", "stats", "--json")

    assert (done.json["dead"], done.json["pending"], done.json["unroutable"]) == (1, 1, 0)
    assert done.json["oldestDueSeconds"] >= 0
    assert "aijobs outbox list --status dead" in aijobs("outbox", "stats").err


def test_events_are_listed_and_shown(aijobs: Run, here: World) -> None:
    event = dead(here)
    here.create()

    listed = aijobs("outbox", "list", "--status", "dead", "--json").json["events"]
    shown = aijobs("outbox", "show", event.id, "--json").json

    assert [one["id"] for one in listed] == [str(event.id)]
    assert shown == listed[0]
    assert (shown["jobId"], shown["lastError"]) == (str(event.job_id), "TICKET_REFUSED")


def test_a_dead_event_is_redelivered(aijobs: Run, here: World) -> None:
    event = dead(here)

    done = aijobs("outbox", "redeliver", event.id, "--reason", "Redis is back")

    assert done.code == 0
    assert "revived" in done.out
    here.settle()
    assert here.job(event.job_id).lifecycle_status is LifecycleStatus.SUCCEEDED
    [act] = here.app.uow.read(lambda conn: AuditRepository(here.app.clock).page(conn))
    assert (act.edge, act.verb, act.reason) == ("cli", "outbox.redeliver", "Redis is back")


def test_all_dead_events_are_redelivered_after_a_yes(aijobs: Run, here: World) -> None:
    events = [dead(here), dead(here)]

    assert aijobs("outbox", "redeliver", "--all-dead").code == 2
    done = aijobs("outbox", "redeliver", "--all-dead", "--yes")

    assert "2 events, 2 done, 0 skipped" in done.err
    assert {here.deliveries(event.job_id)[0].status for event in events} == {"pending"}


def test_a_discarded_event_fails_its_job(aijobs: Run, here: World) -> None:
    event = dead(here)

    done = aijobs("outbox", "discard", event.id, "--reason", "queue was removed", "--yes", "--json")

    assert done.json["events"] == [{"id": str(event.id), "result": "job_failed", "done": True}]
    assert here.job(event.job_id).error_code == "DISPATCH_DISCARDED"


@pytest.mark.parametrize("options", [[], ["--reason", " "], ["--reason"]])
def test_a_discard_needs_a_reason(aijobs: Run, here: World, options: list[str]) -> None:
    event = dead(here)

    assert aijobs("outbox", "discard", event.id, "--yes", *options).code == 2
    assert here.deliveries(event.job_id)[0].status == "dead"


def test_a_discard_needs_a_yes(aijobs: Run, here: World) -> None:
    event = dead(here)

    assert aijobs("outbox", "discard", event.id, "--reason", "x").code == 2
    assert here.deliveries(event.job_id)[0].status == "dead"


def test_an_event_in_another_state_is_refused(aijobs: Run, here: World) -> None:
    job = here.create()
    [event] = here.deliveries(job.id)

    done = aijobs("outbox", "redeliver", event.id, "--json")

    assert (done.code, done.error["code"]) == (4, "OUTBOX_EVENT_STATE")


@pytest.mark.parametrize("words", [("show",), ("redeliver",), ("discard", "--reason", "x", "--yes")])
def test_an_unknown_event_is_not_found(aijobs: Run, database: str, words: tuple[str, ...]) -> None:
    done = aijobs("outbox", *words, "00000000-0000-0000-0000-000000000001", "--json")

    assert (done.code, done.error["code"]) == (3, "OUTBOX_EVENT_NOT_FOUND")


def test_a_dry_run_changes_nothing(aijobs: Run, here: World) -> None:
    event = dead(here)

    done = aijobs("outbox", "redeliver", "--all-dead", "--dry-run")

    assert str(event.id) in done.out
    assert here.deliveries(event.job_id)[0].status == "dead"


# -- queues and workers --------------------------------------------------------------------------


def test_queues_show_what_waits_in_the_database_and_in_redis(
    aijobs: Run, database: str, redis_url: str
) -> None:
    with World(database, redis_url, redis_prefix="cli") as here:
        here.create()
        here.create()
        here.dispatch()
        here.transport.register_worker("w-1", [QUEUE])

        rows = aijobs("queues", "list", "--redis-url", redis_url, "--json").json["queues"]

    assert {row["name"] for row in rows} == {"ai-interactive", "ai-background"}
    # Another prefix is another Redis: nothing is seen under the default one
    assert [row["inRedis"] for row in rows] == [0, 0]


def test_queues_count_tickets_and_workers_under_their_prefix(
    aijobs: Run, database: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_REDIS_PREFIX", "cli")
    monkeypatch.setenv("AIJOBS_REDIS_URL", redis_url)
    with World(database, redis_url, redis_prefix="cli") as here:
        here.create()
        here.create()
        here.dispatch()
        here.transport.register_worker("w-1", [QUEUE])

        [row] = [r for r in aijobs("queues", "list", "--json").json["queues"] if r["name"] == QUEUE]
        [worker] = aijobs("workers", "list", "--json").json["workers"]

    assert (row["queued"], row["inRedis"], row["workers"]) == (2, 2, 1)
    assert (worker["name"], worker["queues"]) == ("w-1", [QUEUE])


def test_queues_are_listed_without_redis_and_say_so(aijobs: Run, database: str) -> None:
    done = aijobs("queues", "list", "--redis-url", "redis://127.0.0.1:1/0")

    assert done.code == 0
    assert "Redis cannot be asked" in done.err


def test_workers_need_a_redis_that_can_be_asked(aijobs: Run) -> None:
    inside, away = aijobs("workers", "list"), aijobs("workers", "list", "--redis-url", "redis://127.0.0.1:1/0")

    assert (inside.code, "AIJOBS_REDIS_URL" in inside.err) == (2, True)
    assert (away.code, "AIJOBS_REDIS_URL" in away.err) == (8, True)


def test_stats_count_jobs_queues_events_and_daemons(
    aijobs: Run, database: str, redis_url: str
) -> None:
    with World(database, redis_url) as here:
        here.transport.register_worker("w-1", [QUEUE])
        here.transport.register_dispatcher("d-1")
        here.create()
        here.dispatch()
        here.create()
        here.app.jobs.request_cancel(here.create().id)

        done = aijobs("stats", "--json", "--redis-url", redis_url)
        told = aijobs("stats", "--redis-url", redis_url)

    assert done.json["jobs"] == {"queued": 2, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 1}
    [queue] = [one for one in done.json["queues"] if one["name"] == QUEUE]
    assert (queue["queued"], queue["inRedis"], queue["workers"]) == (2, 1, 1)
    assert 0 <= queue["oldestWaitingSeconds"] < 60
    assert done.json["outbox"]["pending"] == 1
    assert done.json["daemons"] == {"workers": 1, "dispatchers": 1}
    assert "queued\t2" in told.out.splitlines()


def test_stats_are_told_without_redis(aijobs: Run, database: str) -> None:
    done = aijobs("stats", "--redis-url", "redis://127.0.0.1:1/0", "--json")

    assert done.code == 0
    assert "daemons" not in done.json
    assert all("inRedis" not in queue for queue in done.json["queues"])


def test_workers_and_dispatchers_are_listed_with_their_roles(
    aijobs: Run, database: str, redis_url: str
) -> None:
    with World(database, redis_url) as here:
        here.transport.register_worker("w-1", [QUEUE])
        here.transport.register_dispatcher("d-1")

        told = aijobs("workers", "list", "--redis-url", redis_url)

    rows = [line.split("\t")[:3] for line in told.out.splitlines()]
    assert rows == [["NAME", "ROLE", "QUEUES"], ["w-1", "worker", QUEUE], ["d-1", "dispatcher", "-"]]
    assert told.err == ""


def test_a_paused_queue_is_shown_and_goes_on(aijobs: Run, here: World) -> None:
    paused = aijobs("queues", "pause", QUEUE, "--reason", "provider is down", "--for", "30m")
    listed = aijobs("queues", "list").out
    resumed, again = aijobs("queues", "resume", QUEUE, "--json"), aijobs("queues", "resume", QUEUE, "--json")

    assert paused.code == 0
    assert "provider is down" in listed
    assert (resumed.json["wasPaused"], again.json["wasPaused"]) == (True, False)
    acts = here.app.uow.read(lambda conn: AuditRepository(here.app.clock).page(conn))
    assert [act.verb for act in acts] == ["queue.resume", "queue.pause"]


def test_a_queue_that_is_not_configured_is_not_found(aijobs: Run, database: str) -> None:
    done = aijobs("queues", "pause", "nosuch", "--reason", "x", "--json")

    assert (done.code, done.error["code"]) == (3, "QUEUE_UNKNOWN")
