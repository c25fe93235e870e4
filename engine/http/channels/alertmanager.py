"""Alertmanager: a bearer token or basic credentials; it sends no id, so an event is what it says.

The id is a digest over receiver, group key, status, and the fingerprint, start and status of each alert (X51, EW-2):
the same alerts firing again are a repeat, their end is another event, and so is one more alert.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.http.channels.event import Delivery, ReadEvent
from engine.http.channels.signatures import bearer_or_password, json_object
from engine.http.errors import ProviderEventIdMissing
from outbox.base.canonical import canonical_bytes, sha256


class Alertmanager:
    """Notifications of a webhook receiver."""

    name = "alertmanager"
    id_is_the_callers = False

    def signed(self, delivery: Delivery, secret: bytes) -> bool:
        """``http_config`` of the receiver must hold the secret, as ``authorization`` or ``basic_auth``."""
        return bearer_or_password(delivery.headers, secret)

    def read(self, delivery: Delivery) -> Sequence[ReadEvent]:
        """One notification of a group of alerts."""
        body = json_object(delivery.body)
        status, alerts = body.get("status"), body.get("alerts")
        if not isinstance(body.get("groupKey"), str) or not isinstance(status, str):
            raise ProviderEventIdMissing(detail="groupKey or status is missing.")
        if not isinstance(alerts, list) or not alerts:
            raise ProviderEventIdMissing(detail="alerts is missing or empty.")
        parts = [body.get("receiver"), body["groupKey"], status, sorted(map(_alert, alerts))]
        return [ReadEvent(sha256(canonical_bytes(parts)).hex(), body, status)]


def _alert(alert: Any) -> list[str]:
    values = [alert.get(name) if isinstance(alert, dict) else None for name in _TOLD_APART_BY]
    if not all(isinstance(value, str) and value for value in values):
        raise ProviderEventIdMissing(detail="An alert has no fingerprint, startsAt or status.")
    return values  # type: ignore[return-value]


_TOLD_APART_BY = ("fingerprint", "startsAt", "status")
