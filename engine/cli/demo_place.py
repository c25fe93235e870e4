"""Where a demo keeps its rows: a SQLite file of its own, so that no other application's jobs are touched."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(".aijobs")
FILE: Final = "demo.db"


@dataclass(frozen=True, slots=True)
class Place:
    """A database for a demo; ``kept`` says whether it is there afterwards."""

    url: str
    kept: bool


@contextmanager
def demo_place() -> Iterator[Place]:
    """``.aijobs/demo.db`` here, or a temporary file where that cannot be written or another demo uses it.

    Two demos on one file would take each other's tickets: each has a Redis of its own inside.
    """
    lock = _locked()
    if lock is not None:
        try:
            yield Place(f"sqlite:///{FOLDER / FILE}", kept=True)
        finally:
            os.close(lock)
        return
    with tempfile.TemporaryDirectory(prefix="aijobs-demo-") as folder:
        yield Place(f"sqlite:///{Path(folder) / FILE}", kept=False)


def _locked() -> int | None:
    """The descriptor that holds the lock of the folder's demo, None where it cannot be had."""
    try:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / FILE).touch()
        descriptor = os.open(FOLDER, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
