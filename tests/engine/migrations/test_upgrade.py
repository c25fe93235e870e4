"""Upgrading: once, completely, by one process at a time, from wherever a killed one stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from engine.migrations import runner
from engine.migrations.errors import MigrationBusy, TableInTheWay, UnknownRevision
from engine.migrations.lock import migrating
from engine.migrations.scope import METADATA, MODELS, TABLES, VERSION_TABLE
from outbox.base.db import create_engine_for
from outbox.base.errors import DatabaseUrlError, UnpreparedConnectionError
from tests.engine.migrations.tables import described, largest
from tests.support.migrated import engine_for
from tests.support.processes import Child, Children
from tests.support.wait import eventually

REVISIONS = ["0001", "0002"]


def test_an_upgrade_is_applied_once(engine: sa.Engine) -> None:
    assert runner.current(engine) is None

    assert runner.upgrade(engine) == REVISIONS
    assert runner.current(engine) == runner.head()
    assert runner.upgrade(engine) == []


def test_an_upgrade_leaves_the_engine_as_it_was(engine: sa.Engine) -> None:
    before = session_settings(engine)

    runner.upgrade(engine)

    assert session_settings(engine) == before


def test_rows_of_an_older_revision_are_kept(engine: sa.Engine) -> None:
    runner.upgrade(engine, "0001")
    present = set(sa.inspect(engine).get_table_names())
    older = [table for table in MODELS if table.name in present]
    rows = {table.name: {column.name: largest(column) for column in table.columns} for table in older}
    with engine.begin() as conn:
        for table in older:
            conn.execute(sa.insert(table), rows[table.name])

    assert runner.upgrade(engine) == REVISIONS[1:]

    assert runner.check(engine) == []
    with engine.connect() as conn:
        for table in older:
            assert dict(conn.execute(sa.select(table)).mappings().one()) == rows[table.name], table.name


def test_tables_made_by_hand_are_stamped(engine: sa.Engine) -> None:
    METADATA.create_all(engine, tables=MODELS)

    runner.stamp(engine)

    assert runner.current(engine) == runner.head()
    assert runner.check(engine) == []


def test_the_written_sql_makes_the_same_tables(engine: sa.Engine, second_engine: sa.Engine) -> None:
    runner.upgrade(second_engine)
    script = runner.sql(str(engine.url))

    with engine.connect() as conn:
        for statement in statements(script):
            conn.exec_driver_sql(statement)
        conn.commit()

    assert described(engine) == described(second_engine)
    assert runner.current(engine) == runner.head()
    assert runner.check(engine) == []


def test_sql_can_be_written_without_a_driver_or_a_server() -> None:
    assert "CREATE TABLE ai_job " in runner.sql("mysql://")
    assert "utf8mb4" in runner.sql("mariadb://db.invalid/shop")
    assert "utf8mb4" not in runner.sql("postgresql://")
    with pytest.raises(DatabaseUrlError):
        runner.sql("no database")


def test_every_table_names_its_character_set() -> None:
    created = [part for part in statements(runner.sql("mysql://")) if "CREATE TABLE" in part]

    ours = [part for part in created if VERSION_TABLE not in part]
    assert len(ours) == len(TABLES)
    assert all("CHARSET=utf8mb4 COLLATE utf8mb4_bin" in part for part in ours)


def test_text_survives_a_database_that_defaults_to_latin1(mariadb_url: str) -> None:
    with engine_for(mariadb_url) as engine:
        with engine.begin() as conn:
            conn.exec_driver_sql("ALTER DATABASE CHARACTER SET latin1 COLLATE latin1_swedish_ci")

        runner.upgrade(engine)

        table = METADATA.tables["flashcard"]
        text = "测验 🎓 naïve"
        values = {"front": text, "back": text, "user_id": text, "target_type": text}
        row = values | {"id": UUID(int=1), "job_id": UUID(int=2), "target_id": text, "ordinal": 0}
        with engine.begin() as conn:
            conn.execute(sa.insert(table), row)
            stored = conn.execute(sa.select(table)).mappings().one()
        assert {name: stored[name] for name in values} == values


@pytest.mark.parametrize("driver", ["mysql+pymysql", "mariadb+pymysql"])
def test_both_spellings_of_the_url_make_the_same_tables(mariadb_url: str, driver: str) -> None:
    url = mariadb_url.replace("mariadb+pymysql", driver)

    with engine_for(url) as engine:
        runner.upgrade(engine)

        assert runner.check(engine) == []
    with engine_for(mariadb_url) as engine:
        assert runner.check(engine) == []


# -- killed in the middle ---------------------------------------------------------------------------


class Killed(Exception):
    """Stands for the end of the process."""


def dies_before_create(engine: sa.Engine, number: int) -> Callable[[], None]:
    """Make the engine fail before its CREATE statement of this number; returns the undoing."""
    seen = 0

    def before(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal seen
        if statement.lstrip().startswith("CREATE"):
            seen += 1
            if seen == number:
                raise Killed

    sa.event.listen(engine, "before_cursor_execute", before)
    return lambda: sa.event.remove(engine, "before_cursor_execute", before)


def test_a_killed_upgrade_leaves_nothing_or_is_completed(engine: sa.Engine) -> None:
    runs = 0
    while True:
        runs += 1
        # the version table and one step of the migration; then the end
        heal = dies_before_create(engine, 3 if runs == 1 else 2)
        try:
            runner.upgrade(engine)
            break
        except Killed:
            assert runner.current(engine) is None
        finally:
            heal()
        if engine.dialect.name != "mariadb":
            assert described(engine) == {}
            runner.upgrade(engine)
            break
    assert runner.check(engine) == []
    if engine.dialect.name == "mariadb":
        assert runs > len(TABLES), "each run went on where the one before was killed"


def test_a_table_of_somebody_else_is_refused_and_left_alone(engine: sa.Engine) -> None:
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE flashcard (id INTEGER NOT NULL, owner VARCHAR(9))")
        conn.exec_driver_sql("INSERT INTO flashcard VALUES (7, 'host')")

    with pytest.raises(TableInTheWay) as refused:
        runner.upgrade(engine)

    assert refused.value.details == {"table": "flashcard"}
    assert runner.current(engine) is None
    with engine.connect() as conn:
        assert conn.exec_driver_sql("SELECT id, owner FROM flashcard").all() == [(7, "host")]
    if engine.dialect.name != "mariadb":
        assert set(described(engine)) == {"flashcard"}


# -- revisions --------------------------------------------------------------------------------------


def test_an_unknown_revision_is_refused(engine: sa.Engine) -> None:
    with pytest.raises(UnknownRevision):
        runner.upgrade(engine, "no-such-revision")

    assert described(engine) == {}


def test_a_database_of_a_newer_release_is_not_touched(engine: sa.Engine) -> None:
    runner.upgrade(engine)
    with engine.begin() as conn:
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")

    with pytest.raises(UnknownRevision):
        runner.upgrade(engine)

    assert runner.current(engine) == "9999"
    assert runner.check(engine) == [f"the revision is 9999, this release needs {REVISIONS[-1]}"]


# -- several at once --------------------------------------------------------------------------------


def upgrade_when_told(url: str) -> None:
    """In a child process: say when ready, upgrade, and print what was applied."""
    engine = create_engine_for(url)
    print("ready", flush=True)
    print(f"applied {runner.upgrade(engine)}", flush=True)


def test_processes_that_upgrade_at_once_all_succeed(
    database_url: str, engine: sa.Engine, children: Children
) -> None:
    with migrating(engine):
        started = [children.call(upgrade_when_told, database_url) for _ in range(3)]
        for child in started:
            child.wait_for_output("ready")
        eventually(lambda: waiting(engine) in (3, None), message="the children wait for the lock")

    applied = sorted(last_line(child) for child in started)

    assert applied == [f"applied {REVISIONS}", "applied []", "applied []"]
    assert runner.check(engine) == []


def test_a_migration_that_does_not_end_is_reported(database_url: str, engine: sa.Engine) -> None:
    with (
        migrating(engine),
        engine_for(database_url) as other,
        pytest.raises(MigrationBusy) as busy,
    ):
        runner.upgrade(other, wait_s=0)

    assert busy.value.retryable
    assert runner.upgrade(engine) == REVISIONS


def test_sqlite_without_immediate_transactions_is_refused(sqlite_url: str) -> None:
    engine = sa.create_engine(sqlite_url)

    with pytest.raises(UnpreparedConnectionError, match="prepare_engine"):
        runner.upgrade(engine)


# -- helpers ----------------------------------------------------------------------------------------


def last_line(child: Child) -> str:
    return child.check(timeout=60).splitlines()[-1]


def waiting(engine: sa.Engine) -> int | None:
    """How many sessions wait for the migration lock; None where the database cannot tell."""
    queries = {
        "mariadb": "SELECT COUNT(*) FROM information_schema.processlist "
        "WHERE db = DATABASE() AND state = 'User lock'",
        "postgresql": "SELECT COUNT(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event = 'advisory'",
    }
    query = queries.get(engine.dialect.name)
    if query is None:
        return None
    with engine.connect() as conn:
        return int(conn.exec_driver_sql(query).scalar_one())


def session_settings(engine: sa.Engine) -> list[Any]:
    queries = {
        "sqlite": ["PRAGMA busy_timeout", "PRAGMA journal_mode"],
        "mariadb": ["SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout"],
        "postgresql": ["SHOW lock_timeout", "SHOW statement_timeout"],
    }
    with engine.connect() as conn:
        return [conn.exec_driver_sql(query).all() for query in queries[engine.dialect.name]]


def statements(script: str) -> list[str]:
    """The script's statements, as a person would paste them one by one."""
    code = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
    parts = [part.strip() for part in code.split(";")]
    return [part for part in parts if part and part not in ("BEGIN", "COMMIT")]
