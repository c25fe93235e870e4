"""Ticket ids: RQ's alphabet, one per job, reversible."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rq.job import validate_job_id

from outbox.errors import InvalidTicketId
from outbox.job_ids import TicketKey, parse_ticket_id, ticket_id

queues = st.from_regex(r"[a-z][a-z0-9-]{0,31}", fullmatch=True)
job_types = st.from_regex(r"[a-z][a-z0-9_]{1,63}", fullmatch=True)

JOB = UUID("0190a3c4-7b1e-7abc-8def-0123456789ab")


def test_the_id_is_readable() -> None:
    assert (
        ticket_id("ai-background", "quiz_generation", JOB)
        == "ai-background__quiz_generation__0190a3c47b1e7abc8def0123456789ab"
    )


@given(queues, job_types, st.uuids())
def test_every_id_is_reversible_and_accepted_by_rq(queue: str, job_type: str, job: UUID) -> None:
    id_ = ticket_id(queue, job_type, job)

    validate_job_id(id_)
    assert parse_ticket_id(id_) == TicketKey(queue, job_type, job)


@given(st.tuples(queues, job_types, st.uuids()), st.tuples(queues, job_types, st.uuids()))
def test_different_jobs_never_share_an_id(
    one: tuple[str, str, UUID], other: tuple[str, str, UUID]
) -> None:
    assert (ticket_id(*one) == ticket_id(*other)) == (one == other)


@pytest.mark.parametrize(
    ("queue", "job_type"),
    [
        ("", "quiz"),
        ("Ai", "quiz"),
        ("ai_background", "quiz"),
        ("ai:background", "quiz"),
        ("ai\n", "quiz"),
        ("a" * 33, "quiz"),
        ("ai", ""),
        ("ai", "q"),
        ("ai", "active-recall"),
        ("ai", "quiz:user"),
        ("ai", "quiz\n"),
        ("ai", "q" * 65),
    ],
)
def test_names_outside_their_alphabet_are_refused(queue: str, job_type: str) -> None:
    with pytest.raises(InvalidTicketId):
        ticket_id(queue, job_type, uuid4())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ai",
        "ai__quiz",
        f"ai__quiz__{JOB}",
        f"ai__quiz_{JOB.hex}",
        f"ai__quiz__{JOB.hex.upper()}",
        f"ai__quiz__{JOB.hex}0",
        f"__quiz__{JOB.hex}",
        f"ai____{JOB.hex}",
        f"AI__quiz__{JOB.hex}",
    ],
)
def test_other_texts_are_not_ticket_ids(text: str) -> None:
    with pytest.raises(InvalidTicketId):
        parse_ticket_id(text)
