"""Times of jobs, written by the jobs themselves: one record of 16 bytes each, appended in one write.

So every system, whatever its bookkeeping, is timed alike and from outside. The clock is the machine's
monotonic one, which all processes share.
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_RECORD = struct.Struct("dd")
VARIABLE = "BENCH_TICKS"

_file: int | None = None


def tick(began: float = 0.0) -> None:
    """Called by a job: note the present time, and ``began``, when its creation began."""
    global _file
    if _file is None:
        _file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(_file, _RECORD.pack(began, time.monotonic()))


class Ticks:
    """The file of one measurement."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="aijobs-ticks-")
        os.close(handle)
        self.path = Path(name)

    def __len__(self) -> int:
        return self.path.stat().st_size // _RECORD.size

    def read(self) -> list[tuple[float, float]]:
        """(began, ticked) of every job, in the order of the file."""
        data = self.path.read_bytes()
        return list(_RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size]))

    def wait(self, count: int, timeout_s: float) -> bool:
        """Wait until ``count`` jobs have ticked."""
        deadline = time.monotonic() + timeout_s
        while len(self) < count and time.monotonic() < deadline:
            time.sleep(0.005)
        return len(self) >= count

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]
