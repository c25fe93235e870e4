"""The deterministic id under which the transport knows a job: ``{queue}__{job_type}__{32 hex}``.

It is ADR-003's ``{queueName}:{jobType}:{idempotencyKey}`` in the alphabet that RQ accepts (letters,
digits, ``_`` and ``-``; TR-1), the key being the job's own id, so no text of a caller can get in.
One id per job for its whole life: the delivery number is a field of the ticket (design 9).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from outbox.errors import InvalidTicketId

QUEUE_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
JOB_TYPE = re.compile(r"[a-z][a-z0-9_]{1,63}")
_HEX = re.compile(r"[0-9a-f]{32}")
#: Of the job id at the end.
_DIGITS = 32


class TicketKey(NamedTuple):
    """The three parts of a ticket id."""

    queue_name: str
    job_type: str
    job_id: UUID


def ticket_id(queue_name: str, job_type: str, job_id: UUID) -> str:
    """Return the ticket id of a job; the same job always has the same id.

    Raises :class:`InvalidTicketId` when queue or job type leave their alphabets (design 4).
    """
    return _head(queue_name, job_type) + job_id.hex


def parse_ticket_id(text: str) -> TicketKey:
    """Take a ticket id apart; the inverse of :func:`ticket_id`.

    Raises :class:`InvalidTicketId` for anything that :func:`ticket_id` cannot have made.
    """
    head, tail = text[:-_DIGITS], text[-_DIGITS:]
    if not _HEX.fullmatch(tail):
        raise InvalidTicketId("This is not a ticket id.", ticket_id=text)
    return TicketKey(*_names(head), UUID(int=int(tail, 16)))


@lru_cache(maxsize=4096)
def _names(head: str) -> tuple[str, str]:
    queue_name, _, rest = head.partition("__")  # a queue name holds no underscore
    job_type = rest.removesuffix("__")  # a fixed end, so a job type may itself hold "__"
    if _head(queue_name, job_type) != head:
        raise InvalidTicketId("This is not a ticket id.", ticket_id=head)
    return queue_name, job_type


@lru_cache(maxsize=4096)
def _head(queue_name: str, job_type: str) -> str:
    if not QUEUE_NAME.fullmatch(queue_name):
        raise InvalidTicketId("The queue name does not fit a ticket id.", field="queue_name")
    if not JOB_TYPE.fullmatch(job_type):
        raise InvalidTicketId("The job type does not fit a ticket id.", field="job_type")
    return f"{queue_name}__{job_type}__"
