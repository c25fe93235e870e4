"""Daemons as processes: they run jobs, obey signals, hand back what they cannot finish, and refuse what cannot work."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.lifecycle.lease import Claim
from registry.job import JobView, LifecycleStatus
from tests.engine.cli.conftest import Run, Start
from tests.support.processes import Child
from tests.support.servers import RedisServer
from tests.support.wait import eventually
from tests.support.world import World

#: Starting Python, its libraries and connections, on a machine that does other things too.
START_S = 60.0

BLOCKING = """
import time
from pydantic import BaseModel
from engine import AiJobApp

class Anything(BaseModel):
    value: str = ""

app = AiJobApp()

@app.job("blocking", input=Anything, output=Anything)
def block(ctx):
    time.sleep(300)
    return ctx.input
"""


def events_of(child: Child) -> list[dict[str, Any]]:
    return [json.loads(line) for line in child.output.splitlines() if line.startswith("{")]


def wait_ready(child: Child) -> None:
    child.wait_for_output('"event": "ready"', START_S)


def end(child: Child, number: int = signal.SIGTERM) -> int:
    child.signal(number)
    return child.wait(START_S)


@pytest.fixture
def shared(tables_url: str, redis_url: str) -> Iterator[World]:
    """A world on one of the databases and a real Redis, which daemons share."""
    with World(tables_url, redis_url) as world:
        yield world


@pytest.fixture
def here(database: str, redis_url: str) -> Iterator[World]:
    """The same on SQLite only, for what has nothing to do with the database."""
    with World(database, redis_url) as world:
        yield world


def environment(world: World) -> dict[str, str]:
    settings = world.app.settings
    return {"AIJOBS_DATABASE_URL": settings.database_url, "AIJOBS_REDIS_URL": settings.redis_url}


def sleeping(world: World, ms: int = 300_000) -> JobView:
    """A delivered job that takes a while."""
    job = world.create(payload={"sleep_ms": ms, "value": "done"})
    world.dispatch()
    return job


def wait_running(world: World, job: JobView) -> None:
    eventually(
        lambda: world.job(job.id).lifecycle_status is LifecycleStatus.RUNNING, START_S, message="the job runs"
    )


# -- the whole path ------------------------------------------------------------------------------


def test_separate_daemons_run_a_job_and_end_with_nothing_in_hand(shared: World, program: Start) -> None:
    dispatcher = program("dispatcher", env=environment(shared))
    worker = program("worker", "ai-background", env=environment(shared))
    wait_ready(dispatcher)
    wait_ready(worker)

    job = shared.create(payload={"value": "SECRET"})
    done = shared.app.jobs.wait(job.id, START_S)

    assert done.lifecycle_status is LifecycleStatus.SUCCEEDED
    assert (end(worker), end(dispatcher)) == (0, 0)
    assert "SECRET" not in worker.output + dispatcher.output
    [finished] = [e for e in events_of(worker) if e["event"] == "job.succeeded"]
    assert finished["job_id"] == str(job.id)


def test_one_process_runs_all_roles_with_a_redis_of_its_own(database: str, program: Start) -> None:
    running = program("run", env={"AIJOBS_DATABASE_URL": database})
    wait_ready(running)

    created = program(
        "jobs", "create", "synthetic", "--input", '{"value": 1}', "--wait", "--timeout", "60s", "-q",
        env={"AIJOBS_DATABASE_URL": database},
    )  # fmt: skip

    assert created.check(START_S) == '{"value": 1}\n'
    assert end(running) == 0


def test_a_worker_in_burst_ends_by_itself(here: World, program: Start) -> None:
    jobs = [here.create() for _ in range(5)]
    here.dispatch()

    program("worker", "--burst", "-c", "ai-background=3", env=environment(here)).check(START_S)

    assert {here.job(job.id).lifecycle_status for job in jobs} == {LifecycleStatus.SUCCEEDED}


def test_a_dispatcher_that_runs_once_tells_what_it_did(here: World, program: Start) -> None:
    for _ in range(3):
        here.create()

    output = program("dispatcher", "--once", "--json", "--log-level", "error", env=environment(here)).check(START_S)

    assert json.loads(output)["published"] == 3
    assert here.depth() == 3


# -- signals -------------------------------------------------------------------------------------


def test_the_first_signal_lets_running_jobs_finish(here: World, program: Start) -> None:
    job = sleeping(here, 1_500)
    worker = program("worker", "--grace", "60s", env=environment(here))
    wait_running(here, job)

    assert end(worker) == 0
    assert here.job(job.id).lifecycle_status is LifecycleStatus.SUCCEEDED


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_after_the_grace_a_job_is_handed_back_without_using_an_attempt(
    here: World, program: Start, number: int, code: int
) -> None:
    job = sleeping(here)
    worker = program("worker", "--grace", "200ms", env=environment(here))
    wait_running(here, job)

    assert end(worker, number) == code

    row = here.row(job.id)
    assert (row["lifecycle_status"], row["locked_by"], row["start_reason"]) == ("running", None, "resume")
    assert here.deliveries(job.id)[-1].status == "pending"
    again = here.try_claim(job.id)
    assert isinstance(again, Claim)
    assert again.attempt_no == 1


def test_the_second_signal_hands_back_at_once(here: World, program: Start) -> None:
    job = sleeping(here)
    worker = program("worker", "--grace", "1h", env=environment(here))
    wait_running(here, job)

    worker.signal(signal.SIGTERM)
    worker.wait_for_output("running work may finish", START_S)

    assert end(worker) == 143
    assert here.row(job.id)["locked_by"] is None


def test_a_handler_that_blocks_a_thread_does_not_keep_the_process(
    here: World, program: Start, folder: Path
) -> None:
    (folder / "blocking_jobs.py").write_text(BLOCKING)
    env = environment(here)
    created = program("jobs", "create", "blocking", "--input", "{}", "-q", "--app", "blocking_jobs:app", env=env)
    job_id = created.check(START_S).strip()
    here.dispatch()
    worker = program("worker", "--app", "blocking_jobs:app", "--grace", "100ms", env=env)
    worker.wait_for_output('"event": "ready"', START_S)
    eventually(lambda: here.open_jobs()[0].locked_by, START_S)

    assert end(worker) == 143
    assert str(here.open_jobs()[0].id) == job_id
    assert here.open_jobs()[0].locked_by is None


def test_a_dispatcher_is_listed_while_it_runs(here: World, program: Start) -> None:
    dispatcher = program("dispatcher", "--name", "d-1", env=environment(here))

    eventually(lambda: [one.name for one in here.transport.dispatchers()] == ["d-1"], START_S)
    assert here.transport.workers() == []

    assert end(dispatcher) == 0
    assert here.transport.dispatchers() == []


def test_a_dispatcher_ends_at_once_and_in_order(here: World, program: Start) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        dispatcher = program("dispatcher", env=environment(here))
        wait_ready(dispatcher)

        assert end(dispatcher, number) == 0


def test_a_supervisor_hears_when_a_worker_is_ready_and_when_it_stops(
    here: World, program: Start, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(START_S)
        worker = program("worker", env=environment(here) | {"NOTIFY_SOCKET": str(tmp_path / "notify")})

        assert channel.recv(1_000).startswith(b"READY=1")
        worker.signal(signal.SIGTERM)
        assert channel.recv(1_000).startswith(b"STOPPING=1")
        assert worker.wait(START_S) == 0


# -- what cannot work; found out before anything is started, so in this process -------------------


@pytest.fixture
def refused(aijobs: Run, here: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Function (*arguments, **variables) -> exit code and last line of a daemon that must not start."""

    def start(*arguments: str, **variables: str) -> tuple[int, str]:
        for name, value in (environment(here) | variables).items():
            monkeypatch.setenv(name, value)
        done = aijobs(*arguments)
        assert done.out == ""
        return done.code, done.err.splitlines()[-1]

    return start


