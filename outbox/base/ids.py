"""Ids are chosen here, before the insert, so that an unknown commit can be resolved by looking (CI-9)."""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A UUIDv7. It begins with the host's clock, so it breaks ties and never decides an order."""
    return uuid7()


#: How far the clocks of hosts may be off before a bound by id leaves a row for a later round, in ms.
HOST_SKEW_MS = 86_400_000


def id_of_moment(ms: int) -> UUID:
    """The lowest UUIDv7 of a moment in ms since 1970: a bound for walks over ids, not a decision."""
    return UUID(int=(max(0, ms) << 80) | (0x7 << 76))
