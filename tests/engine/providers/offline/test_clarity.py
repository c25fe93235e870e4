"""Cards and questions are understood without the text, and say something."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from engine.providers.offline.choice import holds_formula
from engine.providers.offline.english.clarity import points_elsewhere, says_nothing
from engine.providers.offline.facts import GAP
from tests.engine.providers.offline.test_flashcards import asked, cards_of
from tests.engine.providers.offline.test_quiz import quiz_of

DEMO = files("engine.cli").joinpath("demo_text.md").read_text(encoding="utf-8")
WETLANDS = """\
# Wetlands
Wetlands store water after heavy rain. Reeds slow the flow. The ponds also trap sediment: the mud settles on the
bottom. Wetlands release water: this keeps rivers alive. A marsh is a wetland without trees. A bog is a wetland that
gets its water from rain. A fen is a wetland that is fed by springs. Peat is partly decayed plant matter.
"""
STATISTICS = """\
# Statistics
The formula is $n = k + d$. The **variance** measures the spread of the values around the mean. The median is the
middle value of a sorted list. Use `np.mean(x)` for the mean. Opening the file returns a handle. Measure twice. The
standard deviation is the square root of the variance. Stat is short. The range is the largest value minus the least.
"""


def test_first_ten_cards_of_the_demo_text_are_whole_questions() -> None:
    cards = cards_of(DEMO, 10)
    assert len(cards) == 10
    for card in cards:
        assert card["front"].endswith("?")
        assert GAP not in card["front"]
        assert not re.search(
            r"\b(?:it|its|this|these|such|same)\b", f"{card['front']} {card['back']}"
        )
        assert card["back"][0].isupper() or card["back"][0].isdigit()


def test_first_five_questions_of_the_demo_text_have_four_options_of_one_kind() -> None:
    questions = quiz_of(DEMO, 5)
    assert len(questions) == 5
    assert len({question["question"].split()[0] for question in questions}) > 1
    for question in questions:
        assert GAP not in question["question"]
        assert len(question["options"]) == 4
        assert len({option.isdigit() for option in question["options"]}) == 1


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("James Cook took a copy of it on his second voyage.", "copy of it"),
        ("Satellite navigation rests on the same thought.", "What rests"),
        ("Modern receivers depend on this signal.", "depend on"),
        ("Carl Linnaeus published such a list.", "such"),
    ],
)
def test_question_with_a_dangling_reference_is_not_asked(sentence: str, words: str) -> None:
    for front, back in asked(f"{sentence} The human body has 206 bones.").items():
        assert words not in f"{front} {back}" or GAP in front


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is a bog?", "A wetland that gets its water from rain"),
        ("Why is the sky blue?", "Because it scatters short waves"),
        ("What are isotopes?", "Atoms of the same element with different masses"),
        ("What are citrus fruits?", "Fruits such as lemons"),
        ("What does a metal do when it is heated?", "Expand"),
    ],
)
def test_reference_inside_the_card_is_no_dangling_one(question: str, answer: str) -> None:
    assert not points_elsewhere(question, answer)


@pytest.mark.parametrize("answer", ["A site", "A thing", "One", "The place", "It"])
def test_answer_that_says_nothing_is_told_apart(answer: str) -> None:
    assert says_nothing("What is Ramsar?", answer)
    assert not says_nothing("How many hearts does a human have?", "One")
    assert not says_nothing("What do wetlands store?", "Water")


def test_answer_that_says_nothing_is_dropped() -> None:
    cards = asked("The Ramsar Convention lists the site. The human body has 206 bones.")
    assert "The site" not in cards.values()


def test_statement_is_no_term() -> None:
    shown = str(cards_of(WETLANDS)) + str([q["options"] for q in quiz_of(WETLANDS)])
    assert "“The ponds also trap sediment”" not in shown
    assert "'Wetlands release water'" not in shown
    assert "onds also trap sediment'" not in shown
    assert "keeps rivers'" not in shown


def test_name_of_a_glossary_stays_a_term() -> None:
    cards = asked(
        "- **Carbon cycle**: the way of carbon through air and soil\n- **Cell wall**: a rigid outer layer"
    )
    assert cards["What is meant by “Carbon cycle”?"] == "The way of carbon through air and soil"


def test_no_gap_is_cut_beside_a_formula_or_code() -> None:
    assert not [front for front in asked(STATISTICS) if GAP in front and holds_formula(front)]
    assert not any("n = k" in question["question"] for question in quiz_of(STATISTICS))


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("The formula is $n = k + d$.", True),
        (r"It is \frac{a}{b} here.", True),
        ("Set x = 5 first.", True),
        ("Call open(path) once.", True),
        ("It costs $5 and then $10 more.", False),
        ("The year (1961) was cold.", False),
    ],
)
def test_formulas_are_told_from_prices_and_brackets(text: str, held: bool) -> None:
    assert holds_formula(text) is held


def test_words_that_only_open_a_line_and_code_are_no_options() -> None:
    options = {option for question in quiz_of(STATISTICS) for option in question["options"]}
    assert not options & {"Stat", "Opening", "Measure", "Np.mean", "np.mean"}


@pytest.mark.parametrize(
    ("sentence", "front", "back"),
    [
        ("绿茶是不发酵茶，红茶是全发酵茶，乌龙茶是半发酵茶。", "绿茶是什么？", "不发酵茶"),
        ("北京是中国的首都，是全国的政治中心。", "北京是什么？", "中国的首都，是全国的政治中心"),
        ("水是一种无色液体，通常是透明的。", "水是什么？", "一种无色液体，通常是透明的"),
    ],
)
def test_chinese_meaning_ends_where_another_subject_begins(
    sentence: str, front: str, back: str
) -> None:
    assert asked(sentence)[front] == back
