"""What Alembic runs for each command; everything it needs comes from ``runner`` in ``config.attributes``."""

from __future__ import annotations

from alembic import context

context.configure(**context.config.attributes["configure"])

with context.begin_transaction():
    context.run_migrations()
