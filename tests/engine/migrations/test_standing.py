"""What daemons ask at their start says the same as Alembic, and does not load it."""

from __future__ import annotations

import subprocess
import sys

import sqlalchemy as sa

from engine.migrations import runner, standing
from engine.migrations.scope import VERSION_TABLE


def test_the_newest_revision_is_the_head() -> None:
    assert standing.newest() == runner.head()


def test_only_the_newest_revision_is_current(engine: sa.Engine) -> None:
    assert not standing.is_current(engine)

    runner.upgrade(engine)
    assert standing.is_current(engine)

    with engine.begin() as conn:
        conn.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0000'"))
    assert not standing.is_current(engine)


def test_a_process_is_ready_on_tables_of_its_release_or_a_later_one(engine: sa.Engine) -> None:
    """In a rolling update the tables are newer than the processes that are still there."""
    assert not standing.is_recent(engine)

    runner.upgrade(engine)
    for revision, recent in (("0000", False), (standing.newest(), True), ("9999", True)):
        with engine.begin() as conn:
            conn.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))
        assert standing.is_recent(engine) is recent


def test_asking_does_not_load_alembic() -> None:
    code = "import sys; import engine.migrations.standing; sys.exit('alembic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
