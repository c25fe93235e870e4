"""Takes addresses and keys out of an output before it is hashed and stored (X81)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from engine.errors import OutputInvalid

M = TypeVar("M", bound=BaseModel)

#: Stored with each output; raised with every change of the patterns below.
REDACTION_VERSION: Final = "1"

# Each pattern begins with text that is rare, or is bounded, so that no input makes it slow.
_PATTERNS: Final = (
    (
        "private-key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
    ),
    ("token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}")),
    ("token", re.compile(r"(?i:\bbearer\s{1,4})[A-Za-z0-9._~+/-]{16,}=*")),
    (
        "key",
        re.compile(
            r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}"
            r"|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{22,}|\bglpat-[A-Za-z0-9_-]{20,}"
            r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{35}|\bxox[abeprs]-[A-Za-z0-9-]{10,}"
            r"|\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}"
        ),
    ),
    (
        "email",
        re.compile(
            r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"
        ),
    ),
)


class Redactor:
    """Replaces what it finds by numbered placeholders such as ``[email-1]``.

    The same text gets the same placeholder, another one another, all over one output: what was different stays
    different, and the result depends on nothing but the output.
    """

    def __init__(self) -> None:
        """Begin with nothing found."""
        self._numbers: dict[str, dict[str, int]] = {}

    def text(self, text: str) -> str:
        """One text without addresses and keys."""
        for kind, pattern in _PATTERNS:
            text = pattern.sub(lambda found, kind=kind: self._name(kind, found.group()), text)  # type: ignore[misc]
        return text

    def value(self, value: Any) -> Any:
        """Plain data of the same shape; texts that are keys of a mapping are looked at too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def _name(self, kind: str, found: str) -> str:
        numbers = self._numbers.setdefault(kind, {})
        return f"[{kind}-{numbers.setdefault(found, len(numbers) + 1)}]"


def redact_output(output: M) -> M:
    """The same model without email addresses, API keys, tokens and private keys; the model itself if it has none.

    Fits ``SecurityPolicy.redact_output``. Raises :class:`OutputInvalid` where the model's own rules do not allow
    the placeholder, because then nothing may be stored.
    """
    before = output.model_dump(mode="json", by_alias=False, round_trip=True)
    after = Redactor().value(before)
    if after == before:
        return output
    try:
        return type(output).model_validate(after, by_alias=True, by_name=True)
    except ValidationError:
        raise OutputInvalid(
            errors=["The answer holds an address or a key where none may be."]
        ) from None
