"""Probes of daemons: ready while their loops get on, not ready when one is stuck, whatever it is stuck in."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel

from engine.cli.errors import UsageMistake
from engine.cli.probes import probes
from engine.observe.probe import ProbeServer
from engine.observe.readiness import Progress
from engine.worker.assembly import make_dispatcher
from tests.engine.cli.conftest import Start
from tests.support.wait import eventually
from tests.support.world import World


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is silent for half a second is stuck."""
    for place in ("observe.readiness", "worker.fetcher", "worker.loops"):
        monkeypatch.setattr(f"engine.{place}.SILENT_S", 0.5)
    monkeypatch.setattr("engine.observe.readiness._GOOD_S", 0.0)


@pytest.fixture
def here(database: str) -> Iterator[World]:
    with World(database) as world:
        yield world


class Gate:
    """Stands in for a function, and holds its caller from the moment it is shut."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.open = threading.Event()
        self.open.set()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.open.wait(30)
        return self._function(*arguments, **named)


@contextmanager
def probing(world: World, progress: Progress) -> Iterator[Callable[[], tuple[int, dict[str, str]]]]:
    """Function () -> what /readyz says."""
    with (
        probes(world.app, progress, role="worker", port=0, metrics_port=None, host="127.0.0.1") as [
            server
        ],
        httpx2.Client(base_url=f"http://127.0.0.1:{server.port}") as client,
    ):

        def ready() -> tuple[int, dict[str, str]]:
            answer = client.get("/readyz")
            return answer.status_code, answer.json()["checks"]

        yield ready


@pytest.mark.usefixtures("patience")
def test_worker_whose_queue_cannot_be_looked_at_is_not_ready_until_it_can(here: World) -> None:
    progress = Progress()
    gate = Gate(here.transport.claim)
    here.transport.claim = gate  # type: ignore[method-assign]
    with here.working("ai-background", progress=progress), probing(here, progress) as ready:
        assert ready() == (200, {"database": "ok", "redis": "ok"})
        gate.open.clear()
        eventually(lambda: ready()[0] == 503)
        assert ready()[1]["loop fetch ai-background"] == "stalled"
        gate.open.set()
        eventually(lambda: ready()[0] == 200)


@pytest.mark.usefixtures("patience")
def test_worker_with_all_hands_full_is_ready_and_with_a_blocked_event_loop_it_is_not(
    here: World,
) -> None:
    class Anything(BaseModel):
        blocks: bool

    release = threading.Event()
    began = threading.Event()

    @here.app.job("hold", input=Anything, output=Anything, queue="ai-background")
    async def hold(ctx: Any) -> Anything:
        began.set()
        while not release.is_set() and not ctx.input.blocks:
            await asyncio.sleep(0.01)
        release.wait(30)
        return ctx.input  # type: ignore[no-any-return]

    progress = Progress()
    with (
        here.working("ai-background", progress=progress, concurrency=1),
        probing(here, progress) as ready,
    ):
        for blocks in (False, True):
            here.create(job_type="hold", payload={"blocks": blocks})
            here.dispatch()
            assert began.wait(30)
            if blocks:
                eventually(lambda: ready()[1].get("loop events") == "stalled")
                assert ready()[0] == 503
            else:
                # longer than a loop may be silent
                full = time.monotonic()
                eventually(lambda full=full: time.monotonic() - full > 0.7)  # type: ignore[misc]
                assert ready()[0] == 200
            release.set()
            eventually(lambda: not here.open_jobs())
            began.clear()
            release.clear()


@pytest.mark.usefixtures("patience")
def test_dispatcher_that_is_stuck_in_a_round_is_not_ready(here: World) -> None:
    progress = Progress()
    gate = Gate(here.transport.put_many)
    dispatcher = make_dispatcher(here.app, progress=progress)
    dispatcher._dispatcher._transport = _Deaf(here.transport, gate)  # type: ignore[assignment]
    dispatcher.start()
    with probing(here, progress) as ready:
        eventually(lambda: ready()[0] == 200)
        gate.open.clear()
        here.create()
        eventually(lambda: ready()[1].get("loop dispatch") == "stalled")
        gate.open.set()
        eventually(lambda: ready()[0] == 200)
    dispatcher.stop()
    assert dispatcher.join()


class _Deaf:
    """A transport one of whose answers may take for ever."""

    def __init__(self, transport: Any, put_many: Any) -> None:
        self._transport = transport
        self.put_many = put_many

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def test_metrics_may_have_a_port_of_their_own(here: World) -> None:
    def paths(server: ProbeServer) -> dict[str, int]:
        known = ("/livez", "/readyz", "/metrics")
        return {path: server.answer(path)[0] for path in known}

    def at(port: int | None, metrics_port: int | None) -> list[dict[str, int]]:
        with probes(
            here.app, Progress(), role="r", port=port, metrics_port=metrics_port, host="127.0.0.1"
        ) as servers:
            return [paths(server) for server in servers]

    everything = {"/livez": 200, "/readyz": 200, "/metrics": 200}
    assert at(None, None) == []
    assert at(0, None) == [everything]
    assert at(0, 0) == [everything | {"/metrics": 404}, everything | {"/readyz": 404}]
    assert at(None, 0) == [everything | {"/readyz": 404}]


def test_port_in_use_is_told_with_its_fix(here: World) -> None:
    def at(port: int) -> Any:
        return probes(
            here.app, Progress(), role="r", port=port, metrics_port=None, host="127.0.0.1"
        )

    with (
        at(0) as [server],
        pytest.raises(UsageMistake, match=str(server.port)) as told,
        at(server.port),
    ):
        pass
    assert "another port" in str(told.value.fix)


def test_daemon_answers_probes_and_counts_what_it_does(program: Start, database: str) -> None:
    child = program(
        "run",
        "--probe-port",
        "0",
        env={"AIJOBS_DATABASE_URL": database, "AIJOBS_REDIS_URL": "fakeredis://"},
    )
    line = child.wait_for_output('"event": "probes listen"', 60)
    base = f"http://127.0.0.1:{json.loads(line)['port']}"
    with World(database) as world, httpx2.Client(base_url=base) as client:
        child.wait_for_output('"event": "ready"', 60)
        job = world.create()
        eventually(lambda: world.job(job.id).is_final, 30)
        assert client.get("/livez").status_code == 200
        assert client.get("/readyz").json()["status"] == "ready"
        text = client.get("/metrics").text
    found = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}

    assert found["aijobs_job_wait_seconds_count"] == 1
    assert found["aijobs_outbox_dispatch_total"] >= 1
    child.signal(15)
    assert child.wait(60) == 0
