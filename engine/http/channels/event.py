"""What a channel reads from a delivery, and what a mapping function sees of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.datastructures import Headers


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """One event of a delivery: the provider's id, its kind where it has one, and its content."""

    id: str
    data: Mapping[str, Any] = field(repr=False)
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class ChannelEvent:
    """One event with where it came in. ``data`` is the provider's JSON, checked to be an object and no further."""

    channel: str
    project: str
    instance: str
    id: str
    kind: str | None
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request as it came: nothing of it is believed before ``Kind.signed`` says so."""

    headers: Headers
    body: bytes = field(repr=False)


class Kind(Protocol):
    """How one kind of channel signs its deliveries, and what an event's id is."""

    name: str
    #: Whether the sender chooses the id, so that the same id with another content is a mistake of his (promise 6).
    id_is_the_callers: bool

    def signed(self, delivery: Delivery, secret: bytes) -> bool:
        """Whether the delivery was made by who has ``secret``; compares in constant time."""
        ...

    def read(self, delivery: Delivery) -> Sequence[ReadEvent]:
        """The events of a delivery. Raises ``RequestMalformed`` or ``ProviderEventIdMissing``."""
        ...
