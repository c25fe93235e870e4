"""Who may call: tokens of every kind, good and forged, and nobody from outside without one."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from starlette.requests import HTTPConnection

from engine.errors import SettingsError
from engine.http.auth import (
    ADMIN,
    APPROVER,
    SUPER_ADMIN,
    USER,
    Authenticator,
    LoopbackOnly,
    Principal,
    authenticate,
    first_of,
    is_loopback,
)
from engine.http.tokens import KeySetTokens, SharedSecretTokens, TokenFile

SECRET = "a-secret-of-thirty-two-bytes-or-more"
FAR = 4_102_444_800


def connection(
    *headers: tuple[str, str], client: str | None = "203.0.113.9", host: str = "api.example.org"
) -> HTTPConnection:
    raw = [(n.encode(), v.encode()) for n, v in (("host", host), *headers)]
    scope: dict[str, Any] = {"type": "http", "headers": raw, "client": client and (client, 5)}
    return HTTPConnection(scope)


def with_token(token: str) -> HTTPConnection:
    return connection(("authorization", f"Bearer {token}"))


def who(authenticator: Authenticator, request: HTTPConnection) -> Principal | None:
    async def ask() -> Principal | None:
        return await authenticate(authenticator, request)

    return asyncio.run(ask())


def signed(secret: Any = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    return jwt.encode({"sub": "u1", "exp": FAR} | claims, secret, algorithm=algorithm)


# -- signed with a shared secret


def test_signed_token_names_its_caller_and_scopes() -> None:
    tokens = SharedSecretTokens(SECRET)

    assert who(tokens, with_token(signed())) == Principal("u1", frozenset({USER}))
    assert who(tokens, with_token(signed(scope="admin approver other"))) == Principal(
        "u1", frozenset({ADMIN, APPROVER})
    )
    assert who(tokens, with_token(signed(scopes=["SUPER_ADMIN"]))) == Principal(
        "u1", frozenset({SUPER_ADMIN})
    )


@pytest.mark.parametrize(
    "token",
    [
        signed("another-secret-of-thirty-two-bytes!!"),
        signed(exp=1),
        signed(sub=""),
        signed(sub="x" * 129),
        signed(sub="a\nb"),
        signed(nbf=FAR),
        jwt.encode({"sub": "u1"}, SECRET),
        jwt.encode({"exp": FAR}, SECRET),
        jwt.encode({"sub": "u1", "exp": FAR}, SECRET * 2, algorithm="HS512"),
        jwt.encode({"sub": "u1", "exp": FAR}, None, algorithm="none"),
        signed()[:-2],
        "x",
        "a.b.c",
        "..",
    ],
)
def test_token_that_is_not_ours_is_nobodys(token: str) -> None:
    assert who(SharedSecretTokens(SECRET), with_token(token)) is None


def test_issuer_and_audience_must_fit_where_they_are_set() -> None:
    tokens = SharedSecretTokens(SECRET, issuer="me", audience="jobs")

    assert who(tokens, with_token(signed(iss="me", aud="jobs"))) is not None
    for claims in ({"iss": "you", "aud": "jobs"}, {"iss": "me", "aud": "mail"}, {"iss": "me"}, {}):
        assert who(tokens, with_token(signed(**claims))) is None


def test_scopes_of_a_wrong_shape_allow_nothing() -> None:
    for scope in (7, {"admin": True}, [1, None], ""):
        principal = who(SharedSecretTokens(SECRET), with_token(signed(scope=scope)))

        assert principal is not None
        assert principal.scopes == frozenset()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer ")],
        [("authorization", f"Basic {signed()}")],
        [("authorization", signed())],
        [("authorization", f"Bearer {signed()}"), ("authorization", f"Bearer {signed()}")],
    ],
)
def test_request_without_one_bearer_token_is_nobodys(headers: list[tuple[str, str]]) -> None:
    assert who(SharedSecretTokens(SECRET), connection(*headers)) is None


def test_short_secret_is_refused_at_start() -> None:
    with pytest.raises(SettingsError):
        SharedSecretTokens("short")


# -- signed with a key of a key set


class KeyServer:
    """Serves a key set over HTTP and counts how often it was asked for."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = []
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                body = json.dumps({"keys": outer.keys}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    server = KeyServer()
    yield server
    server.close()


RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def published(algorithm: Any, key: Any, kid: str) -> dict[str, Any]:
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}


