"""Everything that stands in a Redis, as one text: to show what is not in it."""

from __future__ import annotations

import redis


def everything(client: redis.Redis) -> bytes:
    """Names and values of all keys."""
    return b"\n".join(_told_by(client, key) for key in client.scan_iter())


def _told_by(client: redis.Redis, key: bytes) -> bytes:
    kind = client.type(key)
    if kind == b"hash":
        parts = [part for pair in client.hgetall(key).items() for part in pair]
    elif kind == b"list":
        parts = client.lrange(key, 0, -1)
    elif kind == b"zset":
        parts = client.zrange(key, 0, -1)
    elif kind == b"set":
        parts = list(client.smembers(key))
    else:
        parts = [client.get(key) or b""]
    return b"\n".join([key, *parts])
