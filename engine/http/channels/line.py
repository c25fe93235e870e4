"""LINE: HMAC-SHA256 of the body in base64 in a header; each event of a delivery has a ``webhookEventId``.

LINE delivers several events at once, and again under the same ids where redelivery is switched on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.http.channels.event import Delivery, ReadEvent
from engine.http.channels.signatures import event_id, hmac_base64, json_object, same
from engine.http.errors import RequestMalformed

SIGNATURE_HEADER = "x-line-signature"


class Line:
    """Events of a Messaging API channel."""

    name = "line"
    id_is_the_callers = False

    def signed(self, delivery: Delivery, secret: bytes) -> bool:
        """The header must be the HMAC of the body under the channel secret."""
        return same(delivery.headers.get(SIGNATURE_HEADER), hmac_base64(secret, delivery.body))

    def read(self, delivery: Delivery) -> Sequence[ReadEvent]:
        """Every event; none at all in LINE's test of the address. One without an id refuses the delivery."""
        events = json_object(delivery.body).get("events")
        if not isinstance(events, list):
            raise RequestMalformed(detail="events is missing.")
        return [_event(event) for event in events]


def _event(event: Any) -> ReadEvent:
    if not isinstance(event, dict):
        raise RequestMalformed(detail="An event is not a JSON object.")
    kind = event.get("type")
    id_ = event_id(event.get("webhookEventId"), "webhookEventId")
    return ReadEvent(id_, event, kind if isinstance(kind, str) else None)
