"""What a driver is told beyond the URL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa


def connect_arguments(url: sa.URL) -> dict[str, Any]:
    """Arguments for the driver's ``connect``; empty where it needs none."""
    return {"conv": _conversions()} if url.drivername.endswith("+pymysql") else {}


def _conversions() -> dict[Any, Any]:
    """PyMySQL's own, but for instants: it takes them apart with a regular expression, the dearest of all."""
    from pymysql.constants import FIELD_TYPE
    from pymysql.converters import conversions, convert_datetime

    def instant(text: str) -> Any:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            # A zero date of somebody else's table.
            return convert_datetime(text)

    return {**conversions, FIELD_TYPE.DATETIME: instant}
