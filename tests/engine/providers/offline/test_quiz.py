"""Multiple-choice questions from a text, without a model."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import SourceTextUnusable
from engine.providers.offline.choice import gives_away, key_of
from engine.providers.offline.options import Options
from engine.providers.offline.quiz import make_quiz
from engine.providers.offline.stems import fold
from registry.catalog.quiz_generation import QuizOutput
from tests.engine.providers.offline.test_flashcards import PROSE
from tests.engine.providers.offline.texts import BIOLOGY, CHINESE, GERMAN, HISTORY, ODD

JUDGED = ({"True", "False"}, {"正确", "错误"}, {"✓", "✗"})


def quiz_of(text: str, most: int = 20) -> list[dict[str, Any]]:
    made = make_quiz(text, max_questions=most)
    QuizOutput.model_validate(made)
    questions: list[dict[str, Any]] = made["questions"]
    assert 1 <= len(questions) <= most
    return questions


def right(question: dict[str, Any]) -> str:
    return str(question["options"][question["correct_index"]])


def find(text: str, words: str) -> dict[str, Any]:
    return next(question for question in quiz_of(text) if words in question["question"])


@pytest.mark.parametrize("text", [BIOLOGY, HISTORY, CHINESE, GERMAN])
def test_options_differ_and_the_question_does_not_tell_the_answer(text: str) -> None:
    questions = quiz_of(text)
    assert len({key_of(q["question"]) for q in questions}) == len(questions)
    for question in questions:
        folded = [fold(option) for option in question["options"]]
        assert len(set(folded)) == len(folded) >= 2
        if set(question["options"]) not in JUDGED:
            assert not gives_away(question["question"], right(question))
        for wrong in set(question["options"]) - {right(question)}:
            # A wrong option that stands in the sentence itself would be no wrong option.
            assert not re.search(
                rf"(?<!\w){re.escape(fold(wrong))}(?!\w)", fold(question["source_quote"])
            )


def test_years_stand_among_years() -> None:
    question = find(HISTORY, "When did Alexander Fleming discover penicillin?")
    assert right(question) == "1928"
    assert all(re.fullmatch(r"[12]\d{3}", option) for option in question["options"])
    assert {"1961", "1987", "1989", "1903"} & set(question["options"])


def test_people_stand_among_people() -> None:
    question = find(HISTORY, "Who fits this description: “a Polish physicist")
    assert right(question) == "Marie Curie"
    assert set(question["options"]) <= {"Marie Curie", "Ronald Reagan", "Alexander Fleming"}


def test_quantities_keep_their_unit() -> None:
    question = find(HISTORY, "How long was the Wall?")
    assert right(question) == "155 kilometres"
    assert all(option.endswith(" kilometres") for option in question["options"])
    assert len(question["options"]) == 4


def test_terms_stand_among_terms_of_the_text() -> None:
    question = find(BIOLOGY, "Which term fits this description: “the process by which")
    assert right(question) == "Photosynthesis"
    assert len(question["options"]) == 4
    assert all(
        option.lower() in BIOLOGY.lower().replace("\n", " ") for option in question["options"]
    )


def test_percentages_that_are_made_up_stay_percentages() -> None:
    question = find("Photosynthesis makes about 70% of the oxygen in the air.", "_____")
    assert right(question) == "70%"
    assert all(0 < float(option.rstrip("%")) <= 100 for option in question["options"])


def test_position_of_the_right_option_varies_evenly() -> None:
    positions = [q["correct_index"] for q in quiz_of(HISTORY + BIOLOGY) if len(q["options"]) == 4]
    assert len(positions) >= 8
    assert max(map(positions.count, range(4))) <= len(positions) // 2
    assert len(set(positions)) == 4


def test_chinese_is_asked_in_chinese() -> None:
    questions = quiz_of(CHINESE)
    assert all(re.search(r"[\u4e00-\u9fff]", q["question"]) for q in questions)
    assert right(find(CHINESE, "始建于什么时候")) == "公元前7世纪"


def test_text_with_nothing_to_choose_from_is_judged() -> None:
    (question,) = quiz_of("Silence helps.")
    assert question["question"] == "True or false? Silence helps."
    assert right(question) == "True"


@pytest.mark.parametrize("name", ODD)
def test_any_text_gives_valid_questions_or_is_refused_by_name(name: str) -> None:
    try:
        quiz_of(ODD[name])
    except SourceTextUnusable:
        assert name in (
            "one letter",
            "two words",
            "only links",
            "question",
            "list",
            "table",
            "no spaces",
        )


@pytest.mark.parametrize("answer", ["cell", "Cell", "CELLS", "the cell", "a cell", "cell's"])
def test_option_that_means_the_answer_is_never_a_wrong_one(answer: str) -> None:
    things = Options(
        [
            ("cell", "term"),
            ("Cells", "term"),
            ("the cell", "term"),
            ("plant cell", "term"),
            ("leaf", "term"),
        ]
    )
    assert things.wrong(answer, "term", "What is it?", "") == ["leaf"]


@given(st.one_of(st.text(min_size=1, max_size=300), PROSE))
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_no_text_breaks_it(text: str) -> None:
    try:
        made = make_quiz(text, max_questions=10)
    except SourceTextUnusable:
        return
    for question in QuizOutput.model_validate(made).questions:
        assert len({option.casefold() for option in question.options}) == len(question.options)
