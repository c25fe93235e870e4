"""The database connection is lost at every single statement of a job's path, and at every COMMIT's answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tests.crash.samples import ASKED, assert_done_once, teach
from tests.support.proxy import Fault, TcpProxy
from tests.support.servers import Server
from tests.support.world import World


class Killer:
    """Ends the session of a connection from another one, as an administrator or a failover does."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._own = "connection_id()" if engine.dialect.name == "mariadb" else "pg_backend_pid()"
        self._kill = "KILL {}" if engine.dialect.name == "mariadb" else "SELECT pg_terminate_backend({})"

    def kill(self, conn: sa.Connection) -> None:
        with conn.connection.cursor() as cursor:
            cursor.execute(f"SELECT {self._own}")
            [number] = cursor.fetchone()
        with self._engine.execution_options(isolation_level="AUTOCOMMIT").connect() as other:
            other.exec_driver_sql(self._kill.format(number))


@contextmanager
def at_statement(engine: sa.Engine, number: int, act: Callable[[sa.Connection], None]) -> Iterator[list[str]]:
    """Call `act` right before the statement with this number (from 1); yields what was executed."""
    seen: list[str] = []

    def before(conn: sa.Connection, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)
        if len(seen) == number:
            act(conn)

    sa.event.listen(engine, "before_cursor_execute", before)
    try:
        yield seen
    finally:
        sa.event.remove(engine, "before_cursor_execute", before)


@contextmanager
def at_commit(engine: sa.Engine, number: int, arm: Callable[[], Fault]) -> Iterator[list[Fault]]:
    """Arm a fault right before the COMMIT with this number (from 1); yields it when that COMMIT came."""
    commits = itertools.count(1)
    faults: list[Fault] = []

    def before(_conn: sa.Connection) -> None:
        if next(commits) == number:
            faults.append(arm())

    sa.event.listen(engine, "commit", before)
    try:
        yield faults
    finally:
        sa.event.remove(engine, "commit", before)


def run_path(world: World) -> Any:
    job = world.create(job_type=ASKED, payload={})
    world.dispatch()
    world.work()
    return job


def test_session_killed_at_each_statement_costs_no_attempt_and_no_second_call(server_url: str) -> None:
    world = teach(World(server_url))
    admin = sa.create_engine(world.engine.url)
    killer = Killer(admin)
    killed = 0
    for number in itertools.count(1):
        with at_statement(world.engine, number, killer.kill) as seen:
            job = run_path(world)
        if len(seen) < number:
            break
        killed += 1
        assert_done_once(world, job)
    admin.dispose()
    world.close()

    # create, dispatch, claim, intent, settlement, commit: a path without statements would prove nothing
    assert killed > 20


def test_lost_answer_of_each_commit_is_resolved_without_a_second_call(
    server: Server, server_url: str, tcp_proxy: Callable[[str, int], TcpProxy]
) -> None:
    wire = tcp_proxy(*server.address)
    lost = 0
    with World(wire.url(server_url)) as world:
        teach(world)
        for number in itertools.count(1):
            with at_commit(world.engine, number, lambda: wire.drop_answers_once(b"COMMIT")) as faults:
                job = run_path(world)
            if not faults:
                break
            assert faults[0].happened.is_set()
            # a dispatcher that was not told of its own claim lets it expire (OB-7)
            world.settle()
            lost += 1
            assert_done_once(world, job)

    # create, claim and mark of the event, claim of the job, intent, settlement, result
    assert lost >= 7
