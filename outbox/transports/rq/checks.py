"""What must be true of a Redis that carries tickets, asked once at start."""

from __future__ import annotations

import re
from typing import Any

from outbox.errors import TransportUnavailable
from outbox.transports.rq.broker import Broker

#: BLMOVE and LPOP with a count came with it.
OLDEST_VERSION = (6, 2)


def problems(broker: Broker, prefix: str) -> list[str]:
    """Return what is wrong, one sentence each; raises ``TransportUnavailable`` when out of reach."""
    try:
        [info] = broker.ask(("INFO",))
    except TransportUnavailable as error:
        # A wrong password is no missing right.
        if error.reason != "auth" or not re.search(r"\bNOPERM\b|no permissions", str(error)):
            raise
        return ["This Redis user may not call INFO, so the server's settings are unknown."]
    return [
        text for text in (_version(info), _policy(info), _role(info), _slots(info, prefix)) if text
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
