"""What a person sees while jobs run: a bar per job on a terminal, elsewhere little; and why one does not move."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self
from uuid import UUID

from engine.app import AiJobApp
from engine.cli.output import Output, clean, one_line
from engine.cli.rendering import waits_for
from engine.lifecycle import views
from engine.lifecycle.circumstances import Explanation, Why
from registry.job import JobView, LifecycleStatus

#: How often rows are looked at, in seconds; the pause grows to the second figure.
_SHORTEST_S: Final = 0.05
_LONGEST_S: Final = 0.5
#: A job that nobody works on is explained when it has not moved for this many seconds.
STILL_S: Final = 3.0
#: Columns of a terminal from which on there are bars.
_ROOM_FOR_BARS: Final = 60
#: More bars than this are summed up in one.
_MOST_BARS: Final = 12


class Watch:
    """Shows jobs on standard error while it is open. ``names`` are what the jobs are called."""

    def __init__(
        self,
        out: Output,
        names: Mapping[UUID, str],
        *,
        why: Callable[[UUID], Explanation] | None = None,
        tell_ends: bool = False,
    ) -> None:
        """``why`` explains a job that does not move; each reason is told once.

        Without a terminal nothing else is told, but the end of each job where ``tell_ends`` is set.
        """
        self._out = out
        self._names = dict(names)
        self._why = why
        self._tells_ends = tell_ends
        self._ended: set[UUID] = set()
        self._seen: dict[UUID, tuple[object, float]] = {}
        self._reasons: set[Why] = set()
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
        elif self._tells_ends:
            self._tell_ends(jobs)
        if self._why is not None and not self._out.quiet:
            self._explain(jobs.values(), self._why)

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
            self._bars.update(self._tasks[job_id], completed=done, state=state_of(job))
            if job.is_final:
                self._bars.stop_task(self._tasks[job_id])

    # -------------------------------------------------------------- lines

    def _tell_ends(self, jobs: Mapping[UUID, JobView]) -> None:
        for job in jobs.values():
            if job.is_final and job.id not in self._ended:
                self._ended.add(job.id)
                self._say(job, state_of(job))

    def _explain(self, jobs: Iterable[JobView], why: Callable[[UUID], Explanation]) -> None:
        """Say why the first job that stands still does so; the others most likely wait for the same."""
        still = [job for job in jobs if self._stands_still(job)]
        if not still:
            return
        told = why(still[0].id)
        if told.code in self._reasons or (told.code in _MOVING and not told.needs_person):
            return
        self._reasons.add(told.code)
        rest = f" (and {len(still) - 1} more)" if len(still) > 1 else ""
        help_ = f"; {told.command}" if told.command else ""
        self._say(still[0], f"{told.sentence}{help_}{rest}")

    def _stands_still(self, job: JobView) -> bool:
        """Whether nobody holds the job, and nothing of it has changed for a while."""
        state, now = (job.lifecycle_status, job.wait_kind, job.epoch, job.delivery_no), time.monotonic()
        before, since = self._seen.get(job.id, (None, now))
        if state != before:
            self._seen[job.id] = (state, now)
            return False
        return not job.is_final and job.lock_until is None and now - since >= STILL_S

    def _say(self, job: JobView, text: str) -> None:
        line = f"{self._names.get(job.id, job.id)}: {text}"
        if self._bars is not None:
            # Above the bars, which would else be drawn over it
            self._bars.console.print(clean(line), soft_wrap=True, markup=False, highlight=False)
        else:
            self._out.say(line)


#: Answers that only say that it is about to move.
_MOVING: Final = frozenset(
    {Why.OUTBOX_WAITING, Why.OUTBOX_CLAIMED, Why.LEASE_LIVE, Why.SUCCEEDED, Why.FAILED, Why.CANCELLED}
)


def shortened(name: str, longest: int) -> str:
    """Beginning and end of a long name: what it is, and what tells it from the others."""
    if len(name) <= longest:
        return name
    head = longest // 3
    return f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[head + 1 - longest :]}"


#: The key of the one bar that stands for all.
_ALL: Final = UUID(int=0)


def state_of(job: JobView) -> str:
    """Status, progress and attempt in a few words."""
    if job.is_final:
        return f"{job.lifecycle_status.value} {job.error_code}" if job.error_code else job.lifecycle_status.value
    if job.lifecycle_status is LifecycleStatus.QUEUED:
        return "queued"
    attempt = f"attempt {job.attempt_count} of {job.max_attempts}" if job.attempt_count > 1 else ""
    wait = f"waits for {waits_for(job)}" if waits_for(job) else ""
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
