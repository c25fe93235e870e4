"""No connection goes back to the pool with a transaction open: its next user would commit a stranger's writes.

Every unit ends its own transaction, so nothing is sent here. The driver knows without asking whether one is
open, as after foreign code has closed the driver's connection under a unit.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from outbox.base.later import forget
from outbox.base.outcome import forget_outcome

#: Of MySQL's protocol: a transaction is open.
_IN_TRANSACTION: Final = 1
#: Of libpq: open, and open after an error.
_OPEN: Final = (2, 3)


def keep_clean(engine: sa.Engine) -> None:
    """Let ``engine``, whose pool sends no ROLLBACK of its own, roll back what a connection brings home."""
    sa.event.listen(engine, "reset", _leave_nothing)


def _leave_nothing(connection: Any, record: Any, _state: Any) -> None:
    forget(connection)
    forget_outcome({} if record is None else record.info)
    if _is_open(connection):
        connection.rollback()


def _is_open(connection: Any) -> bool:
    if hasattr(connection, "server_status"):
        return bool((connection.server_status or 0) & _IN_TRANSACTION)
    if hasattr(connection, "in_transaction"):
        return bool(connection.in_transaction)
    status = getattr(getattr(connection, "info", None), "transaction_status", 0)
    return status in _OPEN
