"""The small server that answers a daemon's probes."""

from __future__ import annotations

import socket
from typing import Any

import httpx2
import pytest

from engine.observe.probe import ProbeServer


def test_probes_say_what_was_found() -> None:
    found: list[tuple[int, dict[str, Any]]] = [(200, {"status": "ready"})]
    server = ProbeServer(ready=lambda: found[0], metrics=lambda: ("text/plain", b"x 1\n"))
    with server, httpx2.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        assert client.get("/livez").json() == {"status": "alive"}
        assert client.get("/readyz").status_code == 200
        found[0] = (503, {"status": "not ready"})
        assert client.get("/readyz?x=1").json() == {"status": "not ready"}
        metrics = client.get("/metrics")
        assert (metrics.headers["content-type"], metrics.text) == ("text/plain", "x 1\n")
        assert client.get("/").status_code == 404
        assert client.post("/livez").status_code == 501


def test_check_that_fails_is_not_ready_and_takes_nothing_with_it() -> None:
    def broken() -> tuple[int, dict[str, Any]]:
        raise RuntimeError("secret /srv/path")

    with ProbeServer(ready=broken) as server:
        answer = httpx2.get(f"http://127.0.0.1:{server.port}/readyz")
        assert httpx2.get(f"http://127.0.0.1:{server.port}/livez").status_code == 200
        assert httpx2.get(f"http://127.0.0.1:{server.port}/metrics").status_code == 404

    assert (answer.status_code, answer.json()) == (503, {"status": "failed"})


def test_silent_client_keeps_nobody_out() -> None:
    with (
        ProbeServer(ready=lambda: (200, {})) as server,
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        assert httpx2.get(f"http://127.0.0.1:{server.port}/livez").status_code == 200


def test_port_in_use_is_told_at_once() -> None:
    with ProbeServer(ready=lambda: (200, {})) as server, pytest.raises(OSError, match="in use"):
        ProbeServer(ready=lambda: (200, {}), port=server.port)
