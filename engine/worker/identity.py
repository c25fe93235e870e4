"""Who this process is. Ownership is decided by the epoch; this name is for people (X05)."""

from __future__ import annotations

import os
import re
import secrets
import socket


def process_name(role: str) -> str:
    """``role.host.pid.random``: another one at each start, at most 100 characters of ``[A-Za-z0-9.-]``."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:48]
    return f"{role}.{host}.{os.getpid()}.{secrets.token_hex(4)}"
