"""A loop goes on whatever its round does, waits when there is nothing to do, and stops when asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from outbox.base.backoff import exponential
from outbox.base.ids import new_id
from outbox.base.loop import Loop

LONG_MS = 3_600_000


@pytest.fixture
def loops() -> Iterator[list[Loop]]:
    """Loops that are stopped after the test."""
    started: list[Loop] = []
    yield started
    for loop in started:
        loop.stop()
        assert loop.join(20)


class Rounds:
    """A round that plays a script and says when the script is over."""

    def __init__(self, *script: Any) -> None:
        self._script = list(script)
        self.count = 0
        self.over = threading.Event()

    def __call__(self) -> bool:
        self.count += 1
        act = self._script.pop(0) if self._script else False
        if not self._script:
            self.over.set()
        if isinstance(act, BaseException):
            raise act
        return bool(act)


def started(loops: list[Loop], rounds: Rounds, **options: Any) -> Loop:
    loop = Loop("test", rounds, **({"interval_ms": LONG_MS} | options))
    loops.append(loop)
    loop.start()
    return loop


def test_a_round_with_more_to_do_is_followed_at_once(loops: list[Loop]) -> None:
    rounds = Rounds(True, True, True, False)

    started(loops, rounds)

    # the interval is an hour: had it been waited for, this would end in a time-out
    assert rounds.over.wait(20)


def test_an_idle_round_waits_for_a_hint(loops: list[Loop]) -> None:
    waits: list[int] = []
    rounds = Rounds(False, False, False)

    started(loops, rounds, idle=waits.append, interval_ms=250)

    assert rounds.over.wait(20)
    assert set(waits) == {250}


def test_no_error_ends_a_loop(loops: list[Loop], caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds(ValueError("one"), SystemExit("two"), False)

    with caplog.at_level("WARNING", logger="aijobs.loop"):
        loop = started(loops, rounds)
        assert rounds.over.wait(20)

    assert loop.join(0) is False
    assert [record.getMessage() for record in caplog.records] == [
        "test failed: ValueError",
        "test failed: SystemExit",
    ]


def test_a_waiting_loop_stops_when_asked(loops: list[Loop]) -> None:
    rounds = Rounds(False)
    loop = started(loops, rounds)
    assert rounds.over.wait(20)

    loop.stop()

    assert loop.join(20)
    assert loop.stopping


def test_a_loop_that_never_began_has_ended() -> None:
    assert Loop("test", Rounds(), interval_ms=1).join(0)


@pytest.mark.parametrize(
    ("failures", "jitter", "wait"),
    [
        (1, 0.0, 100),
        (2, 0.0, 200),
        (3, 0.0, 400),
        (1, 1.0, 80),
        (9, 0.0, 5_000),
        (10_000, 1.0, 4_000),
    ],
)
def test_waits_double_up_to_a_limit_less_a_fifth_at_random(
    failures: int, jitter: float, wait: int
) -> None:
    assert exponential(failures, base_ms=100, limit_ms=5_000, jitter=lambda: jitter) == wait


def test_a_wait_is_never_nothing() -> None:
    assert exponential(1, base_ms=1, limit_ms=1, jitter=lambda: 1.0) == 1


def test_ids_are_new_and_in_the_order_they_were_made() -> None:
    ids = [new_id() for _ in range(10_000)]

    assert len(set(ids)) == 10_000
    assert ids == sorted(ids)
    assert {id_.version for id_ in ids} == {7}


def test_an_outage_is_told_at_its_beginning_and_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "aijobs.loop")
    rounds = 0

    def fail() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds == 40:
            loop.stop()
        raise ValueError

    loop = Loop("test", fail, interval_ms=1)
    monkeypatch.setattr(loop, "_sleep", lambda _ms: None)

    loop.start()

    assert loop.join(10)
    assert len(caplog.messages) == 6  # rounds 1, 2, 4, 8, 16 and 32
