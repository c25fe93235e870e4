"""What a person sees while jobs run: a bar per job on a terminal, a line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self
from uuid import UUID

from engine.app import AiJobApp
from engine.cli.output import Output, one_line
from engine.lifecycle import views
from registry.job import JobView, LifecycleStatus

#: How often rows are looked at, in seconds; the pause grows to the second figure.
_SHORTEST_S: Final = 0.05
_LONGEST_S: Final = 0.5
#: A job that does not change is mentioned again after this many seconds where there are no bars.
_REMIND_S: Final = 10.0
#: Columns of a terminal from which on there are bars.
_ROOM_FOR_BARS: Final = 60
#: More bars than this are summed up in one.
_MOST_BARS: Final = 12


class Watch:
    """Shows jobs on standard error while it is open. ``names`` are what the jobs are called."""

    def __init__(self, out: Output, names: Mapping[UUID, str]) -> None:
        self._out = out
        self._names = dict(names)
        self._seen: dict[UUID, tuple[str, float]] = {}
        self._bars: Any = None
        self._tasks: dict[UUID, Any] = {}

    def __enter__(self) -> Self:
        if self._out.talks_to_terminal and not self._out.quiet:
            self._open_bars()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, jobs: Mapping[UUID, JobView]) -> None:
        """Show the present state of jobs."""
        if self._bars is not None:
            self._move_bars(jobs)
        elif not self._out.quiet:
            for job in jobs.values():
                self._say(job)

    # -------------------------------------------------------------- bars

    def _open_bars(self) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        console = self._out.talk_console()
        columns: list[ProgressColumn] = [
            SpinnerColumn(finished_text=" "), TextColumn("{task.description}", markup=False),
        ]  # fmt: skip
        # In a narrow terminal words go before pictures.
        bar = 0 if console.width < _ROOM_FOR_BARS else 10 if console.width < 80 else 24
        if bar:
            columns.append(BarColumn(bar_width=bar))
        columns.append(TextColumn("{task.fields[state]}", markup=False))
        if bar:
            columns.append(TimeElapsedColumn())
        self._bars = Progress(*columns, console=console)
        self._bars.start()
        if len(self._names) > _MOST_BARS:
            self._tasks[_ALL] = self._bars.add_task(f"{len(self._names)} jobs", total=len(self._names), state="")
            return
        room = max(8, console.width - bar - 26)
        names = {job_id: shortened(name, room) for job_id, name in self._names.items()}
        width = max(map(len, names.values()), default=0)
        for job_id, name in names.items():
            self._tasks[job_id] = self._bars.add_task(one_line(name).ljust(width), total=100, state="")

    def _move_bars(self, jobs: Mapping[UUID, JobView]) -> None:
        if _ALL in self._tasks:
            ended = sum(job.is_final for job in jobs.values())
            self._bars.update(self._tasks[_ALL], completed=ended, state=f"{ended} ended")
            return
        for job_id, job in jobs.items():
            done = 100 if job.is_final else job.progress
            self._bars.update(self._tasks[job_id], completed=done, state=_state(job))
            if job.is_final:
                self._bars.stop_task(self._tasks[job_id])

    # -------------------------------------------------------------- lines

    def _say(self, job: JobView) -> None:
        state, now = _state(job), time.monotonic()
        before, since = self._seen.get(job.id, ("", now))
        if state == before and now - since < _REMIND_S:
            return
        self._seen[job.id] = (state, now)
        self._out.say(f"{self._names.get(job.id, job.id)}: {state}")


def shortened(name: str, longest: int) -> str:
    """Beginning and end of a long name: what it is, and what tells it from the others."""
    if len(name) <= longest:
        return name
    head = longest // 3
    return f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[head + 1 - longest :]}"


#: The key of the one bar that stands for all.
_ALL: Final = UUID(int=0)


def _state(job: JobView) -> str:
    if job.is_final:
        return f"{job.lifecycle_status.value} {job.error_code}" if job.error_code else job.lifecycle_status.value
    if job.lifecycle_status is LifecycleStatus.QUEUED:
        return "queued"
    attempt = f"attempt {job.attempt_count} of {job.max_attempts}" if job.attempt_count > 1 else ""
    wait = f"waits ({job.wait_kind.value})" if job.wait_kind else ""
    note = one_line(job.progress_note) if job.progress_note else ""
    percent = f"{job.progress} %" if job.progress else ""
    return " ".join(part for part in ("running", percent, attempt, wait, note) if part)


def wait_for(
    app: AiJobApp,
    job_ids: Sequence[UUID],
    watch: Watch,
    *,
    timeout_s: float | None = None,
    until: Callable[[Mapping[UUID, JobView]], bool] | None = None,
) -> tuple[dict[UUID, JobView], bool]:
    """Watch rows until all jobs have ended, or ``until`` says so, or the time is up.

    Returns the jobs as they were last seen, and whether that was the end and not the time.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    enough = until or (lambda jobs: all(job.is_final for job in jobs.values()))
    pause = _SHORTEST_S
    while True:
        jobs = app.uow.read(lambda conn: views.load(conn, job_ids))
        watch.show(jobs)
        if enough(jobs):
            return jobs, True
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return jobs, False
        time.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.3, _LONGEST_S)
