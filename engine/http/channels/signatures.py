"""Secrets and signatures, compared in constant time; bodies, read as JSON objects."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Any

from starlette.datastructures import Headers

from engine.http.errors import ProviderEventIdMissing, RequestMalformed
from outbox.base.canonical import parse
from outbox.base.errors import NotCanonicalError
from outbox.inbox import EVENT_ID_CHARS


def same(given: str | None, expected: bytes) -> bool:
    """Whether ``given`` is ``expected``, in a time that says nothing about either."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), expected)


def bearer_or_password(headers: Headers, secret: bytes) -> bool:
    """Whether the request has the secret as its bearer token, or as the password of basic credentials."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return same(value.strip(), secret)
    if kind.lower() != "basic":
        return False
    try:
        text = base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return False
    return same(text.partition(":")[2], secret)


def hmac_hex(secret: bytes, body: bytes) -> bytes:
    """HMAC-SHA256 as hexadecimal digits."""
    return hmac.digest(secret, body, hashlib.sha256).hex().encode()


def hmac_base64(secret: bytes, body: bytes) -> bytes:
    """HMAC-SHA256 in base64."""
    return base64.b64encode(hmac.digest(secret, body, hashlib.sha256))


def json_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object. Raises :class:`RequestMalformed`."""
    try:
        value = parse(body)
    except (NotCanonicalError, RecursionError, UnicodeDecodeError):
        raise RequestMalformed(detail="The event's body is not JSON.") from None
    if not isinstance(value, dict):
        raise RequestMalformed(detail="The event's body is not a JSON object.")
    return value


def event_id(value: Any, name: str) -> str:
    """``value`` as an event id: visible text of at most 256 characters. Raises :class:`ProviderEventIdMissing`."""
    fits = isinstance(value, str) and 1 <= len(value) <= EVENT_ID_CHARS and value.isprintable()
    if not fits or value.isspace():
        raise ProviderEventIdMissing(detail=f"{name} is missing, or cannot be an event's id.")
    return str(value)
