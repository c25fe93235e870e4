"""A ticket as bytes: RQ's call format in JSON, never pickle (TR-14), never a caller's text (TR-12).

RQ keeps a call as ``[function, instance, args, kwargs]``. Ours is always the entry function with the
ticket as its only argument, so that a stock ``rq worker --serializer json`` can run it in an
emergency, and our own worker reads the same bytes. Left uncompressed: RQ reads both, and people can.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from outbox.errors import InvalidTicketId, TicketRefused, TransportMisconfigured
from outbox.job_ids import parse_ticket_id
from outbox.transports.base import Delivery, PutResult, Ticket

#: Version of the ticket's fields; readers ignore fields they do not know.
WIRE_VERSION = 1
#: The same for every job: RQ would otherwise write out the arguments (TR-12).
DESCRIPTION = "aijobs ticket"
DEFAULT_ENTRY = "engine.worker.entry.run_one"

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
#: How encode_call ends: read without a JSON parser, which would be the dearest part of a claim.
_OUR_END = re.compile(
    rb'"createdAt":(\d{1,18}),"traceparent":(?:null|"([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})")'
    rb"\}\],\{\}\]"
)
#: More deliveries than a job can have; the database's column holds no larger number.
_DELIVERIES = 2**31
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


def checked_entry(entry: str) -> str:
    """Return the dotted path of the entry function, or refuse it."""
    if not _DOTTED.fullmatch(entry):
        raise TransportMisconfigured("The entry function is not a dotted path.", entry=entry)
    return entry


def encode_call(entry: str, ticket: Ticket) -> str:
    """Return the JSON text of a call of ``entry`` with the ticket.

    Written by hand because it is on the hot path; all parts are numbers or have checked alphabets.
    """
    trace = ticket.traceparent
    shown = f'"{trace}"' if trace is not None and _TRACEPARENT.fullmatch(trace) else "null"
    return (
        f'["{entry}",null,[{{"v":{WIRE_VERSION},"jobId":"{ticket.job_id}"'
        f',"jobType":"{ticket.job_type}","deliveryNo":{ticket.delivery_no}'
        f',"createdAt":{ticket.created_at_ms},"traceparent":{shown}}}],{{}}]'
    )


def decode_call(call: bytes) -> tuple[int, str | None]:
    """Return (created_at_ms, traceparent) of a call; 0 and None where they cannot be read.

    What identifies the job is in the ticket's id and fields, so damage here never stops a job.
    """
    ours = _OUR_END.search(call)
    if ours:
        return int(ours[1]), ours[2].decode() if ours[2] else None
    return _decode_json(call)


def _decode_json(call: bytes) -> tuple[int, str | None]:
    """The same for a call written by another release: any JSON, unknown fields ignored (TR-14)."""
    try:
        body: Any = json.loads(call)[2][0]
        created, trace = body.get("createdAt"), body.get("traceparent")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return 0, None
    return (
        created if isinstance(created, int) else 0,
        trace if isinstance(trace, str) and _TRACEPARENT.fullmatch(trace) else None,
    )


def iso(ms: int) -> str:
    """Return Unix milliseconds in RQ's date format."""
    second, rest = divmod(ms, 1000)
    return f"{_second(second)}.{rest:03d}000Z"


@lru_cache(maxsize=256)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class ClaimedRow(NamedTuple):
    """One ticket as the claim script gives it."""

    id_: bytes
    execution: bytes
    call: bytes
    delivery_no: bytes
    score: bytes
    handouts: int

    def delivery(self) -> Delivery | None:
        """None where it cannot be read: Redis may hold what we have not written."""
        try:
            key = parse_ticket_id(self.id_.decode())
            delivery_no, score = int(self.delivery_no), int(self.score)
        except (ValueError, InvalidTicketId):
            return None
        if not 0 <= delivery_no < _DELIVERIES:
            return None
        created_at_ms, traceparent = decode_call(self.call)
        ticket = Ticket(
            job_id=key.job_id,
            job_type=key.job_type,
            queue_name=key.queue_name,
            delivery_no=delivery_no,
            deliver_score=score,
            created_at_ms=created_at_ms,
            traceparent=traceparent,
        )
        return Delivery(ticket, self.execution.decode(), self.handouts)


#: By the number that put.lua answers with.
_PUT_RESULTS = (PutResult.DUPLICATE, PutResult.NEW, PutResult.NEWER, PutResult.BUSY)


def put_result(ticket: Ticket, answer: int | bytes) -> PutResult | TicketRefused:
    """What put.lua says of ``ticket``: a number, or why Redis refuses it."""
    if isinstance(answer, int):
        return _PUT_RESULTS[answer]
    text = answer.decode(errors="replace")
    return TicketRefused(f"Redis refuses this ticket: {text}", ticket_id=ticket.ticket_id)
