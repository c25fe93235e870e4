"""One projection in the final transaction: all of it or nothing, once per job, and nobody else's transaction."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from outbox.base.errors import NaiveDatetimeError
from projectors import ArtifactRef, artifacts
from projectors.errors import (
    ProjectionConflict,
    ProjectionError,
    ProjectionOutputMismatch,
    ProjectionResultInvalid,
    ProjectionTransactionEnded,
)
from projectors.projection import project_output
from tests.projectors.samples import Scripted, Words, a_job

WORDS = Words(words=["secret"])
REFS = [ArtifactRef("word", "1"), ArtifactRef("word", "2", 1)]
ADD_WORD = sa.text("INSERT INTO word (id, body) VALUES (:id, :body)")


@pytest.fixture
def words(engine: sa.Engine) -> Any:
    """A business table of a host application."""
    with engine.begin() as conn:
        conn.execute(
            sa.text(
                "CREATE TABLE word (id INTEGER NOT NULL PRIMARY KEY, body VARCHAR(20) NOT NULL)"
            )
        )
    yield
    with engine.begin() as conn:
        conn.execute(sa.text("DROP TABLE word"))


def bodies(conn: sa.Connection) -> list[Any]:
    return list(conn.execute(sa.text("SELECT body FROM word ORDER BY id")).scalars())


def two_words(session: Session) -> list[ArtifactRef]:
    session.execute(ADD_WORD, [{"id": 1, "body": "one"}, {"id": 2, "body": "two"}])
    return REFS


@pytest.mark.usefixtures("words")
def test_rows_and_artifacts_are_one_fact(uow: UnitOfWork, clock: DatabaseClock) -> None:
    job = a_job()

    made = uow.run(lambda conn: project_output(conn, Scripted(two_words), job, WORDS, clock))

    assert made == REFS
    assert uow.read(bodies) == ["one", "two"]
    assert uow.read(lambda conn: artifacts.existing(conn, job.id)) == REFS


@pytest.mark.usefixtures("words")
def test_a_repeated_projection_returns_the_first_and_changes_nothing(
    uow: UnitOfWork, clock: DatabaseClock
) -> None:
    job, projector = a_job(), Scripted(two_words)
    uow.run(lambda conn: project_output(conn, projector, job, WORDS, clock))

    other = Words(words=["other"])
    again = uow.run(lambda conn: project_output(conn, projector, job, other, clock))

    assert again == REFS
    assert len(projector.calls) == 1
    assert uow.read(bodies) == ["one", "two"]


@pytest.mark.usefixtures("words")
def test_a_failing_projector_leaves_nothing(uow: UnitOfWork, clock: DatabaseClock) -> None:
    def fails(session: Session) -> list[ArtifactRef]:
        two_words(session)
        raise ValueError("the output was: secret")

    job = a_job()
    with pytest.raises(ProjectionError) as failed:
        uow.run(lambda conn: project_output(conn, Scripted(fails), job, WORDS, clock))

    assert (failed.value.code, failed.value.retryable) == ("PROJECTION_FAILED", True)
    assert str(failed.value) == "projector 'scripted': ValueError"
    assert uow.read(bodies) == []
    assert uow.read(lambda conn: artifacts.existing(conn, job.id)) == []


@pytest.mark.usefixtures("words")
def test_a_duplicate_of_anything_else_is_a_conflict(uow: UnitOfWork, clock: DatabaseClock) -> None:
    uow.run(lambda conn: project_output(conn, Scripted(two_words), a_job(), WORDS, clock))

    other = a_job()
    with pytest.raises(ProjectionConflict) as conflict:
        uow.run(lambda conn: project_output(conn, Scripted(two_words), other, WORDS, clock))

    assert conflict.value.code == "PROJECTION_CONFLICT"
    assert "secret" not in str(conflict.value)
    assert "one" not in str(conflict.value)
    assert uow.read(bodies) == ["one", "two"]
    assert uow.read(lambda conn: artifacts.existing(conn, other.id)) == []


@pytest.mark.usefixtures("words")
def test_a_conflict_found_while_flushing_is_a_conflict_too(
    uow: UnitOfWork, clock: DatabaseClock
) -> None:
    class Word:
        pass

    table = sa.Table("word", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    table.append_column(sa.Column("body", sa.String(20)))
    sa.orm.registry().map_imperatively(Word, table)

    def adds(session: Session) -> list[ArtifactRef]:
        word = Word()
        word.id, word.body = 1, "one"  # type: ignore[attr-defined]
        session.add(word)
        return REFS[:1]

    uow.run(lambda conn: project_output(conn, Scripted(adds), a_job(), WORDS, clock))
    assert uow.read(bodies) == ["one"]

    with pytest.raises(ProjectionConflict):
        uow.run(lambda conn: project_output(conn, Scripted(adds), a_job(), WORDS, clock))


@pytest.mark.usefixtures("words")
def test_a_missing_value_is_no_conflict(uow: UnitOfWork, clock: DatabaseClock) -> None:
    broken = Scripted(lambda session: session.execute(ADD_WORD, {"id": 1, "body": None}))

    with pytest.raises(ProjectionError) as failed:
        uow.run(lambda conn: project_output(conn, broken, a_job(), WORDS, clock))

    assert failed.value.code == "PROJECTION_FAILED"


def test_an_error_that_the_projector_swallowed_is_its_own(
    uow: UnitOfWork, clock: DatabaseClock
) -> None:
    """On PostgreSQL nothing works in this transaction any more; elsewhere the projector has got away with it."""

    def swallows(session: Session) -> list[ArtifactRef]:
        with suppress(sa.exc.DBAPIError):
            session.execute(sa.text("SELECT * FROM no_such_table"))
        return REFS

    def unit(conn: sa.Connection) -> None:
        project_output(conn, Scripted(swallows), a_job(), WORDS, clock)

    if uow.engine.dialect.name != "postgresql":
        uow.run(unit)
        return
    with pytest.raises(ProjectionError) as failed:
        uow.run(unit)
    assert failed.value.code == "PROJECTION_FAILED"


def test_an_error_of_ours_keeps_its_class(uow: UnitOfWork, clock: DatabaseClock) -> None:
    def fails(_session: Session) -> list[ArtifactRef]:
        raise ProjectionOutputMismatch("no words")

    with pytest.raises(ProjectionOutputMismatch, match="no words"):
        uow.run(lambda conn: project_output(conn, Scripted(fails), a_job(), WORDS, clock))


def test_a_broken_statement_is_not_a_conflict(uow: UnitOfWork, clock: DatabaseClock) -> None:
    broken = Scripted(lambda session: session.execute(sa.text("SELECT * FROM no_such_table")))

    with pytest.raises(ProjectionError) as failed:
        uow.run(lambda conn: project_output(conn, broken, a_job(), WORDS, clock))

    assert type(failed.value) is ProjectionError


@pytest.mark.parametrize("refs", [None, "word", {"a": 1}, iter(())])
def test_an_answer_that_is_no_list_is_refused(
    uow: UnitOfWork, clock: DatabaseClock, refs: Any
) -> None:
    with pytest.raises(ProjectionResultInvalid):
        uow.run(lambda conn: project_output(conn, Scripted(lambda _s: refs), a_job(), WORDS, clock))


@pytest.mark.usefixtures("words")
def test_a_projector_that_commits_decides_nothing(uow: UnitOfWork, clock: DatabaseClock) -> None:
    def commits(session: Session) -> list[ArtifactRef]:
        two_words(session)
        session.commit()
        return REFS

    def unit(conn: sa.Connection) -> None:
        project_output(conn, Scripted(commits), a_job(), WORDS, clock)
        raise NaiveDatetimeError("what comes later in the final transaction fails")

    with pytest.raises(NaiveDatetimeError):
        uow.run(unit)

    assert uow.read(bodies) == []


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_a_projector_that_ends_the_transaction_is_refused(
    uow: UnitOfWork, clock: DatabaseClock, end: str
) -> None:
    def ends(session: Session) -> list[ArtifactRef]:
        two_words(session)
        outer = session.connection().get_transaction()
        assert outer is not None
        getattr(outer, end)()
        return REFS

    job = a_job()
    with pytest.raises(ProjectionTransactionEnded):
        uow.run(lambda conn: project_output(conn, Scripted(ends), job, WORDS, clock))

    assert uow.read(lambda conn: artifacts.existing(conn, job.id)) == []


def test_a_projector_that_rolls_back_through_its_session_is_refused(
    uow: UnitOfWork, clock: DatabaseClock
) -> None:
    def rolls_back(session: Session) -> list[ArtifactRef]:
        session.execute(sa.text("SELECT 1"))
        session.rollback()
        return REFS

    with pytest.raises(ProjectionTransactionEnded):
        uow.run(lambda conn: project_output(conn, Scripted(rolls_back), a_job(), WORDS, clock))


@pytest.mark.usefixtures("words")
def test_contention_in_a_projector_repeats_the_whole_unit(
    engine: sa.Engine, uow: UnitOfWork, clock: DatabaseClock
) -> None:
    job = a_job()
    projector = Scripted(two_words)
    fail_once = _deadlock_once(engine, "INSERT INTO word")

    made = uow.run(lambda conn: project_output(conn, projector, job, WORDS, clock))

    assert fail_once == ["failed"]
    assert made == REFS
    assert len(projector.calls) == 2
    assert uow.read(bodies) == ["one", "two"]


def _deadlock_once(engine: sa.Engine, marker: str) -> list[str]:
    """Let the database's own deadlock error come up once, after a statement has been carried out."""
    failed: list[str] = []
    errors = {
        "sqlite": lambda raw: raw.OperationalError("database is locked"),
        "mariadb": lambda raw: raw.OperationalError(1213, "Deadlock found"),
        "postgresql": lambda raw: raw.errors.DeadlockDetected("deadlock detected"),
    }

    def after(conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if marker in statement and not failed:
            failed.append("failed")
            raw = conn.dialect.dbapi
            error = errors[conn.dialect.name](raw)
            raise sa.exc.OperationalError(statement, None, error)

    sa.event.listen(engine, "after_cursor_execute", after)
    return failed


ENDINGS = [
    "COMMIT", "  commit work", "/* a */ Commit", "-- a\nROLLBACK", "BEGIN", "START  TRANSACTION", "END",
    "SET autocommit = 1", "set @@session.autocommit=1", "ROLLBACK AND CHAIN",
]  # fmt: skip
COMMITTED_BY_MYSQL = ["TRUNCATE TABLE word", "CREATE TABLE other (id INTEGER)", "ALTER TABLE word ADD n INTEGER",
                      "DROP TABLE word", "RENAME TABLE word TO words", "LOCK TABLES word WRITE"]  # fmt: skip


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_statement_that_would_end_the_transaction_is_not_sent(
    uow: UnitOfWork, clock: DatabaseClock, swallowed: bool
) -> None:
    """What was written before it is rolled back with all the rest, and never stands without its job."""
    refused = list(ENDINGS)
    if uow.engine.dialect.name in ("mysql", "mariadb"):
        refused += COMMITTED_BY_MYSQL

    def sends(statement: str) -> Any:
        def send(session: Session) -> list[ArtifactRef]:
            two_words(session)
            try:
                session.execute(sa.text(statement))
            except ProjectionTransactionEnded:
                if not swallowed:
                    raise
            return REFS

        return send

    def unit(conn: sa.Connection, statement: str) -> None:
        project_output(conn, Scripted(sends(statement)), a_job(), WORDS, clock)
        raise NaiveDatetimeError("what comes later in the final transaction fails")

    for statement in refused:
        with pytest.raises(NaiveDatetimeError if swallowed else ProjectionTransactionEnded):
            uow.run(lambda conn, statement=statement: unit(conn, statement))  # type: ignore[misc]
        assert uow.read(bodies) == [], statement


@pytest.mark.usefixtures("words")
def test_savepoints_and_temporary_tables_are_a_projectors_own(
    uow: UnitOfWork, clock: DatabaseClock
) -> None:
    def writes(session: Session) -> list[ArtifactRef]:
        session.execute(sa.text("CREATE TEMPORARY TABLE beside (id INTEGER)"))
        with session.begin_nested():
            two_words(session)
        undone = session.begin_nested()
        session.execute(sa.text("DELETE FROM word"))
        undone.rollback()
        session.execute(sa.text("SAVEPOINT mine"))
        session.execute(sa.text("DELETE FROM word"))
        session.execute(sa.text("ROLLBACK TO SAVEPOINT mine"))
        return REFS

    uow.run(lambda conn: project_output(conn, Scripted(writes), a_job(), WORDS, clock))

    assert uow.read(bodies) == ["one", "two"]


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("swallowed", [False, True])
@pytest.mark.parametrize("of", ["connection", "transaction"])
def test_a_commit_past_the_session_stores_nothing(
    uow: UnitOfWork, clock: DatabaseClock, of: str, swallowed: bool
) -> None:
    """The job would otherwise stand as succeeded, which nothing can undo, without its output."""

    def commits(session: Session) -> list[ArtifactRef]:
        two_words(session)
        conn = session.connection()
        try:
            (conn if of == "connection" else conn.get_transaction()).commit()  # type: ignore[union-attr]
        except ProjectionTransactionEnded:
            if not swallowed:
                raise
        return REFS

    with pytest.raises(ProjectionTransactionEnded):
        uow.run(lambda conn: project_output(conn, Scripted(commits), a_job(), WORDS, clock))

    # On the same pooled connection, which would carry on what is left open.
    uow.run(lambda conn: conn.execute(sa.text("SELECT 1")).all())
    assert uow.read(bodies) == []
