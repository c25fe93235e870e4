"""Receipts of the commits that handlers make themselves."""

from __future__ import annotations

import sqlalchemy as sa

from engine.migrations import columns as c
from engine.migrations.steps import create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create commit_receipt."""
    create_table(
        "commit_receipt",
        c.column("id", c.uuid()),
        c.column("job_id", c.uuid()),
        c.column("operation", c.name(64)),
        c.column("version", sa.Integer()),
        c.column("payload_hash", c.digest()),
        c.column("epoch", sa.Integer()),
        c.column("attempt_no", sa.Integer()),
        c.column("result", c.long_bytes()),
        c.column("created_at", c.moment()),
        unique=[["job_id", "operation"]],
    )
