"""Texts and payloads from files, with every way that a file can be wrong named, and nothing read beyond a limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from engine.cli.errors import UsageMistake

#: Beginnings of files that are not text, and how to make text of them.
_KINDS: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"%PDF-", "a PDF", "make text of it first, for example with pdftotext"),
    (b"PK\x03\x04", "an archive or office document", "make text of it first, for example with pandoc -t plain"),
    (b"\xff\xfe", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\x89PNG", "an image", "give a text file"),
    (b"\xff\xd8\xff", "an image", "give a text file"),
    (b"\x1f\x8b", "compressed", "unpack it first"),
)


def read_text(name: str, *, limit: int, characters: int | None = None) -> str:
    """The text of a file, ``-`` for standard input; ``limit`` in bytes, or in ``characters`` where that is told.

    Raises :class:`UsageMistake` for a file that is missing, a folder, not readable, larger than the limit,
    binary, not UTF-8, or without anything visible.
    """
    if not name:
        raise UsageMistake("the name of a file is empty")
    shown = "standard input" if name == "-" else name
    if characters is not None:
        # UTF-8 takes at most four bytes for one
        limit = min(limit, 4 * characters)
    content = _read(name, shown, limit)
    if len(content) > limit:
        raise _too_large(shown, limit, characters)
    text = _decoded(content, shown)
    if characters is not None and len(text) > characters:
        raise _too_large(shown, limit, characters)
    if not text.strip():
        raise UsageMistake(f"{shown}: is empty")
    return text


def _too_large(shown: str, limit: int, characters: int | None) -> UsageMistake:
    if characters is not None:
        return UsageMistake(f"{shown}: has more than {characters:,} characters", fix="split it into chapters")
    fix = "split it, or raise AIJOBS_PAYLOAD_LIMIT_BYTES"
    return UsageMistake(f"{shown}: is larger than {limit:,} bytes", fix=fix)


def read_payload(argument: str, *, limit: int) -> str:
    """JSON text given as itself, as ``@file``, or as ``-`` for standard input."""
    if argument == "-":
        return read_text("-", limit=limit)
    return read_text(argument[1:], limit=limit) if argument.startswith("@") else argument


def _read(name: str, shown: str, limit: int) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(limit + 1)
        path = Path(name)
        if path.is_dir():
            raise UsageMistake(f"{shown}: is a folder", fix="name the files in it")
        with path.open("rb") as file:
            return file.read(limit + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageMistake(f"{shown}: {why}") from None


def _decoded(content: bytes, shown: str) -> str:
    for beginning, kind, fix in _KINDS:
        if content.startswith(beginning):
            raise UsageMistake(f"{shown}: is {kind}, not UTF-8 text", fix=fix)
    if b"\0" in content:
        raise UsageMistake(f"{shown}: is binary, not text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fix = "convert it, for example: iconv -f LATIN1 -t UTF-8"
        raise UsageMistake(
            f"{shown}: is not UTF-8 text (byte 0x{content[error.start]:02x} at {error.start:,})", fix=fix
        ) from None


def unique(names: list[str]) -> list[str]:
    """``names`` without repetitions, in their order."""
    return list(dict.fromkeys(names))


def read_lines(name: str, *, limit: int) -> list[tuple[int, str]]:
    """The non-empty lines of a file with their numbers, each at most ``limit`` bytes long."""
    found: list[tuple[int, str]] = []
    stream: Any = sys.stdin.buffer if name == "-" else _open(name)
    with stream:
        for number, raw in enumerate(stream, 1):
            if len(raw) > limit + 1:
                raise UsageMistake(f"{name}:{number}: the line is larger than {limit:,} bytes")
            text = _decoded(raw, f"{name}:{number}")
            if text.strip():
                found.append((number, text))
    return found


def _open(name: str) -> Any:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise UsageMistake(f"{name}: {error.strerror}") from None
