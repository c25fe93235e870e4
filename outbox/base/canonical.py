"""One byte string per JSON value: RFC 8785, so that equal values have equal hashes at every depth (PC-3).

What some database could not keep is refused here, before any transaction and alike everywhere: NaN and
Infinity (WL-14), lone surrogates, NUL, integers beyond 64 bits, values that are not JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NoReturn

import rfc8785

from outbox.base.errors import NotCanonicalError

_INT64 = 2**63


def canonical_bytes(value: Any) -> bytes:
    """The canonical UTF-8 of a JSON value.

    Integers keep all their digits up to 64 bits; RFC 8785 itself stops being exact at 2**53, where
    JavaScript does. Raises :class:`NotCanonicalError`, whose text names the place and never the value.
    """
    _refuse_unstorable(value, "$")
    return _dump(value).encode("utf-8")


def parse(content: bytes | str) -> Any:
    """Read JSON back; ``NaN``, ``Infinity`` and numbers that overflow to it are refused (WL-14)."""
    try:
        value = json.loads(content, parse_constant=_refuse_constant)
    except ValueError as error:
        raise NotCanonicalError(f"not JSON: {type(error).__name__}") from None
    return value


def sha256(content: bytes) -> bytes:
    """SHA-256 of ``content``, 32 bytes."""
    return hashlib.sha256(content).digest()


def identity_digest(*parts: str | bytes) -> bytes:
    """SHA-256 over length-prefixed exact bytes: ("a", "bc") and ("ab", "c") never meet (CI-3, X42)."""
    hasher = hashlib.sha256(b"aijobs-identity-1")
    for part in parts:
        raw = part.encode("utf-8") if isinstance(part, str) else part
        hasher.update(len(raw).to_bytes(8, "big") + raw)
    return hasher.digest()


def _refuse_constant(name: str) -> NoReturn:
    raise NotCanonicalError(f"{name} is not JSON")


def _refuse_unstorable(value: Any, place: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _refuse_text(value, place)
    elif isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            raise NotCanonicalError(f"{place}: an integer beyond 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonicalError(f"{place}: NaN or Infinity")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotCanonicalError(f"{place}: a member name that is not text")
            _refuse_text(key, place)
            _refuse_unstorable(item, f"{place}.{key[:40]}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_unstorable(item, f"{place}[{index}]")
    else:
        raise NotCanonicalError(f"{place}: a {type(value).__name__} is not JSON")


def _refuse_text(text: str, place: str) -> None:
    if "\x00" in text:
        raise NotCanonicalError(f"{place}: a NUL character")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise NotCanonicalError(f"{place}: a lone surrogate") from None


def _dump(value: Any) -> str:
    if isinstance(value, dict):
        members = sorted(value.items(), key=_utf16)
        return "{" + ",".join(f"{_text(k)}:{_dump(v)}" for k, v in members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump, value)) + "]"
    if isinstance(value, float):
        return rfc8785.dumps(value).decode()
    if isinstance(value, str):
        return _text(value)
    # Integers are ours: the library stops at 2**53, payloads may go to 64 bits (PC-6).
    return json.dumps(value)


def _utf16(member: tuple[str, Any]) -> bytes:
    """RFC 8785 sorts member names by UTF-16 code units."""
    return member[0].encode("utf-16-be")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
