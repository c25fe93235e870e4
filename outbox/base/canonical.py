"""One byte string per JSON value: RFC 8785, so that equal values have equal hashes at every depth (PC-3).

What some database could not keep is refused here, before any transaction and alike everywhere: NaN and
Infinity (WL-14), lone surrogates, NUL, integers beyond 64 bits, endless nesting, values that are not JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, NoReturn

import rfc8785

from outbox.base.errors import NotCanonicalError

_INT64 = 2**63
#: Characters of a float without an exponent, its sign included.
_LONGEST_FLOAT = 22
#: Python and RFC 8785 write floats alike from the first of these on and below the second, but for whole ones.
_SMALLEST_ALIKE, _ALIKE_BELOW = 1e-4, 1e16
#: Whole numbers below it are written alike by all.
_EXACT_BELOW = 2**53
#: Far above any real document and far below Python's recursion limit.
MAX_DEPTH = 200


def canonical_bytes(value: Any) -> bytes:
    """The canonical UTF-8 of a JSON value.

    Integers keep all their digits up to 64 bits; RFC 8785 itself stops being exact at 2**53, where
    JavaScript does. Raises :class:`NotCanonicalError`, whose text names the place and never the value.
    """
    # The standard encoder sorts by code point and prints floats in Python's way; where neither can make a
    # difference it does the same in C.
    plain = _check(value, "$", 0)
    return (_PLAIN.encode(value) if plain else _dump(value)).encode("utf-8")


_PLAIN = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


#: What that encoder writes a text with.
_text = encode_basestring


def _integer(digits: str) -> int | float:
    """RFC 8785 writes floats up to 1e21 like integers: one beyond ours that it would write like this was a float."""
    value = int(digits)
    if -_INT64 <= value < _INT64 or len(digits) > _LONGEST_FLOAT:
        return value
    rounded = float(digits)
    return rounded if _dump(rounded) == digits else value


def parse(content: bytes | str) -> Any:
    """Read JSON back; ``NaN``, ``Infinity`` and numbers that overflow to it are refused (WL-14)."""
    try:
        return _PARSER.decode(content if isinstance(content, str) else content.decode("utf-8"))
    except ValueError as error:
        raise NotCanonicalError(f"not JSON: {type(error).__name__}") from None
    except RecursionError:
        raise NotCanonicalError(f"nested deeper than {MAX_DEPTH} levels") from None


def sha256(content: bytes) -> bytes:
    """SHA-256 of ``content``, 32 bytes."""
    return hashlib.sha256(content).digest()


def identity_digest(*parts: str | bytes) -> bytes:
    """SHA-256 over length-prefixed exact bytes: ("a", "bc") and ("ab", "c") never meet (CI-3, X42)."""
    pieces = [b"aijobs-identity-1"]
    for part in parts:
        raw = part.encode("utf-8") if isinstance(part, str) else part
        pieces += (len(raw).to_bytes(8, "big"), raw)
    return hashlib.sha256(b"".join(pieces)).digest()


def _refuse_constant(name: str) -> NoReturn:
    raise NotCanonicalError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotCanonicalError("a number beyond the range of floats")
    return number


_PARSER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer)


def _check(value: Any, place: str, depth: int) -> bool:
    """Refuse what cannot be stored; returns whether the value is plain (see :func:`canonical_bytes`)."""
    check = _CHECKS.get(type(value))
    if check is not None:
        return check(value, place, depth)
    for kind, inherited in _CHECKS.items():
        if isinstance(value, kind):
            inherited(value, place, depth)
            return False
    raise NotCanonicalError(f"{place}: a {type(value).__name__} is not JSON")


def _check_word(_value: Any, _place: str, _depth: int) -> bool:
    return True


def _check_int(value: int, place: str, _depth: int = 0) -> bool:
    if not -_INT64 <= value < _INT64:
        raise NotCanonicalError(f"{place}: an integer beyond 64 bits")
    return True


def _check_float(value: float, place: str, _depth: int = 0) -> bool:
    if not math.isfinite(value):
        raise NotCanonicalError(f"{place}: NaN or Infinity")
    return not value.is_integer() and _SMALLEST_ALIKE <= abs(value) < _ALIKE_BELOW


def _check_text(value: str, place: str, _depth: int = 0) -> bool:
    if "\x00" in value:
        raise NotCanonicalError(f"{place}: a NUL character")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise NotCanonicalError(f"{place}: a lone surrogate") from None
    return True


def _check_object(value: dict[Any, Any], place: str, depth: int) -> bool:
    _refuse_depth(depth)
    plain = True
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotCanonicalError(f"{place}: a member name that is not text")
        _check_text(key, place)
        plain = _check(item, f"{place}.{key[:40]}", depth + 1) and key.isascii() and plain
    return plain


def _check_array(value: list[Any] | tuple[Any, ...], place: str, depth: int) -> bool:
    _refuse_depth(depth)
    plain = True
    for index, item in enumerate(value):
        plain = _check(item, f"{place}[{index}]", depth + 1) and plain
    return plain


def _refuse_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise NotCanonicalError(f"nested deeper than {MAX_DEPTH} levels")


_CHECKS: dict[type, Callable[[Any, str, int], bool]] = {
    type(None): _check_word,
    bool: _check_word,
    str: _check_text,
    int: _check_int,
    float: _check_float,
    dict: _check_object,
    list: _check_array,
    tuple: _check_array,
}


def _dump(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict):
        names = sorted(value) if all(map(str.isascii, value)) else sorted(value, key=_utf16)
        return "{" + ",".join([f"{_text(name)}:{_dump(value[name])}" for name in names]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump, value)) + "]"
    # Integers are ours: the library stops at 2**53, payloads may go to 64 bits (PC-6).
    return _PLAIN.encode(value)


def _number(value: float) -> str:
    if value.is_integer() and abs(value) < _EXACT_BELOW:
        return str(int(value))
    return rfc8785.dumps(value).decode()


def _utf16(name: str) -> bytes:
    """RFC 8785 sorts member names by UTF-16 code units."""
    return name.encode("utf-16-be")
