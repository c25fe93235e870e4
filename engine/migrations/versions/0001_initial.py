"""The tables of the first release."""

from __future__ import annotations

from engine.migrations.initial import delivery, jobs, people, results

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table; their definitions stand in ``engine.migrations.initial``."""
    for subject in (delivery, jobs, results, people):
        subject.create()
