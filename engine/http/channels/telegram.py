"""Telegram: the bot's secret token in a header; an update's id is its ``update_id``, unique per bot.

Telegram repeats an update until it is answered with 2xx, under the same id.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.http.channels.event import Delivery, ReadEvent
from engine.http.channels.signatures import json_object, same
from engine.http.errors import ProviderEventIdMissing

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - the header's name


class Telegram:
    """Updates that a bot's webhook gets."""

    name = "telegram"
    id_is_the_callers = False

    def signed(self, delivery: Delivery, secret: bytes) -> bool:
        """The header must be the ``secret_token`` that ``setWebhook`` was given."""
        return same(delivery.headers.get(SECRET_HEADER), secret)

    def read(self, delivery: Delivery) -> Sequence[ReadEvent]:
        """One update; its kind is the member beside ``update_id``."""
        update = json_object(delivery.body)
        number = update.get("update_id")
        if not isinstance(number, int) or isinstance(number, bool):
            raise ProviderEventIdMissing(detail="update_id is missing or not a number.")
        kind = next((name for name in update if name != "update_id"), None)
        return [ReadEvent(str(number), update, kind)]
