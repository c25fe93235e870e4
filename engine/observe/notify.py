"""systemd's readiness protocol: one datagram to the socket it named. Eight lines do not need a package."""

from __future__ import annotations

import logging
import socket

_log = logging.getLogger("aijobs.notify")


class Supervisor:
    """Whoever started this process and wants to know how it stands; None and "" are nobody."""

    def __init__(self, address: str | None) -> None:
        """``address`` is the value of ``NOTIFY_SOCKET``: a path, or ``@name`` for an abstract socket."""
        self._address = address

    def ready(self, status: str) -> None:
        """Say that work can begin."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self, status: str) -> None:
        """Say that the process was asked to stop and is busy doing so."""
        self._send(f"STOPPING=1\nSTATUS={status}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.sendto(message.encode(), address)
        except OSError as error:
            # The service is not worse for it; its supervisor will say that it heard nothing.
            _log.warning("NOTIFY_SOCKET does not answer: %s", type(error).__name__)
