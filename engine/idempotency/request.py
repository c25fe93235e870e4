"""What identifies a request: the client's key, whose it is and where it goes, and what it says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.idempotency.errors import IdempotencyKeyInvalid
from outbox.base.canonical import canonical_bytes, identity_digest, parse
from outbox.base.errors import NotCanonicalError

#: Longest key, in characters (X50).
MAX_KEY: Final = 255

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
#: A string of RFC 8941, which the IETF draft makes of the header; a bare value is taken as well.
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """One request with a key. The caller was authenticated before (AH-3); columns stay apart, no joined text.

    ``route`` is method and path; ``fingerprint`` tells whether it is the same request again.
    """

    caller: str = field(repr=False)
    route: str
    key: str = field(repr=False)
    fingerprint: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        """What keys are compared by: exact bytes within caller and route (CI-3, X53)."""
        return identity_digest("http", self.caller, self.route, self.key)


def read_key(values: Sequence[str]) -> str | None:
    """The key in the header's ``values``; None where the header is absent.

    Raises :class:`IdempotencyKeyInvalid` for an empty, over-long or unprintable one, and for two that differ.
    """
    keys = {_read_one(value) for value in values}
    if len(keys) > 1:
        raise IdempotencyKeyInvalid("two different idempotency keys were given")
    return next(iter(keys), None)


def _read_one(value: str) -> str:
    text = value.strip(" \t")
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r'\\(["\\])', r"\1", quoted.group(1)) if quoted else text
    if not _VISIBLE.fullmatch(key) or len(key) > MAX_KEY:
        raise IdempotencyKeyInvalid(f"idempotency key: {len(key)} characters")
    return key


def fingerprint(*, method: str, path: str, query: bytes, body: bytes) -> bytes:
    """What makes a request the same again: where it goes and what its body says.

    JSON is compared as JSON: neither blanks nor the order of members make another request. Anything else
    is compared byte for byte.
    """
    return identity_digest(method.upper(), path, query, _content(body))


def _content(body: bytes) -> bytes:
    try:
        return b"json:" + canonical_bytes(parse(body))
    except (NotCanonicalError, RecursionError):
        return b"raw:" + body
