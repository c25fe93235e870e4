"""The scripts: read from package data, shared parts put in, known by their digests."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

_INCLUDE = re.compile(r"^-- @include (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One act on Redis. All are safe to send again: see each file for what a repetition finds."""

    name: str
    text: str = field(repr=False)
    #: How Redis names it; SHA-1 is Redis's choice and guards nothing.
    sha: str


@cache
def script(name: str) -> Script:
    """Return the script of that name (a file in ``scripts/``)."""
    text = _INCLUDE.sub(lambda found: _read(f"lib/{found[1]}"), _read(name))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _read(name: str) -> str:
    folder = resources.files("outbox.transports.rq") / "scripts"
    return folder.joinpath(f"{name}.lua").read_text("utf-8")