def signed_by(key: Any, algorithm: str, kid: str = "k1", **claims: Any) -> str:
    return jwt.encode(
        {"sub": "u1", "exp": FAR} | claims, key, algorithm=algorithm, headers={"kid": kid}
    )


@pytest.mark.parametrize(
    ("key", "algorithm", "kind"),
    [(RSA, "RS256", RSAAlgorithm), (EC, "ES256", ECAlgorithm), (ED, "EdDSA", OKPAlgorithm)],
)
def test_token_of_a_published_key_counts(
    key_server: KeyServer, key: Any, algorithm: str, kind: Any
) -> None:
    key_server.keys = [published(kind, key, "k1")]
    tokens = KeySetTokens(key_server.url)

    for _ in range(3):
        principal = who(tokens, with_token(signed_by(key, algorithm, scope="admin")))
        assert principal == Principal("u1", frozenset({ADMIN}))
    assert key_server.asked == 1


def test_unknown_keys_do_not_make_the_server_ask_every_time(key_server: KeyServer) -> None:
    key_server.keys = [published(RSAAlgorithm, RSA, "k1")]
    tokens = KeySetTokens(key_server.url)
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    for number in range(10):
        token = signed_by(stranger, "RS256", kid=f"unknown-{number}")
        assert who(tokens, with_token(token)) is None
    assert who(tokens, with_token(signed_by(stranger, "RS256", kid="k1"))) is None
    assert key_server.asked <= 2


def test_public_key_cannot_be_used_as_a_shared_secret(key_server: KeyServer) -> None:
    """The classic forgery: HS256 over the published key, under its id."""
    key_server.keys = [published(RSAAlgorithm, RSA, "k1")]
    public = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "k1"}).encode())
    body = base64.urlsafe_b64encode(json.dumps({"sub": "root", "exp": FAR}).encode())
    text = head.rstrip(b"=") + b"." + body.rstrip(b"=")
    mark = base64.urlsafe_b64encode(hmac.digest(public, text, "sha256")).rstrip(b"=")

    assert who(KeySetTokens(key_server.url), with_token((text + b"." + mark).decode())) is None


def test_unsigned_token_under_a_known_key_is_nobodys(key_server: KeyServer) -> None:
    key_server.keys = [published(RSAAlgorithm, RSA, "k1")]
    token = jwt.encode({"sub": "u1", "exp": FAR}, None, algorithm="none", headers={"kid": "k1"})

    assert who(KeySetTokens(key_server.url), with_token(token)) is None


def test_key_set_that_cannot_be_had_lets_nobody_in() -> None:
    tokens = KeySetTokens("http://127.0.0.1:9/keys", timeout_s=0.5)

    assert who(tokens, with_token(signed_by(RSA, "RS256"))) is None


def test_key_set_url_that_is_not_http_is_refused_at_start() -> None:
    with pytest.raises(SettingsError):
        KeySetTokens("file:///keys.json")


# -- static tokens


TOKEN = "6dJm3mVYq0tq5pWm"


def test_tokens_of_a_file_have_their_subjects_and_scopes(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"another-token-here").hexdigest()
    path = tmp_path / "tokens"
    path.write_text(f"# ours\n\n{TOKEN} ci user,admin\nsha256:{digest}  bot user\n")
    tokens = TokenFile(path)

    assert who(tokens, with_token(TOKEN)) == Principal("ci", frozenset({USER, ADMIN}))
    assert who(tokens, with_token("another-token-here")) == Principal("bot", frozenset({USER}))
    assert who(tokens, with_token(digest)) is None
    assert who(tokens, with_token(TOKEN[:-1])) is None
    assert who(tokens, connection()) is None


