"""What operators cannot do with an outbox event."""

from __future__ import annotations

from engine.errors import EngineError


class OutboxEventNotFound(EngineError):
    """There is no such outbox event."""

    code = "OUTBOX_EVENT_NOT_FOUND"
    public_message = "There is no such outbox event."


class OutboxEventState(EngineError):
    """The outbox event is not in a state that allows this."""

    code = "OUTBOX_EVENT_STATE"
    public_message = "This outbox event is not in a state that allows this."
