"""API: programs of one's own; a bearer token, and the caller's ``Idempotency-Key`` as the event's id.

The caller chooses the id, so the same id with another content is refused: it is a mistake, not a repeat (promise 6).
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.http.channels.event import Delivery, ReadEvent
from engine.http.channels.signatures import bearer_or_password, json_object
from engine.http.errors import ProviderEventIdMissing
from engine.http.idempotency import given_keys
from engine.idempotency.errors import IdempotencyKeyInvalid
from engine.idempotency.request import read_key


class Api:
    """Events that programs send."""

    name = "api"
    id_is_the_callers = True

    def signed(self, delivery: Delivery, secret: bytes) -> bool:
        """The secret must come as the bearer token."""
        return bearer_or_password(delivery.headers, secret)

    def read(self, delivery: Delivery) -> Sequence[ReadEvent]:
        """One event: the body, whatever object it is."""
        try:
            key = read_key(given_keys(delivery.headers))
        except IdempotencyKeyInvalid as error:
            raise ProviderEventIdMissing(detail=error.public_message) from None
        if key is None:
            raise ProviderEventIdMissing(detail="The header Idempotency-Key is missing.")
        return [ReadEvent(key, json_object(delivery.body))]
