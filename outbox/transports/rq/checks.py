"""What must be true of a Redis that carries tickets, asked once at start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from outbox.errors import TransportUnavailable
from outbox.transports.rq.broker import Broker
from outbox.transports.rq.keys import Keys

#: BLMOVE and LPOP with a count came with it.
OLDEST_VERSION = (6, 2)


#: RQ's registries of a queue.
_REGISTRIES = ("wip", "scheduled", "finished", "failed", "canceled")


def problems(broker: Broker, keys: Keys) -> list[str]:
    """Return what is wrong, one sentence each; raises ``TransportUnavailable`` when out of reach."""
    try:
        [info] = broker.ask(("INFO",))
    except TransportUnavailable as error:
        # A wrong password is no missing right.
        if error.reason != "auth" or not re.search(r"\bNOPERM\b|no permissions", str(error)):
            raise
        return ["This Redis user may not call INFO, so the server's settings are unknown."]
    return [
        text
        for text in (
            _version(info),
            _policy(info),
            _role(info),
            _slots(info, keys.prefix),
            *_strangers(broker, keys),
        )
        if text
    ]


def _version(info: dict[str, Any]) -> str | None:
    text = str(info.get("redis_version", ""))
    found = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if found >= OLDEST_VERSION:
        return None
    return f"Redis {text} is too old: {'.'.join(map(str, OLDEST_VERSION))} or newer is needed."


def _policy(info: dict[str, Any]) -> str | None:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        return None
    return (
        f"maxmemory-policy is {policy}: Redis may throw tickets away; set it to noeviction (TR-10)."
    )


def _role(info: dict[str, Any]) -> str | None:
    if info.get("role", "master") == "master":
        return None
    return "This Redis is a replica and takes no writes; give the address of the master."


def _slots(info: dict[str, Any], prefix: str) -> str | None:
    if not info.get("cluster_enabled") or re.search(r"\{[^}]+\}", prefix):
        return None
    return f"This is a Redis Cluster: the prefix needs a hash tag, like {{{prefix}}} instead of {prefix}."


def _strangers(broker: Broker, keys: Keys) -> list[str]:
    """Keys of ours that hold what no transport has put there: all work of their queue would stand still."""
    try:
        found = _wrong(broker, dict.fromkeys((keys.queues, keys.workers, keys.dispatchers), b"set"))
        if keys.queues not in found:
            [queues] = broker.ask(("SMEMBERS", keys.queues))
            found |= _wrong(broker, _kinds_of(queues, keys))
    except TransportUnavailable as error:
        # A user with the rights of an earlier release may not look.
        if error.reason != "auth":
            raise
        return []
    return [
        f"{key} holds a {kind} that is not ours: somebody else uses this prefix. Set another AIJOBS_REDIS_PREFIX, "
        "or delete the key; no job is lost with it."
        for key, kind in found.items()
    ]


def _kinds_of(queues: Iterable[bytes], keys: Keys) -> dict[str, bytes]:
    stem = keys.queue("")
    names = [
        name.removeprefix(stem)
        for queue in queues
        if (name := queue.decode(errors="replace")).startswith(stem)
    ]
    kinds = {keys.queue(name): b"list" for name in names}
    return kinds | {keys.registry(kind, name): b"zset" for name in names for kind in _REGISTRIES}


def _wrong(broker: Broker, kinds: Mapping[str, bytes]) -> dict[str, str]:
    """Those that hold another kind of value, and which."""
    if not kinds:
        return {}
    answers = broker.ask(*(("TYPE", key) for key in kinds))
    pairs = zip(kinds.items(), answers, strict=True)
    return {key: kind.decode() for (key, wanted), kind in pairs if kind not in (wanted, b"none")}
