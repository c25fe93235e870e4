"""TLS to MariaDB: used where the server offers it, checked where the URL says by what, and cheap per connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.certificates import make_certificate
from tests.support.migrated import engine_for
from tests.support.servers import MariaDbServer, start_or_skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``server`` and ``stranger``, where the server's account can read them."""
    folder = tmp_path_factory.mktemp("tls")
    for place in (folder, *folder.parents[:2]):
        place.chmod(0o755)
    make_certificate(folder, "stranger")
    return folder


@pytest.fixture(scope="module")
def tls_server(certificates: Path) -> Iterator[MariaDbServer]:
    """A MariaDB that offers TLS and insists on it nowhere."""
    certificate, key = make_certificate(certificates, "server")
    server = start_or_skip(MariaDbServer(options={"ssl-cert": certificate, "ssl-key": key}))
    yield server
    server.stop()


def _cipher(engine: sa.Engine) -> str:
    with engine.connect() as conn:
        return str(conn.execute(sa.text("SHOW SESSION STATUS LIKE 'Ssl_cipher'")).one()[1])


def _contexts(engine: sa.Engine, connections: int) -> list[Any]:
    opened = [engine.raw_connection() for _ in range(connections)]
    try:
        return [one.driver_connection.ctx for one in opened]  # type: ignore[union-attr]
    finally:
        for one in opened:
            one.close()


def test_connections_share_a_context_that_holds_no_authorities(mariadb_url: str) -> None:
    """Each would keep 0.8 MB of certificates that nobody asks."""
    with engine_for(mariadb_url) as first, engine_for(mariadb_url) as second:
        contexts = _contexts(first, 2) + _contexts(second, 1)

    assert len(set(contexts)) == 1
    assert contexts[0].cert_store_stats()["x509"] == 0


def test_a_server_that_offers_tls_is_spoken_to_in_it(tls_server: MariaDbServer) -> None:
    with engine_for(tls_server.url()) as engine:
        assert _cipher(engine) != ""


def test_a_server_without_tls_is_spoken_to_nevertheless(mariadb_url: str) -> None:
    with engine_for(mariadb_url) as engine:
        assert _cipher(engine) == ""


def test_an_authority_in_the_url_is_asked(tls_server: MariaDbServer, certificates: Path) -> None:
    # The certificate names no host
    urls = [
        f"{tls_server.url()}?ssl_ca={certificates / name}.crt&ssl_check_hostname=false"
        for name in ("server", "stranger")
    ]

    with engine_for(urls[0]) as engine:
        assert _cipher(engine) != ""
    with (
        engine_for(urls[1]) as engine,
        pytest.raises(sa.exc.OperationalError, match="certificate verify failed"),
    ):
        _cipher(engine)
