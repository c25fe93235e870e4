"""What a drill does to Redis: see what is left under a prefix, and lose all of it.

Only keys of that one prefix are touched, so a Redis that others use may serve.
"""

from __future__ import annotations

from collections.abc import Iterator

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from outbox.transports.rq.faults import unavailable
from outbox.transports.rq.keys import Keys

_TIMEOUT_S = 5.0
_BATCH = 500


def wipe(url: str, prefix: str) -> int:
    """Delete every key of ``prefix``, as a flush or a lost Redis would; returns how many there were.

    Raises ``TransportUnavailable``.
    """
    with _client(url) as client:
        try:
            names = list(_names(client, prefix))
            for start in range(0, len(names), _BATCH):
                client.delete(*names[start : start + _BATCH])
        except (RedisError, OSError) as error:
            raise unavailable(error) from error
    return len(names)


def leftovers(url: str, prefix: str) -> list[str]:
    """Keys of ``prefix`` that would stay for ever and hold a ticket or a trace of one.

    The sets that name queues and workers stay by design and are not listed. Raises
    ``TransportUnavailable``.
    """
    keys = Keys(prefix)
    known = (keys.queues, keys.workers, keys.workers_of(""))
    with _client(url) as client:
        try:
            return sorted(
                name
                for name in _names(client, prefix)
                if name not in known and not name.startswith(known[2]) and client.ttl(name) == -1
            )
        except (RedisError, OSError) as error:
            raise unavailable(error) from error


def _client(url: str) -> Redis:
    client: Redis = Redis.from_url(
        url,
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        decode_responses=False,
    )
    return client


def _names(client: Redis, prefix: str) -> Iterator[str]:
    for name in client.scan_iter(match=f"{prefix}:*", count=_BATCH):
        yield name.decode()
