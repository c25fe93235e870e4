"""Ids are chosen here, before the insert, so that an unknown commit can be resolved by looking (CI-9)."""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A UUIDv7. It begins with the host's clock, so it breaks ties and never decides an order."""
    return uuid7()
