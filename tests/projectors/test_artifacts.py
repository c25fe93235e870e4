"""Artifacts of a job are recorded once, in their order, alike on every database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.ids import new_id
from projectors import ArtifactRef, artifacts
from projectors.artifacts import AI_JOB_ARTIFACT
from projectors.errors import ProjectionResultInvalid
from tests.support.migrated import MIGRATED, engine_for, migrate

REFS = [ArtifactRef("card", "b", 0), ArtifactRef("card", "a", 1), ArtifactRef("note", "a", 2)]


def test_artifacts_are_returned_in_their_order(uow: UnitOfWork, clock: DatabaseClock) -> None:
    job_id = new_id()

    recorded = uow.run(lambda conn: artifacts.record(conn, job_id, REFS[::-1], clock))

    assert recorded == REFS
    assert uow.read(lambda conn: artifacts.existing(conn, job_id)) == REFS


def test_recording_again_changes_nothing(uow: UnitOfWork, clock: DatabaseClock) -> None:
    job_id = new_id()
    uow.run(lambda conn: artifacts.record(conn, job_id, REFS, clock))
    before = uow.read(all_rows)
    clock.advance(5_000)

    again = [replace(ref, ordinal=ref.ordinal + 7) for ref in REFS]
    recorded = uow.run(lambda conn: artifacts.record(conn, job_id, again, clock))

    assert recorded == REFS
    assert uow.read(all_rows) == before


def test_recording_again_leaves_the_transaction_usable(
    uow: UnitOfWork, clock: DatabaseClock
) -> None:
    job_id = new_id()
    uow.run(lambda conn: artifacts.record(conn, job_id, REFS[:1], clock))

    def unit(conn: sa.Connection) -> list[ArtifactRef]:
        artifacts.record(conn, job_id, REFS[:1], clock)
        return artifacts.record(conn, job_id, REFS, clock)

    assert uow.run(unit) == REFS


def test_jobs_have_their_own_artifacts(uow: UnitOfWork, clock: DatabaseClock) -> None:
    first, second = new_id(), new_id()

    uow.run(lambda conn: artifacts.record(conn, first, REFS, clock))
    uow.run(lambda conn: artifacts.record(conn, second, REFS[:1], clock))

    assert uow.read(lambda conn: artifacts.existing(conn, first)) == REFS
    assert uow.read(lambda conn: artifacts.existing(conn, second)) == REFS[:1]


def test_two_artifacts_may_have_one_ordinal(uow: UnitOfWork, clock: DatabaseClock) -> None:
    refs = [ArtifactRef("card", "a", 0), ArtifactRef("card", "b", 0)]

    assert uow.run(lambda conn: artifacts.record(conn, new_id(), refs, clock)) == refs


def test_a_job_without_artifacts_has_an_empty_list(uow: UnitOfWork, clock: DatabaseClock) -> None:
    job_id = new_id()

    assert uow.run(lambda conn: artifacts.record(conn, job_id, [], clock)) == []
    assert uow.read(lambda conn: artifacts.existing(conn, job_id)) == []


def test_ids_that_differ_in_case_or_accent_are_different(
    uow: UnitOfWork, clock: DatabaseClock
) -> None:
    refs = [
        ArtifactRef("card", text, n) for n, text in enumerate(["a", "A", "ä", "\uff41", "文🎓"])
    ]

    assert uow.run(lambda conn: artifacts.record(conn, new_id(), refs, clock)) == refs


def test_the_longest_names_are_kept_whole(uow: UnitOfWork, clock: DatabaseClock) -> None:
    refs = [ArtifactRef("t" * 64, "🎓" * 255, 2**31 - 1)]

    assert uow.run(lambda conn: artifacts.record(conn, new_id(), refs, clock)) == refs


@pytest.mark.parametrize(
    "ref",
    [
        ArtifactRef("", "a"),
        ArtifactRef("t" * 65, "a"),
        ArtifactRef("färbung", "a"),
        ArtifactRef("two words", "a"),
        ArtifactRef("card", ""),
        ArtifactRef("card", "a" * 256),
        ArtifactRef("card", "a "),
        ArtifactRef("card", " a"),
        ArtifactRef("card", "a\x00b"),
        ArtifactRef("card", "a\ud800"),
        ArtifactRef("card", "a", 2**31),
        ArtifactRef("card", "a", True),
        ArtifactRef("card", "a", 1.0),  # type: ignore[arg-type]
        ArtifactRef("card", 7),  # type: ignore[arg-type]
        ("card", "a", 0),
    ],
)
def test_what_a_database_might_not_keep_is_refused_on_all(
    sqlite_conn: sa.Connection, clock: DatabaseClock, ref: Any
) -> None:
    with pytest.raises(ProjectionResultInvalid):
        artifacts.record(sqlite_conn, new_id(), [ArtifactRef("card", "good"), ref], clock)

    assert all_rows(sqlite_conn) == []


def test_a_reference_that_comes_twice_is_refused(
    sqlite_conn: sa.Connection, clock: DatabaseClock
) -> None:
    refs = [ArtifactRef("card", "a", 0), ArtifactRef("card", "a", 1)]

    with pytest.raises(ProjectionResultInvalid, match="artifact 1 names the same row"):
        artifacts.record(sqlite_conn, new_id(), refs, clock)


def all_rows(conn: sa.Connection) -> list[Any]:
    return list(conn.execute(sa.select(AI_JOB_ARTIFACT)).all())


@pytest.fixture
def sqlite_conn(databases: Any) -> Any:
    pool = databases("sqlite")
    url = pool.prepared(MIGRATED, migrate)
    with engine_for(url) as engine, engine.connect() as conn:
        yield conn
    pool.give_back(MIGRATED, url)
