"""Says once that Redis is away and that nothing is lost by it, and once that it is back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from outbox.base.telemetry import Listener
from outbox.errors import TransportError, TransportUnavailable

#: How often Redis is asked whether it is back, in seconds.
_PAUSE_S: Final = 1.0
#: Facts of a process that Redis has not answered.
_AWAY: Final = frozenset(
    {"outbox.transport_unavailable", "heartbeat.transport_unavailable", "upkeep.transport_unavailable"}
)
#: A fact that says so by its code.
_FETCH: Final = "fetch.failed"

_WHY: Final = {
    "auth": "refuses the user or the password of AIJOBS_REDIS_URL, or a command (see `aijobs redis-acl`)",
    "oom": "is full",
    "readonly": "takes no writes",
    "loading": "is still loading its data",
    "wrongtype": "holds something of somebody else under one of our keys (see `aijobs doctor`)",
}

_log = logging.getLogger("aijobs.redis")


class RedisWatch:
    """Listens to the facts of one process, and asks Redis itself only while it is away."""

    def __init__(
        self, ask: Callable[[], object], address: str, *, others: Listener, pause_s: float = _PAUSE_S
    ) -> None:
        """``ask`` raises a :class:`TransportError` while Redis is away; ``address`` is shown.

        ``others`` hears every fact that is not about Redis being away, which would come many times a minute.
        """
        self._ask = ask
        self._others = others
        self._address = address
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._away = False

    def note(self, name: str, ids: Mapping[str, Any]) -> None:
        """A :data:`~outbox.base.telemetry.Listener`."""
        if name in _AWAY or (name == _FETCH and ids.get("code") == TransportUnavailable.code):
            self.away(str(ids.get("reason") or "unknown"))
            _log.debug("%s", name)
        else:
            self._others(name, ids)

    def away(self, reason: str) -> None:
        """Redis did not answer, for a ``reason`` of one word. Said once, until it is back."""
        with self._lock:
            if self._away:
                return
            self._away = True
        why = _WHY.get(reason, "does not answer")
        _log.warning("Redis at %s %s; nothing is lost, this process goes on and keeps trying", self._address, why)
        threading.Thread(target=self._wait, name="aijobs-redis-watch", daemon=True).start()

    def _wait(self) -> None:
        since = time.monotonic()
        while True:
            time.sleep(self._pause_s)
            try:
                self._ask()
            except TransportError:
                continue
            break
        with self._lock:
            self._away = False
        _log.warning("Redis at %s answers again after %.0f s", self._address, time.monotonic() - since)


def address_of(url: str) -> str:
    """A Redis URL without user, password and options, for people to read."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"
