"""A process ends with its command, whatever the application's code has left running in it."""

from __future__ import annotations

import signal

import pytest

from engine.cli import daemon
from tests.support.processes import Children

LEFT_BEHIND = {
    "a thread that never ends": "threading.Thread(target=threading.Event().wait).start()",
    "a coroutine that swallows its end": "loop.run_until_complete(asyncio.wait({loop.create_task(deaf())}, timeout=0))",
    "an exit hook that never returns": "atexit.register(threading.Event().wait)",
    "nothing": "pass",
}

PROGRAM = """
import asyncio, atexit, threading
from engine.cli import main, process

async def deaf():
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass

def command():
    global loop
    loop = asyncio.new_event_loop()
    {left}
    print("done", end="")
    return 7

process.FAREWELL_S = 0.1
main.main = command
process.run()
"""


@pytest.mark.parametrize("left", LEFT_BEHIND.values(), ids=LEFT_BEHIND.keys())
def test_process_ends_whatever_was_left_running(children: Children, left: str) -> None:
    child = children.python("-c", PROGRAM.format(left=left))

    assert child.wait(20) == 7
    assert "done" in child.output


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_closed_terminal_stops_a_daemon_in_order_unless_it_was_told_not_to_care(
    monkeypatch: pytest.MonkeyPatch, before: signal.Handlers
) -> None:
    """``nohup aijobs worker`` goes on; without it running jobs are handed back."""
    monkeypatch.setattr(signal, "getsignal", lambda number: before)

    assert (signal.SIGHUP in daemon._signals()) is (before is signal.SIG_DFL)
