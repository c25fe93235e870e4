"""The figures and names that every definition and queue is held to, each with its source."""

from __future__ import annotations

import re
import reprlib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from ``low`` to ``high``, both included, counted in ``unit``."""

    low: int
    high: int
    unit: str = ""

    def holds(self, value: object) -> bool:
        """Whether the value is an int inside the range; True and False are not ints here."""
        return type(value) is int and self.low <= value <= self.high

    def refusal(self, value: object) -> str:
        """The reason to give for a value that the range does not hold."""
        unit = f" {self.unit}" if self.unit else ""
        return f"must be a whole number from {self.low} to {self.high}{unit}, not {shown(value)}"


def shown(value: object) -> str:
    """A value as it may stand in an error message: its repr, cut to a readable length."""
    return reprlib.repr(value)


#: ADR-003 2.2; also what the ticket id can carry unescaped (design 9).
JOB_TYPE: Final = re.compile(r"[a-z][a-z0-9_]{1,63}")
#: Queue names are part of the ticket id, where ``__`` separates: no underscore (design 9).
QUEUE_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
PROJECTOR_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: Schema, prompt and redaction versions stand in columns of this length.
VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")

PRIORITY: Final = Range(0, 100)  # 0 is the top (ADR-003 2.1)
TIMEOUT_MS: Final = Range(1_000, 600_000, "ms")  # ADR-003 2.2
RETRIES: Final = Range(0, 10)  # without the first attempt (ADR-003 2.1)
BACKOFF_MS: Final = Range(1, 3_600_000, "ms")
RETENTION_DAYS: Final = Range(1, 3_650, "days")

CONCURRENCY: Final = Range(1, 10_000)
HEARTBEAT_MS: Final = Range(1, 3_600_000, "ms")
LEASE_MS: Final = Range(3, 86_400_000, "ms")
TRANSPORT_ATTEMPTS: Final = Range(1, 100)
#: Two heartbeats may be lost before a lease is (design 4).
HEARTBEATS_PER_LEASE: Final = 3

LABEL_CHARS: Final = 120
DESCRIPTION_CHARS: Final = 2_000
