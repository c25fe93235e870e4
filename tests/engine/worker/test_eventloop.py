"""What a job's code does to the event loop beside its own attempt."""

from __future__ import annotations

import asyncio
import sys

import pytest

from engine.worker.eventloop import run_to_end


async def _work(over: asyncio.Event) -> str:
    await over.wait()
    return "finished"


def test_loop_that_is_stopped_by_a_job_goes_on() -> None:
    async def main() -> str:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.call_soon(loop.stop)
        loop.call_later(0.01, over.set)
        return await _work(over)

    assert run_to_end(main()) == "finished"


@pytest.mark.parametrize("from_", ["callback", "task"])
def test_system_exit_beside_the_jobs_lets_them_come_to_their_end(from_: str) -> None:
    over: list[asyncio.Event] = []
    finished: list[str] = []

    async def leave() -> None:
        sys.exit(3)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        over.append(asyncio.Event())
        stray = loop.create_task(leave()) if from_ == "task" else loop.call_soon(sys.exit, 3)
        finished.append(await _work(over[0]))
        del stray

    with pytest.raises(SystemExit) as left:
        run_to_end(main(), leaving=lambda: over[0].set())

    assert (left.value.code, finished) == (3, ["finished"])


def test_error_of_the_work_itself_is_raised() -> None:
    async def main() -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run_to_end(main())
