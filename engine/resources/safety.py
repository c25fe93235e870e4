"""Content safety: what may go to a provider, and what may be kept of its answer (X81).

    check_input    before anything leaves for a provider
    check_output   after validation, before redaction, hash and storage

A deployment plugs in its own :class:`ContentSafety`, for example a moderation service. :class:`BlockList` is the
built-in one: it knows only the words it is given.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from pydantic import BaseModel

from engine.errors import ContentSafetyError


class ContentSafety(Protocol):
    """Looks at content and lets it pass, or raises :class:`~engine.errors.ContentSafetyError` (final).

    Any other exception means that the check itself failed: the attempt fails and is retried, and nothing is
    sent or stored unchecked. ``content`` is a pydantic model or plain data.
    """

    async def check_input(self, content: Any, *, job_type: str) -> None:
        """Judge a job's validated input."""
        ...

    async def check_output(self, content: Any, *, job_type: str) -> None:
        """Judge a job's validated output."""
        ...


#: Scripts that put no spaces between words, where a word has no border to look for.
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
_SPACE: Final = re.compile(r"\s+")


class BlockList:
    """Refuses content that holds one of the given words or phrases; without any it lets everything pass.

    Letter case, full-width forms, accents written in two ways and amounts of space make no difference. Words
    of spaced scripts match whole words only.
    """

    def __init__(self, terms: Iterable[str] = ()) -> None:
        """Take the words and phrases; empty ones are left out."""
        folded = dict.fromkeys(filter(None, map(_fold, terms)))
        self._pattern = re.compile("|".join(map(_as_pattern, folded))) if folded else None

    async def check_input(self, content: Any, *, job_type: str) -> None:
        """Raise :class:`ContentSafetyError` where a term occurs."""
        self._check(content, "input")

    async def check_output(self, content: Any, *, job_type: str) -> None:
        """Raise :class:`ContentSafetyError` where a term occurs."""
        self._check(content, "output")

    def _check(self, content: Any, place: str) -> None:
        if self._pattern is None:
            return
        for text in texts_of(content):
            if self._pattern.search(_fold(text)):
                # Which term it was would tell what the content says.
                raise ContentSafetyError(f"The {place} holds a blocked term.", place=place)


def texts_of(content: Any) -> Iterator[str]:
    """Every text in ``content``, keys included, in order."""
    if isinstance(content, BaseModel):
        content = content.model_dump(mode="json")
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from texts_of(key)
            yield from texts_of(value)
    elif isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        for item in content:
            yield from texts_of(item)


def _fold(text: str) -> str:
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _as_pattern(term: str) -> str:
    escaped = re.escape(term)
    return escaped if _UNSPACED.search(term) else rf"(?<!\w){escaped}(?!\w)"
