"""How values read as JSON at every edge: ADR-003's camelCase names, UTC times with a Z, absent for None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from registry.job import JobView


def document(value: Any, **names: str) -> dict[str, Any]:
    """A frozen dataclass or a row as a JSON object; ``names`` renames fields (``id="jobId"``).

    Fields that are None are left out, as ADR-003 7.2 has it for a job's times and errors.
    """
    items = value.items() if isinstance(value, Mapping) else [(f.name, getattr(value, f.name)) for f in fields(value)]
    return {names.get(name) or camel(name): plain(item) for name, item in items if item is not None}


def job_document(job: JobView) -> dict[str, Any]:
    """A job as operators see it: the fields of ADR-003's frozen answer and all others of its row."""
    return document(job, id="jobId")


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def camel(name: str) -> str:
    """``finished_at`` -> ``finishedAt``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
