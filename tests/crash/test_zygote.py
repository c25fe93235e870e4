"""The mother of the kit's processes: when the kit is gone, whatever it was doing, she ends all of them and herself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.crashkit.options import Order, Places, Times
from tests.support.wait import eventually

_ZYGOTE = "from engine.crashkit.zygote import main; main()"
#: Nobody listens there, so a worker goes on trying.
_NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def zygote(project_root: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _ZYGOTE], cwd=project_root, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        yield process
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_kit_that_is_killed_while_it_starts_processes_leaves_none(
    zygote: subprocess.Popen[bytes], sqlite_tables_url: str, tmp_path: Path
) -> None:
    places = Places(database_url=sqlite_tables_url, redis_url=_NOWHERE)
    order = Order(name="w", role="worker", places=places, times=Times(), queue="crashkit-001")
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    assert json.loads(zygote.stdout.readline())["event"] == "up"

    # The end that hears goes first, and the order is still in the pipe.
    zygote.stdout.close()
    wanted = {"child": 0, "order": order.to_json(), "log": str(tmp_path / "log")}
    zygote.stdin.write(json.dumps(wanted).encode() + b"\n")
    zygote.stdin.flush()

    eventually(lambda: zygote.poll() is not None, message="the zygote has ended")
    eventually(lambda: not has_members(zygote.pid), message="its children have ended")