Refused = Callable[..., tuple[int, str]]


@pytest.mark.parametrize("role", ["worker", "dispatcher"])
def test_a_role_alone_refuses_a_redis_that_no_other_process_sees(refused: Refused, role: str) -> None:
    code, line = refused(role, AIJOBS_REDIS_URL="fakeredis://aijobs")

    assert code == 2
    assert "AIJOBS_REDIS_URL" in line
    assert "aijobs run" in line


@pytest.mark.parametrize("role", ["worker", "dispatcher", "run", "serve"])
def test_no_daemon_starts_on_a_database_without_its_tables(
    refused: Refused, folder: Path, role: str
) -> None:
    (folder / "empty.db").touch()

    code, line = refused(role, AIJOBS_DATABASE_URL="sqlite:///empty.db")

    assert code == 7
    assert "aijobs db upgrade" in line


def test_a_database_that_does_not_answer_is_waited_for_and_then_told(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.daemon.PATIENCE_S", 0.5)

    code, line = refused("worker", AIJOBS_DATABASE_URL="postgresql://nobody@127.0.0.1:1/x")

    assert (code, "AIJOBS_DATABASE_URL" in line) == (8, True)


@pytest.mark.parametrize("role", ["worker", "dispatcher"])
def test_a_redis_that_is_away_is_told_once_and_its_return_once(
    database: str, own_redis: RedisServer, program: Start, role: str
) -> None:
    own_redis.stop()
    daemon = program(role, env={"AIJOBS_DATABASE_URL": database, "AIJOBS_REDIS_URL": own_redis.url})
    daemon.wait_for_output("keeps trying", START_S)
    wait_ready(daemon)

    own_redis.start()

    daemon.wait_for_output("answers again", START_S)
    assert end(daemon) == 0
    said = daemon.output
    assert said.count("does not answer") == said.count("keeps trying") == said.count("answers again") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["nosuch"], "nosuch"),
        (["-c", "0"], "--concurrency"),
        (["-c", "ai-background=x"], "--concurrency"),
        (["-c", "ai-backgroud=2"], "did you mean 'ai-background'?"),
        (["ai-backgroud"], "did you mean 'ai-background'?"),
        (["--grace", "soon"], "--grace"),
        (["--name", "two words"], "--name"),
        (["--log-level", "loud"], "--log-level"),
        (["--app", "nowhere:app"], "nowhere"),
    ],
)
def test_a_wrong_option_of_a_worker_is_one_line(refused: Refused, options: list[str], says: str) -> None:
    code, line = refused("worker", *options)

    assert code == 2
    assert says in line


# -- the API -------------------------------------------------------------------------------------


def test_servers_share_a_port_and_one_goes_on_where_another_was_stopped(
    here: World, program: Start
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ("serve", "--port", port, "--share-port")
    servers = [program(*words, env=environment(here)) for _ in range(2)]
    for server in servers:
        wait_ready(server)
    url = f"http://127.0.0.1:{port}/livez"

    assert end(servers[0]) == 0
    for _ in range(5):
        with urllib.request.urlopen(url) as answer:
            assert answer.status == 200
    # one that does not share keeps to its own port
    alone = program(*words[:3], env=environment(here))
    assert alone.wait(START_S) != 0
    assert end(servers[1]) == 0


def test_the_api_is_served_until_it_is_told_to_stop(here: World, program: Start) -> None:
    server = program("serve", "--port", "0", env=environment(here))
    line = json.loads(server.wait_for_output("Uvicorn running on", START_S))
    address = line["event"].split()[3]

    with urllib.request.urlopen(f"{address}/livez", timeout=START_S) as answer:
        assert answer.status == 200

    assert end(server) == 0
