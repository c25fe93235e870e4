"""The migrations and the models make the same tables, and the tables hold what the models allow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from engine.migrations import runner
from engine.migrations.scope import METADATA, MODELS, TABLES
from tests.engine.migrations.tables import described, largest
from tests.support.migrated import engine_for


def test_migrated_tables_equal_the_models(engine: sa.Engine, second_engine: sa.Engine) -> None:
    runner.upgrade(engine)
    METADATA.create_all(second_engine, tables=MODELS)

    migrated, modelled = described(engine), described(second_engine)

    assert set(migrated) == TABLES
    for table in TABLES:
        assert migrated[table] == modelled[table], table


def test_every_model_of_the_packages_is_migrated(project_root: Path) -> None:
    declaration = re.compile(r'= (?:sa\.Table\(\s*"(?=\w+",\s*METADATA,)|owned_table\(\s*")(\w+)"')
    packages = ("outbox", "projectors", "engine")
    declared = [
        name
        for package in packages
        for path in (project_root / package).rglob("*.py")
        for name in declaration.findall(path.read_text())
    ]

    assert sorted(declared) == sorted(TABLES)


def test_check_finds_nothing_after_an_upgrade(engine: sa.Engine) -> None:
    runner.upgrade(engine)

    assert runner.check(engine) == []


def test_check_names_everything_that_is_missing_before_an_upgrade(engine: sa.Engine) -> None:
    found = runner.check(engine)

    assert f"the revision is None, this release needs {runner.head()}" in found
    assert {f"table {name} is missing" for name in TABLES} <= set(found)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "DROP INDEX ix_outbox_event_due{on}",
            "index ix_outbox_event_due of outbox_event is missing",
        ),
        ("DROP TABLE ai_job_claim", "table ai_job_claim is missing"),
        ("ALTER TABLE ai_job DROP COLUMN progress_note", "column ai_job.progress_note is missing"),
        (
            "ALTER TABLE ai_job ADD COLUMN shoe_size INTEGER",
            "column ai_job.shoe_size is not in the models",
        ),
    ],
)
def test_check_finds_each_kind_of_difference(
    engine: sa.Engine, statement: str, sentence: str
) -> None:
    runner.upgrade(engine)
    on = " ON outbox_event" if engine.dialect.name == "mariadb" else ""
    with engine.begin() as conn:
        conn.exec_driver_sql(statement.format(on=on))

    assert runner.check(engine) == [sentence]


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        (
            "mariadb",
            "MODIFY target_id VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
            "ai_job.target_id: type is VARCHAR",
        ),
        (
            "mariadb",
            "MODIFY target_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL",
            "ai_job.target_id: nullable is True, should be False",
        ),
        (
            "mariadb",
            "MODIFY target_id VARCHAR(255) CHARACTER SET latin1 NOT NULL",
            "ai_job.target_id: type is VARCHAR",
        ),
        (
            "postgresql",
            "ALTER COLUMN target_id TYPE VARCHAR(100)",
            "ai_job.target_id: type is VARCHAR",
        ),
        (
            "postgresql",
            "ALTER COLUMN target_id DROP NOT NULL",
            "ai_job.target_id: nullable is True, should be False",
        ),
    ],
)
def test_check_finds_a_column_of_another_kind(
    request: pytest.FixtureRequest, kind: str, change: str, sentence: str
) -> None:
    with engine_for(request.getfixturevalue(f"{kind}_url")) as engine:
        runner.upgrade(engine)
        with engine.begin() as conn:
            conn.exec_driver_sql(f"ALTER TABLE ai_job {change}")

        (found,) = runner.check(engine)

    assert found.startswith(sentence)


def test_check_finds_a_table_of_another_character_set(mariadb_url: str) -> None:
    with engine_for(mariadb_url) as engine:
        runner.upgrade(engine)
        with engine.begin() as conn:
            conn.exec_driver_sql("ALTER TABLE flashcard CONVERT TO CHARACTER SET latin1")

        found = runner.check(engine)

    assert "flashcard.front: collation is latin1_swedish_ci, should be utf8mb4_bin" in found
    assert "flashcard.user_id: collation is latin1_swedish_ci, should be utf8mb4_bin" in found


def test_every_column_holds_the_largest_value_that_the_models_allow(engine: sa.Engine) -> None:
    runner.upgrade(engine)

    for table in MODELS:
        row = {column.name: largest(column) for column in table.columns}
        with engine.begin() as conn:
            conn.execute(sa.insert(table), row)
            (stored,) = conn.execute(sa.select(table)).mappings()

        assert dict(stored) == row, table.name


def test_columns_that_may_be_empty_are_found_by_is_null(engine: sa.Engine) -> None:
    runner.upgrade(engine)

    for table in MODELS:
        row = {
            column.name: None if column.nullable else largest(column) for column in table.columns
        }
        empty = [column.is_(None) for column in table.columns if column.nullable]
        with engine.begin() as conn:
            conn.execute(sa.insert(table), row)
            found = conn.execute(sa.select(sa.func.count()).select_from(table).where(*empty))

            assert found.scalar_one() == 1, table.name
