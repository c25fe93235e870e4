"""Gitea: HMAC-SHA256 of the body in a header; an event's id is the delivery's, in another.

Gitea does not repeat a failed delivery by itself. "Test" and "replay" in its pages make a delivery with a new id, and
so another job: a person asked for it (EW-5).
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.http.channels.event import Delivery, ReadEvent
from engine.http.channels.signatures import event_id, hmac_hex, json_object, same

SIGNATURE_HEADER = "x-gitea-signature"
DELIVERY_HEADER = "x-gitea-delivery"
EVENT_HEADER = "x-gitea-event"


class Gitea:
    """Webhook deliveries with the content type application/json."""

    name = "gitea"
    id_is_the_callers = False

    def signed(self, delivery: Delivery, secret: bytes) -> bool:
        """The header must be the HMAC of the body under the webhook's secret."""
        given = delivery.headers.get(SIGNATURE_HEADER)
        return same(given.lower() if given else None, hmac_hex(secret, delivery.body))

    def read(self, delivery: Delivery) -> Sequence[ReadEvent]:
        """One delivery; its kind is Gitea's name for the event, such as ``push``."""
        id_ = event_id(delivery.headers.get(DELIVERY_HEADER), "X-Gitea-Delivery")
        kind = delivery.headers.get(EVENT_HEADER)
        return [ReadEvent(id_, json_object(delivery.body), kind[:64] if kind else None)]
