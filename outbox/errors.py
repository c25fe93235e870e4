"""What can go wrong while a fact leaves the database.

OutboxError ................... an event cannot be stored or moved on
TransportError ................ the carrier of tickets is in the way
├── TransportUnavailable ...... broker-wide trouble: blames no ticket and uses no attempt (OB-2)
├── TicketRefused ............. blames exactly one ticket: counts towards "dead"
│   └── InvalidTicketId ....... its queue, job type or id cannot be written as a ticket id
└── TransportMisconfigured .... a setting is wrong; no waiting will mend it
"""

from __future__ import annotations

from typing import Any

from registry.errors import AiJobsError


class OutboxError(AiJobsError):
    """An outbox event could not be stored or moved on."""

    code = "OUTBOX_ERROR"


class TransportError(AiJobsError):
    """The transport could not do what was asked."""

    code = "TRANSPORT_ERROR"


class TransportUnavailable(TransportError):
    """The broker cannot be used at the moment."""

    code = "TRANSPORT_UNAVAILABLE"
    retryable = True
    public_message = "The job queue is not reachable at the moment."

    def __init__(
        self, message: str | None = None, *, reason: str = "unknown", **details: Any
    ) -> None:
        """Take a short stable word for the cause: connection, timeout, readonly, oom, auth, ..."""
        super().__init__(message, reason=reason, **details)
        #: One word for logs and metrics; the full text is the message.
        self.reason = reason


class TicketRefused(TransportError):
    """The transport refuses this one ticket."""

    code = "TICKET_REFUSED"

    def __init__(self, message: str | None = None, *, ticket_id: str = "", **details: Any) -> None:
        super().__init__(message, ticket_id=ticket_id, **details)
        #: Empty when the refusal is that no id can be made.
        self.ticket_id = ticket_id


class InvalidTicketId(TicketRefused):
    """The queue, job type or job id cannot be written as a ticket id."""

    code = "TICKET_ID_INVALID"


class TransportMisconfigured(TransportError):
    """A transport setting is wrong."""

    code = "TRANSPORT_MISCONFIGURED"


def reason_of(error: BaseException) -> str | None:
    """The word for why the broker cannot be used, where ``error`` says that."""
    return error.reason if isinstance(error, TransportUnavailable) else None
