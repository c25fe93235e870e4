"""One byte string per JSON value: RFC 8785, so that equal values have equal hashes at every depth (PC-3).

What some database could not keep is refused here, before any transaction and alike everywhere: NaN and
Infinity (WL-14), lone surrogates, NUL, integers beyond 64 bits, endless nesting, values that are not JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NoReturn

import rfc8785

from outbox.base.errors import NotCanonicalError

_INT64 = 2**63
#: Far above any real document and far below Python's recursion limit.
MAX_DEPTH = 200


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
        return json.loads(content, parse_constant=_refuse_constant, parse_float=_finite)
    except ValueError as error:
        raise NotCanonicalError(f"not JSON: {type(error).__name__}") from None
    except RecursionError:
        raise NotCanonicalError(f"nested deeper than {MAX_DEPTH} levels") from None


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


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotCanonicalError("a number beyond the range of floats")
    return number


def _refuse_unstorable(value: Any, place: str, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise NotCanonicalError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotCanonicalError(f"{place}: a member name that is not text")
            _refuse_text(key, place)
            _refuse_unstorable(item, f"{place}.{key[:40]}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_unstorable(item, f"{place}[{index}]", depth + 1)
    elif isinstance(value, str):
        _refuse_text(value, place)
    else:
        _refuse_other_scalar(value, place)


def _refuse_other_scalar(value: Any, place: str) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonicalError(f"{place}: NaN or Infinity")
    elif isinstance(value, int):  # True and False are ints too
        if not -_INT64 <= value < _INT64:
            raise NotCanonicalError(f"{place}: an integer beyond 64 bits")
    elif value is not None:
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
