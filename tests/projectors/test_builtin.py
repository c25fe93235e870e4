"""The built-in projectors: each output becomes its rows, once per job, owned by the job."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.orm import Session

from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork
from projectors import ResultProjector, artifacts
from projectors.builtin.flashcards import FlashcardProjector
from projectors.builtin.learning_analysis import LearningAnalysisProjector
from projectors.builtin.quiz_questions import QuizQuestionProjector
from projectors.builtin.rows import RowProjector
from projectors.errors import ProjectionOutputMismatch
from projectors.projection import project_output
from tests.projectors.samples import ANALYSIS, CARDS, QUIZ, Words, a_job

EACH = pytest.mark.parametrize(
    ("projector", "output"),
    [
        pytest.param(FlashcardProjector(), CARDS, id="flashcards"),
        pytest.param(QuizQuestionProjector(), QUIZ, id="quiz"),
        pytest.param(LearningAnalysisProjector(), ANALYSIS, id="analysis"),
    ],
)


def test_cards_become_rows(uow: UnitOfWork, clock: DatabaseClock) -> None:
    job = a_job()

    refs = uow.run(lambda conn: project_output(conn, FlashcardProjector(), job, CARDS, clock))

    first, second = rows(uow, FlashcardProjector())
    assert (first["front"], first["back"]) == ("光合作用 needs?", "light 🌞")
    assert (first["source"], second["source"]) == ("plants need light", None)
    assert [row["ordinal"] for row in (first, second)] == [0, 1]
    assert {(row["job_id"], row["user_id"]) for row in (first, second)} == {(job.id, "ann")}
    assert {(row["target_type"], row["target_id"]) for row in (first, second)} == {
        ("document", "d-1")
    }
    assert [(ref.artifact_type, ref.artifact_id, ref.ordinal) for ref in refs] == [
        ("flashcard", str(first["id"]), 0),
        ("flashcard", str(second["id"]), 1),
    ]


def test_questions_become_rows(uow: UnitOfWork, clock: DatabaseClock) -> None:
    uow.run(lambda conn: project_output(conn, QuizQuestionProjector(), a_job(), QUIZ, clock))

    first, second = rows(uow, QuizQuestionProjector())
    assert first["question"] == "What do plants need?"
    assert json.loads(first["options"]) == QUIZ.questions[0].options
    assert (first["correct_index"], second["correct_index"]) == (0, 1)
    assert (first["explanation"], second["explanation"]) == ("They do.", None)


def test_a_judgement_becomes_one_row(uow: UnitOfWork, clock: DatabaseClock) -> None:
    uow.run(
        lambda conn: project_output(conn, LearningAnalysisProjector(), a_job(), ANALYSIS, clock)
    )

    (row,) = rows(uow, LearningAnalysisProjector())
    assert (row["verdict"], row["score"]) == ("partial", 0.1)
    assert (row["matched"], row["missing"]) == ('["light","水"]', "[]")
    assert row["feedback"] == "Nearly — 好 👍"


@EACH
def test_a_repeated_projection_changes_nothing(
    uow: UnitOfWork, clock: DatabaseClock, projector: RowProjector, output: BaseModel
) -> None:
    job = a_job()
    first = uow.run(lambda conn: project_output(conn, projector, job, output, clock))
    before = rows(uow, projector)

    again = uow.run(lambda conn: project_output(conn, projector, job, output, clock))

    assert again == first
    assert rows(uow, projector) == before


@EACH
def test_a_projector_itself_finds_what_it_wrote_for_the_job(
    uow: UnitOfWork, projector: RowProjector, output: BaseModel
) -> None:
    job = a_job()

    def project(conn: sa.Connection) -> Any:
        conn.begin()  # else the session would begin, and so end, a transaction of its own
        with Session(conn, join_transaction_mode="rollback_only") as session:
            return projector.project(session, job, output)

    first, again = uow.run(project), uow.run(project)

    assert again == first
    assert len(rows(uow, projector)) == len(first) > 0


@EACH
def test_equal_outputs_of_two_users_stay_apart(
    uow: UnitOfWork, clock: DatabaseClock, projector: RowProjector, output: BaseModel
) -> None:
    ann, bob = a_job(user_id="ann"), a_job(user_id="bob")

    of_ann = uow.run(lambda conn: project_output(conn, projector, ann, output, clock))
    of_bob = uow.run(lambda conn: project_output(conn, projector, bob, output, clock))

    assert {ref.artifact_id for ref in of_ann}.isdisjoint(ref.artifact_id for ref in of_bob)
    owners = {str(row["id"]): row["user_id"] for row in rows(uow, projector)}
    assert {owners[ref.artifact_id] for ref in of_ann} == {"ann"}
    assert {owners[ref.artifact_id] for ref in of_bob} == {"bob"}
    assert uow.read(lambda conn: artifacts.existing(conn, bob.id)) == of_bob


@EACH
def test_an_output_of_another_shape_is_refused_by_name(
    uow: UnitOfWork, clock: DatabaseClock, projector: ResultProjector, output: BaseModel
) -> None:
    with pytest.raises(ProjectionOutputMismatch, match="the output has no") as refused:
        uow.run(lambda conn: project_output(conn, projector, a_job(), Words(words=[]), clock))

    assert not refused.value.retryable


def test_fifty_cards_of_many_jobs_are_told_apart(uow: UnitOfWork, clock: DatabaseClock) -> None:
    many = CARDS.model_copy(update={"cards": list(CARDS.cards) * 25})
    first = a_job()
    second = replace(a_job(), user_id="bob")

    def project(conn: sa.Connection) -> list[int]:
        made = [
            project_output(conn, FlashcardProjector(), job, many, clock) for job in (first, second)
        ]
        return [ref.ordinal for refs in made for ref in refs]

    assert uow.run(project) == [*range(50), *range(50)]
    assert len(rows(uow, FlashcardProjector())) == 100


def rows(uow: UnitOfWork, projector: RowProjector) -> list[Any]:
    everything = sa.select(projector.table).order_by("user_id", "ordinal")
    return uow.read(lambda conn: list(conn.execute(everything).mappings()))
