"""Bearer tokens: signed ones (HS256 or a JWKS URL), and static ones from a file. The library that judges a signature
is PyJWT; which algorithms count is fixed here and never read from the token.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import jwt
from pydantic import SecretStr
from starlette.requests import HTTPConnection

from engine.errors import SettingsError
from engine.http.auth import (
    ADMIN,
    APPROVER,
    METRICS,
    SUPER_ADMIN,
    USER,
    Principal,
    bearer,
    valid_subject,
)

#: Shortest secret for HS256, in bytes (RFC 7518 3.2).
MIN_SECRET: Final = 32
#: What a JWKS may be used with; no shared secrets, which would let a public key sign.
ASYMMETRIC: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
#: Clocks of issuer and server may differ by this much, in seconds.
LEEWAY_S: Final = 30
#: How often a token file is looked at for changes, in seconds.
_RELOAD_S: Final = 2.0

_SCOPES: Final = frozenset({USER, ADMIN, APPROVER, SUPER_ADMIN, METRICS})

_log = logging.getLogger("aijobs.http.auth")


class _Signed:
    """What both kinds of signed tokens share: which claims must be there, and what they mean."""

    def __init__(
        self, *, issuer: str | None, audience: str | None, algorithms: Sequence[str]
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._algorithms = list(algorithms)

    def _principal(self, token: str, key: Any) -> Principal | None:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "sub"], "verify_aud": self._audience is not None},
            )
        except jwt.PyJWTError as error:
            _log.info("a token was refused: %s", type(error).__name__)
            return None
        return _of_claims(claims)


class SharedSecretTokens(_Signed):
    """Tokens signed with a secret that issuer and server share (HS256)."""

    def __init__(
        self,
        secret: SecretStr | str,
        *,
        issuer: str | None = None,
        audience: str | None = None,
    ) -> None:
        """Raises :class:`SettingsError` for a secret shorter than 32 bytes."""
        super().__init__(issuer=issuer, audience=audience, algorithms=["HS256"])
        text = secret if isinstance(secret, str) else secret.get_secret_value()
        self._secret = text.encode()
        if len(self._secret) < MIN_SECRET:
            raise SettingsError(f"a secret for HS256 needs at least {MIN_SECRET} bytes")

    def __call__(self, connection: HTTPConnection) -> Principal | None:
        """The caller the token names, or None."""
        token = bearer(connection)
        return None if token is None else self._principal(token, self._secret)


class KeySetTokens(_Signed):
    """Tokens signed with a key of the key set at a JWKS URL (RS, PS, ES or Ed)."""

    def __init__(
        self,
        url: str,
        *,
        issuer: str | None = None,
        audience: str | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        """The key set is fetched when the first token comes, kept for 5 minutes, and asked for again for an unknown
        key at most every 30 s. Raises :class:`SettingsError` for a URL that is not http(s).
        """
        super().__init__(issuer=issuer, audience=audience, algorithms=ASYMMETRIC)
        try:
            self._keys = jwt.PyJWKClient(url, timeout=timeout_s)
        except jwt.PyJWTError as error:
            raise SettingsError(str(error)) from None

    async def __call__(self, connection: HTTPConnection) -> Principal | None:
        """The caller the token names, or None; also while the key set cannot be had."""
        token = bearer(connection)
        if token is None:
            return None
        return await anyio.to_thread.run_sync(self._judge, token)

    def _judge(self, token: str) -> Principal | None:
        try:
            key = self._keys.get_signing_key_from_jwt(token)
        except jwt.PyJWTError as error:
            _log.info("no key for a token: %s", type(error).__name__)
            return None
        return self._principal(token, key)


def _of_claims(claims: Mapping[str, Any]) -> Principal | None:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not valid_subject(subject):
        return None
    return Principal(subject, _scopes(claims))


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """``scope`` as OAuth writes it, or a list ``scopes``; a token without either is a user's."""
    given: Any = claims.get("scope", claims.get("scopes"))
    if given is None:
        return frozenset({USER})
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, list):
        return frozenset()
    return frozenset(word for word in words if isinstance(word, str)) & _SCOPES


# ------------------------------------------------------------------ static tokens


class TokenFile:
    """Static tokens with their subjects and scopes, one a line; the file is read again when it changes.

    # token (or sha256:HEX of it)   subject   scopes
    6dJm...                         ci        user,admin
    """

    def __init__(self, path: str | Path) -> None:
        """Raises :class:`SettingsError` for a file that cannot be read, naming the line at fault."""
        self._path = Path(path)
        self._lock = threading.Lock()
        self._looked_at = time.monotonic()
        self._stamp = self._changed()
        self._principals = self._read()

    def __call__(self, connection: HTTPConnection) -> Principal | None:
        """The caller the token stands for, or None."""
        token = bearer(connection)
        if token is None:
            return None
        # Looked up by digest, so that the time it takes says nothing about other tokens.
        return self._current().get(hashlib.sha256(token.encode()).digest())

    def _current(self) -> dict[bytes, Principal]:
        with self._lock:
            if time.monotonic() - self._looked_at >= _RELOAD_S:
                self._looked_at = time.monotonic()
                self._reload()
            return self._principals

    def _reload(self) -> None:
        try:
            stamp = self._changed()
            if stamp != self._stamp:
                self._principals = self._read()
                self._stamp = stamp
        except SettingsError as error:
            # The tokens that worked go on working; the file says what is wrong with it.
            _log.warning("the token file was not read again: %s", error)

    def _changed(self) -> tuple[int, int, int]:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise SettingsError(f"the token file cannot be read: {type(error).__name__}") from None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> dict[bytes, Principal]:
        try:
            text = self._path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the token file cannot be read: {type(error).__name__}") from None
        found: dict[bytes, Principal] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                digest, principal = _token_line(line, number)
                found[digest] = principal
        if not found:
            raise SettingsError("the token file holds no token")
        return found


def _token_line(line: str, number: int) -> tuple[bytes, Principal]:
    words = line.split()
    if len(words) != 3:
        raise SettingsError(f"token file, line {number}: needs a token, a subject and scopes")
    token, subject, scopes = words[0], words[1], frozenset(words[2].split(","))
    if not valid_subject(subject):
        raise SettingsError(f"token file, line {number}: the subject has more than 128 characters")
    if not scopes <= _SCOPES:
        raise SettingsError(f"token file, line {number}: scopes are {', '.join(sorted(_SCOPES))}")
    return _digest(token, number), Principal(subject, scopes)


def _digest(token: str, number: int) -> bytes:
    if token.startswith("sha256:"):
        try:
            digest = bytes.fromhex(token.removeprefix("sha256:"))
        except ValueError:
            digest = b""
        if len(digest) != 32:
            raise SettingsError(f"token file, line {number}: sha256: needs 64 hex digits")
        return digest
    if len(token) < 16:
        raise SettingsError(f"token file, line {number}: a token needs at least 16 characters")
    return hashlib.sha256(token.encode()).digest()
