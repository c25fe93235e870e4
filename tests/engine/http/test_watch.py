"""Who waits is told at once, by Redis' hint where there is one, and by the database in any case."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pytest
import sqlalchemy as sa

from engine.http.watch import DEAF_MAX_S, FIRST_S, MAX_S, _Pace
from outbox.errors import TransportUnavailable
from tests.engine.http.conftest import World
from tests.engine.http.test_jobs import succeed
from tests.support.daemons import Daemons
from tests.support.wait import eventually


class Waiting:
    """A request that is held until its job has ended."""

    def __init__(self, world: World, job_id: object) -> None:
        self._world, self._job_id = world, job_id
        self.status = ""
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        with self._world.client() as client:
            path = f"/api/ai/jobs/{self._job_id}"
            self.status = client.get(path, headers={"prefer": "wait=25"}).json()["lifecycleStatus"]

    def __enter__(self) -> Waiting:
        self._thread.start()
        eventually(lambda: bool(self._world.edge.watch._watchers))
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(30)


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the database but for a hint."""
    for name in ("FIRST_S", "MAX_S", "DEAF_MAX_S"):
        monkeypatch.setattr(f"engine.http.watch.{name}", 60.0)


@pytest.mark.usefixtures("no_looks")
def test_end_of_a_job_reaches_who_waits_without_a_look(own_world: World) -> None:
    job = own_world.create()
    with Waiting(own_world, job.id) as waiting:
        eventually(lambda: own_world.edge.watch._hears)
        with Daemons(own_world.app):
            eventually(lambda: waiting.status, 10)

    assert waiting.status == "succeeded"


@pytest.mark.usefixtures("no_looks")
def test_cancel_reaches_who_waits_without_a_look(own_world: World) -> None:
    job = own_world.create()
    with Waiting(own_world, job.id) as waiting, own_world.client() as client:
        eventually(lambda: own_world.edge.watch._hears)
        client.post(f"/api/ai/jobs/{job.id}/cancel")
        eventually(lambda: waiting.status, 10)

    assert waiting.status == "cancelled"


def test_without_redis_who_waits_is_told_all_the_same(
    own_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise TransportUnavailable("no connection")

    monkeypatch.setattr(own_world.app.transport, "listen", away)
    job = own_world.create()
    with Waiting(own_world, job.id) as waiting:
        succeed(own_world, job)
        eventually(lambda: waiting.status, 10)
    assert waiting.status == "succeeded"
    assert not own_world.edge.watch._hears


@pytest.mark.usefixtures("no_looks")
def test_ends_of_jobs_that_nobody_waits_for_cost_no_query(own_world: World) -> None:
    job = own_world.create()
    asked: list[str] = []
    with Waiting(own_world, job.id) as waiting:
        eventually(lambda: own_world.edge.watch._hears)
        sa.event.listen(
            own_world.app.database, "before_cursor_execute", lambda *args: asked.append(args[2])
        )
        for _ in range(20):
            own_world.app.transport.cancel("ai-background", "synthetic", uuid4())
        # the last hint is one that is heeded, so all before it were taken
        own_world.app.transport.cancel("ai-background", "synthetic", job.id)
        eventually(lambda: asked)
        own_world.edge.watch.closing = True
        own_world.edge.watch._watchers.copy().pop().tell(None)
        eventually(lambda: waiting.status)

    assert sum("FROM ai_job" in statement for statement in asked) <= 2


def test_listening_ends_when_nobody_has_waited_for_a_while(
    own_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.http.watch._LINGER_S", 0.05)
    job = own_world.create()
    with Waiting(own_world, job.id) as waiting:
        eventually(lambda: own_world.edge.watch._hears)
        succeed(own_world, job)
        eventually(lambda: waiting.status)

    eventually(lambda: not own_world.edge.watch._hears)
    eventually(lambda: "aijobs-hearing" not in {t.name for t in threading.enumerate()})
    # and begins anew
    other = own_world.create()
    with Waiting(own_world, other.id) as again:
        began = time.monotonic()
        succeed(own_world, other)
        eventually(lambda: again.status)
    assert time.monotonic() - began < 10


def test_looks_come_soon_at_first_and_then_ever_more_rarely() -> None:
    def looks(within_s: float, ceiling_s: float, seconds: float) -> int:
        pace, count = _Pace(FIRST_S, within_s), 0
        while pace.due < seconds:
            count += 1
            pace.slow_down(pace.due, ceiling_s)
        return count

    assert looks(MAX_S, MAX_S, 0.2) >= 3
    assert looks(MAX_S, MAX_S, 60) < 140
    assert looks(MAX_S, DEAF_MAX_S, 60) > 550
    # somebody follows a text
    assert looks(0.1, MAX_S, 60) > 550
