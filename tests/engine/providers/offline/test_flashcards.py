"""Flashcards from a text, without a model."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import SourceTextUnusable
from engine.providers.offline.choice import gives_away, key_of
from engine.providers.offline.english.words import STOP_WORDS
from engine.providers.offline.facts import GAP
from engine.providers.offline.flashcards import make_flashcards
from registry.catalog.flashcard_generation import FlashcardOutput
from tests.engine.providers.offline.texts import BIOLOGY, CHINESE, GERMAN, HISTORY, ODD


def cards_of(text: str, max_cards: int = 20) -> list[dict[str, Any]]:
    made = make_flashcards(text, max_cards=max_cards)
    FlashcardOutput.model_validate(made)
    cards: list[dict[str, Any]] = made["cards"]
    assert 1 <= len(cards) <= max_cards
    return cards


def asked(text: str) -> dict[str, str]:
    return {card["front"]: card["back"] for card in cards_of(text)}


def test_definitions_become_questions() -> None:
    cards = asked(BIOLOGY + HISTORY)
    assert cards["What is photosynthesis?"] == (
        "The process by which green plants, algae and some bacteria convert light energy into "
        "chemical energy"
    )
    assert cards["What is Canberra?"] == "The capital of Australia"
    assert cards["Who was Marie Curie?"].startswith("A Polish physicist who")


@pytest.mark.parametrize(
    ("sentence", "front", "back"),
    [
        ("The Berlin Wall was built in 1961.", "When was the Berlin Wall built?", "1961"),
        ("Penicillin was discovered by Alexander Fleming.", "Who was Penicillin discovered by?", "Alexander Fleming"),
        ("Isaac Newton published the laws of motion.", "Who published the laws of motion?", "Isaac Newton"),
        ("Alexander Fleming discovered penicillin in 1928.", "When did Alexander Fleming discover penicillin?", "1928"),
        ("The human body has 206 bones.", "How many bones does the human body have?", "206"),
        ("The heart is divided into four chambers.", "What is the heart divided into?", "Four chambers"),
        ("The Nile is 6,650 kilometres long.", "How long is the Nile?", "6,650 kilometres"),
        ("The loss of water through leaves is called transpiration.", "What is the loss of water through leaves called?", "Transpiration"),  # noqa: E501
        ("Enzymes convert sugars into alcohol.", "What do enzymes convert sugars into?", "Alcohol"),
        ("The Calvin cycle takes place in the stroma.", "Where does the Calvin cycle take place?", "In the stroma"),
        ("The sky is blue because air scatters short waves.", "Why is the sky blue?", "Because air scatters short waves"),  # noqa: E501
        ("The World Health Organization (WHO) fights disease.", "What does WHO stand for?", "World Health Organization"),  # noqa: E501
        ("- **Ribosome** – the place of protein synthesis", "What is meant by “Ribosome”?", "The place of protein synthesis"),  # noqa: E501
        ("光合作用分为光反应和暗反应两个阶段。", "光合作用分为哪些？", "光反应和暗反应两个阶段"),
        ("北京是中国的首都。", "北京是什么？", "中国的首都"),
        ("鲁迅是中国现代文学的奠基人之一。", "鲁迅是谁？", "中国现代文学的奠基人之一"),
        ("长城始建于公元前7世纪。", "长城始建于什么时候？", "公元前7世纪"),
        ("黄河发源于青海省的巴颜喀拉山脉。", "黄河发源于哪里？", "青海省的巴颜喀拉山脉"),
    ],
)  # fmt: skip
def test_sentence_is_asked_about_in_its_own_form(sentence: str, front: str, back: str) -> None:
    assert asked(sentence)[front] == back


def test_pronoun_is_replaced_by_what_it_stands_for() -> None:
    cards = asked(HISTORY)
    assert cards["When did Marie Curie win the Nobel Prize in Physics?"] == "1903"
    assert cards["What was the Berlin Wall built by?"] == "The German Democratic Republic"


def test_unclear_sentence_is_not_asked_about_as_if_it_were_clear() -> None:
    fronts = asked("This is the reason. It was built in 1961. These are divided into four parts.")
    assert not [front for front in fronts if front.startswith(("When was it", "What are these"))]


def test_form_is_not_content() -> None:
    shown = str(cards_of(BIOLOGY, 50))
    for form in ("**", "[1]", "](", "http", "|", "print(", "```", "# "):
        assert form not in shown
    assert "Do you remember" not in shown


@pytest.mark.parametrize("text", [BIOLOGY, HISTORY, CHINESE, GERMAN, *ODD.values()])
def test_no_card_is_given_twice_or_answers_itself(text: str) -> None:
    cards = cards_of(text, 50)
    assert len({key_of(card["front"]) for card in cards}) == len(cards)
    for card in cards:
        assert not gives_away(card["front"], card["back"])
        assert card["back"].lower() not in STOP_WORDS
        assert card["source_quote"]


@pytest.mark.parametrize("text", [BIOLOGY, HISTORY, CHINESE, GERMAN])
def test_gap_is_filled_by_its_answer_alone(text: str) -> None:
    for card in cards_of(text, 50):
        front = card["front"]
        if GAP in front and "[" not in front and "(n)" not in front:
            filled = front.split(" (year)")[0].split("（哪")[0].replace(GAP, card["back"])
            start = card["source_quote"].rstrip(".。").lower()
            assert filled.rstrip(".。").lower() in start or card["back"] in card["source_quote"]


def test_answers_have_both_ends_of_their_brackets_and_quotes() -> None:
    text = (
        "Deposition (also called desublimation) is the change from gas to solid (such as frost). "
        'The term "entropy" was coined by Rudolf Clausius in 1865 (see "heat").'
    )
    for card in cards_of(text):
        for side in (card["front"], card["back"]):
            assert side.count("(") == side.count(")")
            assert side.count('"') % 2 == 0


def test_most_important_comes_first_and_limit_holds() -> None:
    cards = cards_of(BIOLOGY, 3)
    assert len(cards) == 3
    assert cards[0]["front"] == "What is photosynthesis?"


@pytest.mark.parametrize("name", ODD)
def test_any_text_with_a_word_has_a_card(name: str) -> None:
    cards_of(ODD[name])


@pytest.mark.parametrize("text", [" ", "\n\n", "😀🎉", "...", "---", "\x00", "()[]", "12345 !!!", "1. 2. 3."])
def test_text_without_a_word_is_refused_by_name(text: str) -> None:
    with pytest.raises(SourceTextUnusable) as caught:
        make_flashcards(text, max_cards=5)
    assert not caught.value.retryable


def test_same_text_gives_the_same_cards_in_every_process() -> None:
    program = (
        "import sys, json; from engine.providers.offline.flashcards import make_flashcards;"
        "from engine.providers.offline.quiz import make_quiz; text = sys.stdin.read();"
        "print(json.dumps([make_flashcards(text, max_cards=20), make_quiz(text, max_questions=20)]))"
    )
    text = BIOLOGY + HISTORY + GERMAN + CHINESE
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=text.encode(),
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ".", "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4711")
    }
    assert len(runs) == 1


#: What breaks readers of text, and what they live on.
_PIECES = """
the a of is was it The It in 1961 3.5 % plants energy cell DNA Marie Curie because , . ? ! : ; ( ) [ ] “ ” " ' -
– # * ** _ ` | > and called by into has four 206 光合作用 是 过程 。 ， 《 》 Die ist 🐍 \u200b &amp; <b> </b> http://x.y/z
e.g. U.S. $5 10% Dr.
"""
WORDS = st.sampled_from([*_PIECES.split(), "\n", "\n\n"])
PROSE = st.lists(WORDS, min_size=1, max_size=60).map(" ".join)


@given(st.one_of(st.text(min_size=1, max_size=300), PROSE))
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_no_text_breaks_it(text: str) -> None:
    try:
        made = make_flashcards(text, max_cards=10)
    except SourceTextUnusable:
        return
    cards = FlashcardOutput.model_validate(made).cards
    assert len({card.front for card in cards}) == len(cards)
    assert all(any(c.isalnum() for c in card.front) for card in cards)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    ["a ", "A. ", "(", "[a](", "**a", "`", "<b", "| ", "- a\n", "x=1\n", "Name Is A. ", "汉。", "\n", "1-2 ", "it is "],
)  # fmt: skip
def test_longest_text_of_any_shape_ends_soon(piece: str) -> None:
    try:
        make_flashcards((piece * 200_000)[:200_000], max_cards=10)
    except SourceTextUnusable:
        assert not any(char.isalpha() for char in piece)
