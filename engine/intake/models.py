"""The table of this package: ``admission_counter``, the row that is locked while limits are on."""

from __future__ import annotations

import sqlalchemy as sa

from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import BinaryUuid, ascii_text, digest_bytes, exact_text

#: How much of a limit one user has used in one window (``open``, a day, a month).
ADMISSION_COUNTER = sa.Table(
    "admission_counter",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("user_id", exact_text(128)),
    column("window", ascii_text(16)),
    column("digest", digest_bytes(), unique=True),
    column("used", sa.Integer),
    **MYSQL_TABLE,
)
