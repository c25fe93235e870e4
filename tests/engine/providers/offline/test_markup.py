"""Form is taken away, what is said stays."""

from __future__ import annotations

import pytest

from engine.providers.offline.markup import read_blocks
from engine.providers.offline.sentences import read_sentences, split


def prose(text: str) -> list[str]:
    return [block.text for block in read_blocks(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\n\nText here.", ["Title", "Text here."]),
        ("Title\n=====\nText here.", ["Title", "Text here."]),
        ("A **bold** and *soft* `word`.", ["A bold and soft word."]),
        ("See [the page](http://x.y/z_(a)) now.", ["See the page now."]),
        ("![image](a.png)\nText.", ["Text."]),
        ("Fact.[1] More[2, 3] text [citation needed].", ["Fact. More text."]),
        ("- one\n- [ ] two\n* three\n1. four\n2) five", ["one", "two", "three", "four", "five"]),
        ("> quoted\n> text", ["quoted text"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nText.", ["Text."]),
        ("Before.\n\n```js\nlet x = 1;\n```\n\nAfter.", ["Before.", "After."]),
        ("Before.\n```\nnever closed", ["Before.", "never closed"]),
        ("---\ntitle: X\n---\nText.", ["Text."]),
        ("<p>One &amp; two</p><script>no()</script><p>three</p>", ["One & two", "three"]),
        ("Visit https://x.y/z?a=b. Thanks.", ["Visit. Thanks."]),
        ("[[Page|the page]] and '''bold'''.", ["the page and bold."]),
        ("a line long enough to be\nwrapped by hand.", ["a line long enough to be wrapped by hand."]),
        ("Short fact one\nShort fact two", ["Short fact one", "Short fact two"]),
        ("这是一行\n接着一行。", ["这是一行接着一行。"]),
        ("snake_case_name and 2 * 3 * 4 stay.", ["snake_case_name and 2 * 3 * 4 stay."]),
        ("`text <http://x.y>`_ is a link.", ["text is a link."]),
    ],
)  # fmt: skip
def test_form_goes_and_content_stays(text: str, expected: list[str]) -> None:
    assert prose(text) == expected


def test_bold_words_are_remembered() -> None:
    assert read_blocks("The **cell wall** is rigid.")[0].bold == ("cell wall",)


def test_code_is_read_as_words_only_where_there_is_nothing_else() -> None:
    code = "def add(a, b):\n    return a + b\n"
    assert prose(f"{code}\nAdds numbers.") == ["Adds numbers."]
    assert prose(code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Li met J. K. Roe in the U.S. He left.", ["Dr. Li met J. K. Roe in the U.S.", "He left."]),
        ("It costs $3.50 e.g. here. Fine.", ["It costs $3.50 e.g. here.", "Fine."]),
        ('"Is it?" he asked. Yes!', ['"Is it?" he asked.', "Yes!"]),
        ("See Fig. 3. Then go.", ["See Fig. 3.", "Then go."]),
        ("Vitamin C. It helps.", ["Vitamin C.", "It helps."]),
        ("光合作用很重要。是吗？是！", ["光合作用很重要。", "是吗？", "是！"]),
        ("No end", ["No end"]),
    ],
)  # fmt: skip
def test_sentences_end_where_they_end(text: str, expected: list[str]) -> None:
    assert list(split(text)) == expected


def test_headings_name_what_follows_and_repeats_are_read_once() -> None:
    sentences = read_sentences(read_blocks("# Cells\n\nOne fact. Two facts. One fact."))
    assert [(s.text, s.heading) for s in sentences] == [
        ("One fact.", "Cells"),
        ("Two facts.", "Cells"),
    ]
