"""Events are unique in the order of their jobs: what is inserted goes to the end of that index, not anywhere in it."""

from __future__ import annotations

from engine.migrations.initial.delivery import OUTBOX_INDEXES, outbox_columns
from engine.migrations.steps import replace_unique

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The job comes before the digest, which makes an index of the job alone needless."""
    replace_unique(
        "outbox_event",
        ["dedupe_digest"],
        ["aggregate_id", "dedupe_digest"],
        columns=outbox_columns(),
        indexes=OUTBOX_INDEXES,
        drop=["ix_outbox_event_aggregate"],
    )
