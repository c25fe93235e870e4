"""The table of this package: ``admission_counter``, the row that is locked while limits are on."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from outbox.base.db import MYSQL_TABLE, Base
from outbox.base.types import BinaryUuid, ascii_text, digest_bytes, exact_text


class AdmissionCounter(Base):
    """How much of a limit one user has used in one window (``open``, a day, a month)."""

    __tablename__ = "admission_counter"

    id: Mapped[UUID] = mapped_column(BinaryUuid, primary_key=True)
    user_id: Mapped[str] = mapped_column(exact_text(128))
    window: Mapped[str] = mapped_column(ascii_text(16))
    digest: Mapped[bytes] = mapped_column(digest_bytes(), unique=True)
    used: Mapped[int] = mapped_column(sa.Integer)

    __table_args__ = (MYSQL_TABLE,)
