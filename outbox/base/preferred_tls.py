"""One TLS context for every MySQL and MariaDB connection that was given no certificate to check.

PyMySQL encrypts where the server can, trusting whoever answers. For each connection it reads all certificate
authorities of this machine nevertheless: 30 ms of CPU, and 0.8 MB for as long as the connection stands.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection

if TYPE_CHECKING:
    _Connection = Connection[Any]
else:
    _Connection = Connection


class PreferredTls(_Connection):
    """PyMySQL's connection; only the context of TLS that is preferred, not required, is ours."""

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        # A release that no longer asks here makes contexts of its own again: dearer, never less safe.
        return super()._create_ssl_ctx(sslp) if sslp else _unverified()  # type: ignore[misc]


@cache
def _unverified() -> ssl.SSLContext:
    """As PyMySQL makes it, but for the authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
