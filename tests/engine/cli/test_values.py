"""What people write on a command line, and what is refused with the way to write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from engine.cli.commands.queues import counted
from engine.cli.errors import UsageMistake
from engine.cli.values import duration_ms, identity, instant, json_object, target

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("30s", 30_000), ("0", 0), ("1.5s", 1_500), ("5m", 300_000), ("2h", 7_200_000),
     (" 1d ", 86_400_000), ("0s", 0)],
)  # fmt: skip
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "s", "5 minutes", "-5s", "1e3", "5w", "nan", "400d", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageMistake):
        duration_ms(text)


@pytest.mark.parametrize("text", ["5", "1.5", " 30 "])
def test_a_duration_without_a_unit_is_refused_with_the_ways_to_write_it(text: str) -> None:
    with pytest.raises(UsageMistake, match=r"--in: .* has no unit") as caught:
        duration_ms(text, name="--in")

    assert f"{text.strip()}s for seconds" in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-01T09:00:00Z", NOW - timedelta(hours=3)),
        ("2026-05-01T09:00:00+02:00", NOW - timedelta(hours=5)),
        ("2026-05-01 09:00Z", NOW - timedelta(hours=3)),
        ("-1h", NOW - timedelta(hours=1)),
        ("+30s", NOW + timedelta(seconds=30)),
    ],
)
def test_instants(text: str, expected: datetime) -> None:
    assert instant(text, now=NOW) == expected


@pytest.mark.parametrize("text", ["2026-05-01T09:00:00", "2026-05-01"])
def test_a_time_without_a_zone_is_refused_and_told_how_to_get_one(text: str) -> None:
    with pytest.raises(UsageMistake, match="no time zone") as caught:
        instant(text, now=NOW)

    assert f"{text}Z" in (caught.value.fix or "")


@pytest.mark.parametrize("text", ["", "yesterday", "1h", "-", "2026-13-01T00:00:00Z", "-1x"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageMistake):
        instant(text, now=NOW)


def test_ids_are_read_with_and_without_dashes() -> None:
    assert identity("01a2296a6f9d75c181e936abf5ce691c") == UUID("01a2296a-6f9d-75c1-81e9-36abf5ce691c")


@pytest.mark.parametrize("text", ["", "7", "01a2296a-6f9d-75c1-81e9", "zzz2296a6f9d75c181e936abf5ce691c"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(UsageMistake, match="job id"):
        identity(text)


def test_the_id_of_a_target_may_hold_colons() -> None:
    assert target("url:https://x") == ("url", "https://x")


@pytest.mark.parametrize("text", ["", "doc", "doc:", ":1"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageMistake):
        target(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1, column 1"),
        ('{"a": ', "line 1, column 7"),
        ('{\n"a" 1}', "line 2, column 5"),
        ("[1]", "an array"),
        ('"x"', "a text"),
        ("true", "a boolean"),
        ("3", "a number"),
        ("null", "null"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "range"),
        ("[" * 5_000, "nested"),
    ],
)
def test_what_is_no_json_object_is_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(UsageMistake, match="--input") as caught:
        json_object(text, name="--input")

    assert says in str(caught.value)


def test_a_refused_input_is_never_repeated_in_the_message() -> None:
    with pytest.raises(UsageMistake) as caught:
        json_object('{"diary": "my secret', name="--input")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("number", "shown"), [(0, "0"), (9_999, "9999"), (10_000, "10000+")])
def test_a_count_that_was_ended_says_so(number: int, shown: str) -> None:
    assert counted(number) == shown
