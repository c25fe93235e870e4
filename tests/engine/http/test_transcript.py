"""A stream never becomes a mixture of two answers, whatever attempts come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.http.openai.transcript import Diverged, Transcript
from engine.streams.store import Piece


def sent_for(*pieces: Piece) -> tuple[Transcript, str]:
    transcript = Transcript()
    return transcript, "".join(transcript.take(piece) for piece in pieces)


def test_pieces_of_one_attempt_are_sent_as_they_come() -> None:
    transcript, sent = sent_for(Piece(1, 1, "Once "), Piece(1, 2, "upon"))

    assert sent == "Once upon"
    assert transcript.finish("Once upon a time") == " a time"


def test_new_attempt_that_says_the_same_goes_on_where_the_old_one_stopped() -> None:
    transcript, sent = sent_for(
        Piece(1, 1, "Once upon"), Piece(2, 1, "Once "), Piece(2, 2, "upon a "), Piece(2, 3, "time")
    )

    assert sent == "Once upon a time"
    assert transcript.epoch == 2


def test_new_attempt_that_says_something_else_ends_the_stream() -> None:
    transcript, _ = sent_for(Piece(1, 1, "Once upon"))
    with pytest.raises(Diverged):
        transcript.take(Piece(2, 1, "There was"))


def test_new_attempt_may_say_anything_while_nothing_was_sent() -> None:
    assert sent_for(Piece(2, 1, "There was"))[1] == "There was"


def test_late_words_of_an_attempt_given_up_are_passed_over() -> None:
    assert sent_for(Piece(2, 1, "new"), Piece(1, 1, "old"))[1] == "new"


def test_lost_piece_is_made_up_for_by_the_committed_answer() -> None:
    transcript, sent = sent_for(Piece(1, 1, "a"), Piece(1, 3, "c"), Piece(1, 4, "d"))

    assert sent == "a"
    assert transcript.finish("abcd") == "bcd"


def test_committed_answer_that_differs_from_what_was_sent_ends_the_stream() -> None:
    transcript, _ = sent_for(Piece(1, 1, "a"))
    with pytest.raises(Diverged):
        transcript.finish("b")


@given(
    st.text("ab", max_size=8),
    st.lists(
        st.builds(Piece, st.integers(1, 3), st.integers(1, 4), st.text("ab", max_size=3)),
        max_size=12,
    ),
)
def test_whatever_comes_the_client_has_the_committed_answer_or_an_error(
    committed: str, pieces: list[Piece]
) -> None:
    transcript, sent = Transcript(), ""
    try:
        for piece in pieces:
            sent += transcript.take(piece)
        sent += transcript.finish(committed)
    except Diverged:
        return
    assert sent == committed
