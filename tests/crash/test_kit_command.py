"""``aijobs crashkit`` as a user meets it: what it refuses, what it leaves behind, and that it cleans up when killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.migrated import engine_for
from tests.support.processes import Children
from tests.support.server import children_by_parent, is_alive
from tests.support.servers import RedisServer
from tests.support.wait import eventually
from tests.support.world import World

PATIENCE_S = 100.0


def arguments(database_url: str, redis_url: str, *more: str) -> list[str]:
    return ["crashkit", "--database-url", database_url, "--redis-url", redis_url, *more]


@pytest.mark.slow
def test_kit_proves_cleans_up_and_says_so_in_json(
    mariadb_tables_url: str, redis_server: RedisServer, children: Children
) -> None:
    options = ["--fault", "kill dispatcher.after_put", "--no-controls", "--slack-ms", "60000", "--json", "-q"]
    kit = children.aijobs(*arguments(mariadb_tables_url, redis_server.url, *options))

    report = json.loads(kit.check(PATIENCE_S))

    assert report["held"] is True
    assert [(f["fault"], f["survived"], f["jobs"]) for f in report["faults"]] == [("kill dispatcher.after_put", True, 3)]  # noqa: E501
    with engine_for(mariadb_tables_url) as engine:
        assert not [name for name in sa.inspect(engine).get_table_names() if name.startswith("crashkit")]
    with World(mariadb_tables_url) as world:
        assert not any(world.counts().values())
    with redis_server.client() as client:
        assert not client.keys("*")


def test_kit_refuses_a_database_with_other_jobs(
    mariadb_tables_url: str, redis_server: RedisServer, children: Children
) -> None:
    with World(mariadb_tables_url) as world:
        job = world.create()
        kit = children.aijobs(*arguments(mariadb_tables_url, redis_server.url))

        assert kit.wait(PATIENCE_S) == 2
        assert "1 jobs that are not the kit's" in kit.output
        assert "--yes" in kit.output
        assert world.job(job.id).lifecycle_status == "queued"


def test_kit_refuses_a_redis_that_its_processes_could_not_share(mariadb_tables_url: str, children: Children) -> None:
    kit = children.aijobs(*arguments(mariadb_tables_url, "fakeredis://here"))

    assert kit.wait(PATIENCE_S) == 2
    assert "needs a real one" in kit.output


def test_processes_of_a_killed_kit_end_with_it(
    mariadb_tables_url: str, redis_server: RedisServer, children: Children
) -> None:
    kit = children.aijobs(
        *arguments(mariadb_tables_url, redis_server.url, "--no-matrix", "--no-controls", "--chaos", "300")
    )

    def family() -> list[int]:
        parents = children_by_parent()
        found = [kit.pid]
        for pid in found:
            found.extend(parents.get(pid, ()))
        return found[1:]

    # the zygote, a creator, two dispatchers and three workers
    started = eventually(lambda: pids if len(pids := family()) >= 7 else None, PATIENCE_S)
    kit.kill()

    eventually(lambda: not any(is_alive(pid) and is_python(pid) for pid in started), PATIENCE_S)


def is_python(pid: int) -> bool:
    try:
        return b"python" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
