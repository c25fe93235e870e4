"""The Redis user of a deployment: our keys and the commands we send, nothing else (X85).

The same text serves as a line of an aclfile and, without its first word, as ``ACL SETUSER`` arguments.
"""

from __future__ import annotations

import hashlib

from outbox.transports.rq.keys import Keys

#: Sent as they are: script calls, blocking reads, lengths, leaving, the check at start, and hints for whoever
#: waits for a job; SELECT is needed for a database other than 0.
DIRECT_COMMANDS = (
    "blmove", "blpop", "del", "evalsha", "info", "llen", "publish", "script|load", "select", "smembers", "srem",
    "subscribe", "type", "unsubscribe",
)  # fmt: skip
#: Called by the scripts, for which Redis asks the same user's rights.
SCRIPT_COMMANDS = (
    "del", "exists", "hget", "hincrby", "hmget", "hset", "lindex", "linsert", "llen", "lpop", "lpos",
    "lpush", "lrem", "pexpire", "rpush", "sadd", "scard", "set", "smembers", "srem", "time", "zadd",
    "zrange", "zrangebyscore", "zrem", "zremrangebyscore", "zscore",
)  # fmt: skip


def acl_rules(prefix: str) -> list[str]:
    """Return the rights as ``ACL SETUSER`` tokens; raises ``TransportMisconfigured``."""
    keys = Keys(prefix)
    commands = sorted({*DIRECT_COMMANDS, *SCRIPT_COMMANDS})
    patterns = [f"~{keys.prefix}:*", "resetchannels", f"&{keys.ended}"]
    return [*patterns, "-@all", *(f"+{command}" for command in commands)]


def acl_line(user: str, password: str, prefix: str) -> str:
    """Return the user's line for an aclfile, with the password's digest in place of the password."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    return " ".join(["user", user, "on", f"#{digest}", *acl_rules(prefix)])
