"""The create transaction under faults: stored whole, once, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine.intake.commands import CreatedJob
from registry.definition import JobDefinition
from tests.engine.intake.samples import Anything, Nothing, handler
from tests.support.faults import refusing
from tests.support.proxy import TcpProxy
from tests.support.servers import MariaDbServer, PostgresServer
from tests.support.wait import PATIENCE_S
from tests.support.world import World

NOTHING = dict.fromkeys(
    ("ai_job", "ai_job_snapshot", "ai_job_output", "ai_job_claim", "ai_job_artifact", "outbox_event"), 0
)


def created(number: int) -> dict[str, int]:
    return NOTHING | {"ai_job": number, "ai_job_snapshot": number, "outbox_event": number}


@pytest.mark.parametrize("write", ["INTO ai_job ", "INTO ai_job_snapshot", "INTO outbox_event"])
def test_a_creation_that_fails_at_any_statement_leaves_nothing(world: World, write: str) -> None:
    """CI-7. Job, snapshot and event are one fact."""
    with refusing(world.engine, write) as refused, pytest.raises(sa.exc.DBAPIError):
        world.app.jobs.create_jobs([world.request(), world.request(key="k")])

    assert refused
    assert world.counts() == NOTHING


def test_an_error_shows_no_payload(world: World) -> None:
    """Promise 7. Whatever the database says, the statement's values are not in it."""
    with refusing(world.engine, "INTO ai_job_snapshot"), pytest.raises(sa.exc.DBAPIError) as error:
        world.create(payload={"value": "my secret diary"}, user_id="somebody")

    assert "diary" not in str(error.value)
    assert "somebody" not in str(error.value)


# -- COMMIT's answer is lost -----------------------------------------------------------------------------


@pytest.fixture
def wire(
    request: pytest.FixtureRequest, database_kind: str, tables_url: str, tcp_proxy: Callable[[str, int], TcpProxy]
) -> Iterator[tuple[TcpProxy, World]]:
    """A world whose database can be reached through a wire that loses things."""
    name = {"mariadb": "mariadb_server", "postgresql": "postgres_server"}[database_kind]
    server: MariaDbServer | PostgresServer = request.getfixturevalue(name)
    proxy = tcp_proxy(server.host, server.port)
    with World(proxy.url(tables_url)) as world:
        world.run(lambda conn: None)
        yield proxy, world


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("loss", ["answer", "request"])
@pytest.mark.databases("mariadb", "postgresql")
def test_a_lost_commit_makes_one_job(wire: tuple[TcpProxy, World], loss: str, key: str | None) -> None:
    """CI-9. The engine finds its own job by the id it chose before, or repeats what never arrived."""
    proxy, world = wire
    drop = proxy.drop_answers_once if loss == "answer" else proxy.drop_requests_once
    fault = drop(b"COMMIT")

    made = world.created(key=key)

    fault.wait()
    assert made.created
    assert world.counts() == created(1)
    assert world.job(made.job.id) == made.job


@pytest.mark.databases("mariadb", "postgresql")
def test_a_lost_commit_of_a_batch_answers_for_each(wire: tuple[TcpProxy, World]) -> None:
    """CI-9. What was made, and what existed before."""
    proxy, world = wire
    old = world.create(key="old")
    fault = proxy.drop_answers_once(b"COMMIT")

    made = world.app.jobs.create_jobs([world.request(), world.request(key="old"), world.request(key="new")])

    fault.wait()
    assert [one.created for one in made] == [True, False, True]
    assert made[1].job.id == old.id
    assert world.counts() == created(3)


@pytest.mark.databases("mariadb", "postgresql")
def test_a_lost_commit_of_a_cancel_is_answered(wire: tuple[TcpProxy, World]) -> None:
    """CI-9. The cancel is on record: it is not refused as "already cancelled"."""
    proxy, world = wire
    job = world.create()
    fault = proxy.drop_answers_once(b"COMMIT")

    after = world.app.jobs.request_cancel(job.id)

    fault.wait()
    assert after.lifecycle_status == "cancelled"
    assert len(world.endings(job.id)) == 1


@pytest.mark.databases("mariadb", "postgresql")
def test_idle_connections_that_were_closed_are_not_noticed(wire: tuple[TcpProxy, World]) -> None:
    """DB-10. The first create, claim, heartbeat and dispatch after a quiet night work at once."""
    proxy, world = wire
    held, job = world.claimed(), world.create()
    beat = world.app.lifecycle.heartbeat
    acts: list[Callable[[], Any]] = [
        world.create,
        world.dispatch,
        lambda: world.claim(job.id),
        lambda: world.run(lambda conn: beat(conn, [held], lease_ms=600_000)),
        lambda: world.app.jobs.get(job.id),
        world.upkeep,
    ]
    for act in acts:
        assert proxy.connections > 0
        proxy.drop_connections()
        act()

    assert world.job(job.id).lifecycle_status == "running"


# -- a slow winner -----------------------------------------------------------------------------------------


def test_a_slow_snapshot_builder_holds_up_nobody_with_the_same_key(world: World) -> None:
    """CI-2. Everything slow happens before the transaction."""
    begun, go_on = threading.Event(), threading.Event()
    slow = threading.local()

    def redact(value: Anything) -> Anything:
        if getattr(slow, "yes", False):
            begun.set()
            assert go_on.wait(PATIENCE_S)
        return value

    world.app.register(
        JobDefinition.simple("redacted", input=Anything, output=Nothing, handler=handler, redact_input=redact)
    )
    late: list[CreatedJob] = []

    def create_slowly() -> None:
        slow.yes = True
        late.append(world.created(job_type="redacted", key="k"))

    thread = threading.Thread(target=create_slowly)
    thread.start()
    assert begun.wait(PATIENCE_S)

    first = world.created(job_type="redacted", key="k")

    assert first.created
    go_on.set()
    thread.join(PATIENCE_S)
    assert [(one.job.id, one.created) for one in late] == [(first.job.id, False)]


@pytest.mark.databases("mariadb", "postgresql")
def test_a_rivals_long_transaction_ends_in_its_job_not_in_a_lock_wait(
    make_world: Callable[..., World], database_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CI-2, CI-8. A lock wait repeats the whole unit; when the rival has committed its job is found."""
    monkeypatch.setattr("outbox.base.db.LOCK_WAIT_S", 1)
    world, rivals = make_world(), make_world()
    waited = threading.Event()
    sa.event.listen(world.engine, "handle_error", lambda _context: waited.set())
    found: list[CreatedJob] = []

    with Session(rivals.engine) as session:
        rival = rivals.create(key="k", session=session)
        thread = threading.Thread(target=lambda: found.append(world.created(key="k")))
        thread.start()
        assert waited.wait(PATIENCE_S)
        session.commit()
    thread.join(PATIENCE_S)

    assert [(one.job.id, one.created) for one in found] == [(rival.id, False)]
    assert world.counts() == created(1)