@pytest.mark.parametrize(
    "line",
    ["token-of-16-chars", f"{TOKEN} ci", f"{TOKEN} ci root", "short ci user", f"{TOKEN} a b user",
     "sha256:zz ci user", "", "# nothing"],
)  # fmt: skip
def test_broken_token_file_is_refused_at_start(tmp_path: Path, line: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(line)

    with pytest.raises(SettingsError) as refused:
        TokenFile(path)
    assert TOKEN not in str(refused.value)


def test_missing_token_file_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        TokenFile(tmp_path / "absent")


def test_token_file_is_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.http.tokens._RELOAD_S", 0.0)
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN} ci user\n")
    tokens = TokenFile(path)
    path.write_text("a-token-that-is-new ci user\n")
    os.utime(path, ns=(1, 1))

    assert who(tokens, with_token(TOKEN)) is None
    assert who(tokens, with_token("a-token-that-is-new")) is not None

    path.write_text("broken\n")
    assert who(tokens, with_token("a-token-that-is-new")) is not None
    path.unlink()
    assert who(tokens, with_token("a-token-that-is-new")) is not None


# -- this machine only


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "localhost:80", "127.0.0.1:8000", "[::1]:8000"])
def test_this_machine_may_do_everything(client: str, host: str) -> None:
    principal = who(LoopbackOnly(), connection(client=client, host=host))

    assert principal is not None
    assert principal.may(SUPER_ADMIN)
    assert principal.may(USER)


@pytest.mark.parametrize(
    "request_",
    [
        connection(host="localhost"),
        connection(client=None, host="localhost"),
        connection(client="192.168.0.9", host="localhost"),
        connection(client="127.0.0.1", host="evil.example.org"),
        connection(client="127.0.0.1", host="127.0.0.1.evil.example.org"),
        connection(client="127.0.0.1", host=""),
        connection(("origin", "https://evil.example.org"), client="127.0.0.1", host="localhost"),
        connection(("origin", "null"), client="127.0.0.1", host="localhost"),
        connection(("origin", "http://localhost:81"), client="127.0.0.1", host="localhost:80"),
        connection(("sec-fetch-site", "cross-site"), client="127.0.0.1", host="localhost"),
        connection(("sec-fetch-site", "same-site"), client="127.0.0.1", host="localhost"),
    ],
)
def test_other_machines_and_other_sites_are_nobody(request_: HTTPConnection) -> None:
    assert who(LoopbackOnly(), request_) is None


@pytest.mark.parametrize(
    "headers",
    [
        ("origin", "http://localhost:80"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
    ],
)
def test_page_of_this_server_is_let_in(headers: tuple[str, str]) -> None:
    assert who(LoopbackOnly(), connection(headers, client="127.0.0.1", host="localhost:80"))


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org", "localhost.evil", ""])
def test_what_is_not_this_machine(host: str) -> None:
    assert not is_loopback(host)


# -- together, and scopes


def test_first_authenticator_that_knows_the_caller_counts(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN} ci admin\n")
    both = first_of(SharedSecretTokens(SECRET), TokenFile(path))

    assert who(both, with_token(TOKEN)) == Principal("ci", frozenset({ADMIN}))
    assert who(both, with_token(signed())) == Principal("u1", frozenset({USER}))
    assert who(both, with_token("neither-this-nor-that")) is None


@pytest.mark.parametrize(
    ("own", "may"),
    [
        (USER, {USER}),
        (APPROVER, {APPROVER}),
        ("metrics", {"metrics"}),
        (ADMIN, {ADMIN, USER, "metrics"}),
        (SUPER_ADMIN, {SUPER_ADMIN, ADMIN, APPROVER, USER, "metrics"}),
    ],
)
def test_what_each_scope_allows(own: str, may: set[str]) -> None:
    principal = Principal("u", frozenset({own}))

    assert {s for s in (USER, ADMIN, APPROVER, SUPER_ADMIN, "metrics") if principal.may(s)} == may
