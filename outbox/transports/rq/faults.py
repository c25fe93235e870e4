"""What an error of Redis means: the one place where foreign errors become ours.

Everything that does not blame a ticket is ``TransportUnavailable`` (OB-2), also what redis-py takes
for a mere command error: READONLY and CLUSTERDOWN after a failover (TR-9), OOM (TR-10), NOPERM.
"""

from __future__ import annotations

import re

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004
)
from redis.exceptions import ConnectionError as RedisConnectionError

from outbox.errors import TransportUnavailable

#: Redis's error words; servers before 7 put them in the middle of a script error's text.
_WORDS = re.compile(
    r"\b(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|CROSSSLOT|OOM|NOAUTH|WRONGPASS"
    r"|NOPERM|MISCONF|NOREPLICAS|BUSY|UNKILLABLE|WRONGTYPE)\b"
)
_REASONS = {"NOAUTH": "auth", "WRONGPASS": "auth", "NOPERM": "auth", "ASK": "moved"}


def unavailable(error: Exception) -> TransportUnavailable:
    """Return the error to raise instead of one of redis-py's or the operating system's."""
    reason = reason_of(error)
    return TransportUnavailable(f"Redis cannot be used ({reason}): {error}", reason=reason)


def reason_of(error: Exception) -> str:
    """Return one stable word for the cause: timeout, connection, auth, readonly, oom, ..."""
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return "auth"
    if isinstance(error, OutOfMemoryError):
        return "oom"
    if isinstance(error, MaxConnectionsError):
        return "connections"
    if isinstance(error, ResponseError | RedisConnectionError):
        return _by_word(error)
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def _by_word(error: RedisError) -> str:
    text = f"{getattr(error, 'status_code', None) or ''} {error}"
    found = _WORDS.search(text)
    if found:
        return _REASONS.get(found[1], found[1].lower())
    return "connection" if isinstance(error, RedisConnectionError) else "error"
