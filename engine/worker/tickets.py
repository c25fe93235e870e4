"""Takes tickets off Redis once their claims have ended. SQL holds the truth already, so a failure here only
leaves a ticket that the next claim finds settled (OB-7)."""

from __future__ import annotations

from collections.abc import Sequence

from outbox.base.telemetry import Telemetry
from outbox.errors import TransportError
from outbox.transports.base import Delivery, Settlement, Transport


class Tickets:
    """Settles and defers deliveries of one worker, in batches."""

    def __init__(self, transport: Transport, *, worker: str, telemetry: Telemetry) -> None:
        self._transport = transport
        self._worker = worker
        self._telemetry = telemetry

    def settle(self, items: Sequence[tuple[Delivery, Settlement]]) -> list[bool | Exception]:
        """Take tickets off; False where the execution was no longer ours. Never raises."""
        try:
            return list(self._transport.finish_many(self._worker, items))
        except TransportError as error:
            self._telemetry.emit("ticket.settle_failed", len(items), code=error.code)
            return [False] * len(items)

    def defer(self, items: Sequence[tuple[Delivery, int]]) -> None:
        """Bring deliveries again after their delay in ms. Never raises."""
        if not items:
            return
        try:
            self._transport.defer_many(items)
        except TransportError as error:
            # The executions end by themselves and come back with the next recovery.
            self._telemetry.emit("ticket.defer_failed", len(items), code=error.code)
