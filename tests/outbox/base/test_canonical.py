"""One byte string per JSON value, and nothing that a database could not keep."""

from __future__ import annotations

import json
import math
from enum import IntEnum, StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from outbox.base.canonical import (
    MAX_DEPTH,
    canonical_bytes,
    identity_digest,
    parse,
    sha256,
)
from outbox.base.errors import NotCanonicalError

#: What RFC 8785 is defined on (I-JSON): integers up to 2**53, no lone surrogates; and no NUL, which is our rule.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20
)


@given(VALUES)
def test_it_is_rfc_8785_wherever_that_is_defined(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(
    st.floats(-1e6, 1e6)
    | st.integers(-(2**55), 2**55).map(float)
    | st.sampled_from([1e-4, 9.999999999999999e-5, 9999999999999998.0, 1e16, 2.0**53, 2.0**53 - 1, -0.0])
)
def test_everyday_numbers_and_those_at_the_borders_are_written_as_rfc_8785_has_them(value: float) -> None:
    for document in (value, [value, 1.5], {"a": value}):
        assert canonical_bytes(document) == rfc8785.dumps(document)


@given(VALUES)
def test_reading_back_and_writing_again_changes_nothing(value: Any) -> None:
    written = canonical_bytes(value)

    assert canonical_bytes(parse(written)) == written


@given(st.dictionaries(TEXTS, VALUES))
def test_the_order_of_members_does_not_matter(value: dict[str, Any]) -> None:
    assert canonical_bytes(dict(reversed(value.items()))) == canonical_bytes(value)


@pytest.mark.parametrize("value", [1e20, -1e20, 2.0**63, -(2.0**64), 9.999999999999999e20, 1e21, 1.7e308])
def test_a_float_that_is_written_like_an_integer_comes_back(value: float) -> None:
    written = canonical_bytes({"n": value})

    assert parse(written) == {"n": value}
    assert canonical_bytes(parse(written)) == written


@pytest.mark.parametrize("digits", ["100000000000000000001", "-9223372036854775809", "9" * 400])
def test_an_integer_that_is_no_float_is_not_made_one(digits: str) -> None:
    with pytest.raises(NotCanonicalError):
        canonical_bytes(parse(digits))


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_keep_all_their_digits_up_to_64_bits(value: int) -> None:
    assert canonical_bytes([value]) == f"[{value}]".encode()
    assert parse(canonical_bytes(value)) == value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
        ({"a": [{"b": {"c": [1, 2]}}]}, {"a": [{"b": {"c": [2, 1]}}]}),
        ({"a": {"b": None}}, {"a": {}}),
        ({"a": "1"}, {"a": 1}),
        ({"a": True}, {"a": 1}),
        ([], {}),
        (2**53, 2**53 + 1),
        ("é", "e\u0301"),
    ],
)
def test_a_difference_at_any_depth_is_a_difference(one: Any, other: Any) -> None:
    assert sha256(canonical_bytes(one)) != sha256(canonical_bytes(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": {"c": 1, "b": [{"y": 1, "x": 2}]}}, {"a": {"b": [{"x": 2, "y": 1}], "c": 1}}),
        ((1, 2), [1, 2]),
        (1.0, 1),
        (-0.0, 0),
        (1e21, 1e21),
    ],
)
def test_equal_values_are_equal_bytes(one: Any, other: Any) -> None:
    assert canonical_bytes(one) == canonical_bytes(other)


def test_members_are_ordered_by_utf_16_and_text_is_utf_8() -> None:
    # the example of RFC 8785, 3.2.3: a surrogate pair comes before U+FB33
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}

    assert canonical_bytes(value) == (
        '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'.encode()
    )


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def test_enums_are_their_values() -> None:
    assert canonical_bytes({"c": Colour.RED, "l": Level.HIGH}) == b'{"c":"red","l":3}'


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, "$"),
        ({"a": [1, math.inf]}, "$.a[1]"),
        ({"a": -math.inf}, "$.a"),
        ({"a": "x\x00y"}, "$.a"),
        ({"a\x00": 1}, "$"),
        (["\ud800"], "$[0]"),
        ({"\udfff": 1}, "$"),
        ([2**63], "$[0]"),
        ([-(2**63) - 1], "$[0]"),
        ({1: 2}, "$"),
        ({None: 2}, "$"),
        ([b"bytes"], "$[0]"),
        ({"a": {1, 2}}, "$.a"),
        ([object()], "$[0]"),
    ],
)
def test_what_a_database_could_not_keep_is_refused_by_place(value: Any, place: str) -> None:
    with pytest.raises(NotCanonicalError) as refused:
        canonical_bytes(value)

    assert str(refused.value).startswith(f"{place}: ")


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(NotCanonicalError) as refused:
        canonical_bytes({"a": "secret\x00"})

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_nesting_has_an_end(wrap: Any) -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert canonical_bytes(value)

    with pytest.raises(NotCanonicalError, match="nested deeper"):
        canonical_bytes(wrap(value))


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
def test_endless_nesting_is_refused_and_not_a_crash(levels: int) -> None:
    with pytest.raises(NotCanonicalError, match="nested deeper"):
        canonical_bytes(parse("[" * levels + "]" * levels))


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e999", "[-1e999]", "{", "", "[1,]", b"\xff"]
)
def test_what_is_not_json_is_not_read(text: str | bytes) -> None:
    with pytest.raises(NotCanonicalError):
        parse(text)


def test_a_refusal_to_read_does_not_repeat_the_text() -> None:
    with pytest.raises(NotCanonicalError) as refused:
        parse('{"secret": ')

    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_identities_are_told_apart_by_their_parts() -> None:
    identities = {
        identity_digest("a", "bc"),
        identity_digest("ab", "c"),
        identity_digest("abc"),
        identity_digest("abc", ""),
        identity_digest("", "abc"),
        identity_digest("Abc"),
        identity_digest(),
    }

    assert len(identities) == 7
    assert {len(digest) for digest in identities} == {32}


def test_an_identity_is_made_of_exact_bytes() -> None:
    assert identity_digest("é") == identity_digest("é".encode())
    assert identity_digest("é") != identity_digest("e\u0301")
    assert identity_digest("a") == identity_digest("a")


def test_identities_stay_as_they_are_between_releases() -> None:
    # stored in unique columns: another digest would let every known key in once more
    expected = "4de77498"
    assert identity_digest("user", "job", b"\x00key").hex()[:8] == expected


def test_json_dumps_would_not_do() -> None:
    value = {"b": 1e-7, "a": "é"}

    assert json.dumps(value, sort_keys=True).encode() != canonical_bytes(value)
