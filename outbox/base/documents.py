"""From a validated model to the bytes that are stored: everything JSON cannot hold is refused, never changed."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel

from outbox.base.canonical import canonical_bytes
from outbox.base.errors import NotCanonicalError


def model_bytes(value: BaseModel) -> bytes:
    """The canonical bytes of ``value``.

    Raises :class:`NotCanonicalError`, whose text never holds a value: for what ``canonical_bytes`` refuses,
    and for what pydantic cannot write as JSON (foreign objects, circles, bytes that are no text).
    """
    try:
        # No warnings: pydantic puts the value in them (promise 7).
        content = canonical_bytes(value.model_dump(mode="json", warnings=False))
        if b"null" in content:
            # In a field without a type pydantic writes NaN as null, without a word (WL-14).
            _refuse_non_finite(value.model_dump(mode="python", warnings=False))
    except (ValueError, TypeError, RecursionError) as error:
        raise NotCanonicalError(f"cannot be written as JSON ({type(error).__name__})") from None
    return content


def _refuse_non_finite(value: Any) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonicalError("NaN or Infinity")
    elif isinstance(value, dict):
        for item in value.values():
            _refuse_non_finite(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            _refuse_non_finite(item)
