"""One URL, one transport."""

from __future__ import annotations

from typing import Any

from outbox.errors import TransportMisconfigured
from outbox.transports.base import SteerableTransport
from outbox.transports.memory import MemoryTransport


def open_transport(url: str, *, prefix: str = "rq", **options: Any) -> SteerableTransport:
    """Return the transport of a URL.

    ``redis://``, ``rediss://``, ``unix://``   RQ's data model on that server
    ``fakeredis://`` + any name                the same in this process; one name is one server
    ``memory://``                              this process, no Redis at all; each call a new one

    ``options`` are those of ``RqTransport``; ``memory://`` takes none and needs no prefix.
    Raises ``TransportMisconfigured`` for any other URL or setting.
    """
    scheme, found, _ = url.partition("://")
    if scheme == "memory" and found:
        return MemoryTransport()
    # here and not above, so that memory:// works without redis installed
    from outbox.transports.rq import RqTransport

    if scheme == "fakeredis" and found:
        return RqTransport.fake(url, prefix=prefix, **options)
    if scheme in ("redis", "rediss", "unix") and found:
        return RqTransport(url, prefix=prefix, **options)
    raise TransportMisconfigured(
        "A transport URL begins with redis://, rediss://, unix://, fakeredis:// or memory://."
    )
