"""The states of an outbox event, and every legal move between them, as data (design 8).

    pending ──▶ processing ──▶ published
       ▲  │          │
       │  │          ├──▶ pending    given back, refused once, or its dispatcher died
       │  │          └──▶ dead       refused too often
       │  └──▶ obsolete              its job ended before the delivery
       └── dead ──▶ discarded        an operator redelivers it, or gives it up
                  └──▶ obsolete         no job waits for it any more
"""

from __future__ import annotations

from enum import StrEnum


class EventStatus(StrEnum):
    """Where an outbox event is."""

    #: Waits for a dispatcher.
    PENDING = "pending"
    #: A dispatcher holds it, at most for the claim time.
    PROCESSING = "processing"
    #: Handed on at least once.
    PUBLISHED = "published"
    #: Refused too often; an operator redelivers or discards it.
    DEAD = "dead"
    #: Its job ended first; nothing is to be delivered.
    OBSOLETE = "obsolete"
    #: Given up by an operator, with a reason.
    DISCARDED = "discarded"


MOVES: dict[EventStatus, frozenset[EventStatus]] = {
    EventStatus.PENDING: frozenset({EventStatus.PROCESSING, EventStatus.OBSOLETE}),
    EventStatus.PROCESSING: frozenset({EventStatus.PUBLISHED, EventStatus.PENDING, EventStatus.DEAD}),
    EventStatus.DEAD: frozenset({EventStatus.PENDING, EventStatus.DISCARDED, EventStatus.OBSOLETE}),
    EventStatus.PUBLISHED: frozenset(),
    EventStatus.OBSOLETE: frozenset(),
    EventStatus.DISCARDED: frozenset(),
}
