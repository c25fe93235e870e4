"""What is known about a key: the record, its answer, and the claim of the request that runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID


class RecordStatus(StrEnum):
    """Where a key is. A key that was let go without effects has no record."""

    #: A request holds it until its lease ends; with an ended lease, nobody does.
    RUNNING = "running"
    #: Carried out; the answer is kept until the record expires.
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, kept to the byte. ``body`` is None where it was too large to be kept (X57)."""

    status: int
    body: bytes | None = field(repr=False)
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def successful(self) -> bool:
        """Whether it is one of those that are kept: 2xx and nothing else (AH-4)."""
        return 200 <= self.status < 300

    def headers_json(self) -> str:
        """The headers as a JSON list of pairs."""
        return json.dumps(self.headers)

    @staticmethod
    def read_headers(text: str | None) -> tuple[tuple[str, str], ...]:
        """The inverse of :meth:`headers_json`."""
        return tuple((name, value) for name, value in json.loads(text or "[]"))


@dataclass(frozen=True, slots=True)
class Record:
    """One row, with what the database's clock says about it."""

    id: UUID
    fingerprint: bytes = field(repr=False)
    status: RecordStatus
    claim_token: UUID | None
    job_id: UUID | None
    #: Something was sent to a provider; what came of it is not known unless a job or an answer says so.
    sent: bool
    answer: Answer | None
    #: The holder's lease has not ended.
    live: bool
    #: The time to keep it is over; it counts as absent.
    expired: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a request; every later write names ``token`` (X54).

    ``record_id`` stays the same over take-overs and is new when the key is used anew, so it is what a job
    made for this request is keyed by. ``job_id`` is the job that an interrupted request had made.
    """

    record_id: UUID
    token: UUID
    job_id: UUID | None = None
    taken_over: bool = False


#: Response headers that are kept with an answer and sent again (X57); lower case.
KEPT_HEADERS: Final = frozenset(
    {"content-disposition", "content-language", "etag", "link", "location", "preference-applied"}
)


def kept(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Those of ``headers`` that an answer keeps."""
    return tuple((name, value) for name, value in headers if name.lower() in KEPT_HEADERS)
