"""Redis in this process: fakeredis with Lua, one server per URL, shared by the process's threads.

Lets ``aijobs demo`` and tests run the real scripts without a server. It never blocks in BLMOVE and
knows no INFO, so the transport polls; other processes cannot see it.
"""

from __future__ import annotations

import threading
from typing import Any

from redis import Redis

from outbox.errors import TransportMisconfigured

_servers: dict[str, Any] = {}
_lock = threading.Lock()


def fake_client(url: str = "fakeredis://") -> Redis:
    """Return a client of the in-process server of that URL; the same URL is the same server."""
    try:
        import fakeredis
    except ImportError as error:  # pragma: no cover - a dependency of the distribution
        raise TransportMisconfigured("fakeredis:// needs the package fakeredis[lua].") from error
    with _lock:
        server = _servers.setdefault(url, fakeredis.FakeServer())
    client: Redis = fakeredis.FakeRedis(server=server)
    return client
