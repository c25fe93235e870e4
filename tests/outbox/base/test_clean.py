"""What a unit leaves open is nobody else's to commit."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox.base.db import UnitOfWork
from outbox.base.later import write_later
from tests.outbox.base.notes import read, write


@pytest.mark.parametrize("kept", [False, True], ids=["sent", "kept for the COMMIT"])
def test_transaction_that_foreign_code_sends_home_is_rolled_back(
    engine: sa.Engine, kept: bool
) -> None:
    """As a projector does that closes the driver's connection under the unit."""
    uow = UnitOfWork(engine)
    uow.run(lambda conn: write(conn, n=1))

    with engine.connect() as conn:
        if kept:
            write_later(conn, "DELETE FROM note", ())
        else:
            conn.execute(sa.text("DELETE FROM note"))
        conn.connection.close()

    uow.run(lambda conn: conn.execute(sa.text("SELECT 1")).all())
    assert uow.read(read) == [1]


def test_clean_connection_costs_no_trip(engine: sa.Engine) -> None:
    uow = UnitOfWork(engine)
    uow.run(lambda conn: write(conn, n=1))
    connection = engine.raw_connection()
    rolled_back: list[bool] = []
    driver = connection.dbapi_connection
    assert driver is not None

    class Watched:
        """The driver's connection, and whether it is told to roll back."""

        def __getattr__(self, name: str) -> object:
            if name == "rollback":
                rolled_back.append(True)
            return getattr(driver, name)

    engine.pool.dispatch.reset(Watched(), None, None)  # type: ignore[attr-defined]
    connection.close()

    assert rolled_back == []
