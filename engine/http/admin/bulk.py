"""The same for all jobs that match: cancel or retry, a batch at a time, with a dry run first.

Each job is a transaction of its own; one that has moved on meanwhile is skipped and told. A caller goes on with
``next`` until there is none, so a request stays short whatever matches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response
from pydantic import Field

from engine.http.admin.acts import Operator
from engine.http.admin.filters import WantedJobs
from engine.http.admin.jobs import cancel, retry, shown
from engine.http.bodies import JSON_NUMBER, Body, Order, Reason255
from engine.http.edge import Edge
from engine.lifecycle import views
from engine.lifecycle.views import JobFilter
from outbox.base.errors import DatabaseError
from registry.errors import AiJobsError
from registry.job import JobView, LifecycleStatus

#: Counting stops here: more is told as "at least".
_COUNT_LIMIT = 10_000


class BulkOrder(Order):
    """What to do to which jobs. ``filter`` narrows them down; without a dry run first, mind what it says."""

    filter: WantedJobs
    dry_run: bool = Field(default=True, strict=True, description="Only say how many match.")
    reason: Reason255 | None = None
    before: UUID | None = Field(default=None, description="Go on from here.")
    limit: Annotated[int, Field(ge=1, le=500), JSON_NUMBER] = 100


class Skipped(Body):
    """A job that was left alone, and why."""

    job_id: UUID
    code: str


class BulkAnswer(Body):
    """What was done. ``matched`` counts all that match, up to 10 000."""

    dry_run: bool
    matched: int
    done: int = 0
    skipped: list[Skipped] = Field(default_factory=list)
    next: UUID | None = None


#: Does the thing to one job.
One = Callable[[Operator, JobView, str | None], object]


def bulk_routes(router: APIRouter, edge: Edge, operator: Any) -> None:
    """Add the routes to ``router``."""

    @router.post("/bulk/cancel", response_model=BulkAnswer)
    def cancel_all(order: BulkOrder, who: Operator = Depends(operator)) -> Response:
        """Cancel all open jobs that match."""
        open_ = (LifecycleStatus.QUEUED, LifecycleStatus.RUNNING)
        return shown(_run(who, order, open_, lambda who, job, why: cancel(who, job.id, why)))

    @router.post("/bulk/retry", response_model=BulkAnswer)
    def retry_all(order: BulkOrder, who: Operator = Depends(operator)) -> Response:
        """Make all failed and cancelled jobs that match anew."""
        ended = (LifecycleStatus.FAILED, LifecycleStatus.CANCELLED)
        return shown(_run(who, order, ended, lambda who, job, why: retry(who, job.id, why)))


def _run(
    who: Operator, order: BulkOrder, possible: tuple[LifecycleStatus, ...], one: One
) -> BulkAnswer:
    wanted = _narrowed(order.filter.to_filter(), possible)
    uow = who.edge.app.uow
    matched = uow.read(lambda conn: views.count(conn, wanted, limit=_COUNT_LIMIT))
    if order.dry_run or not wanted.statuses:
        return BulkAnswer(dry_run=order.dry_run, matched=matched if wanted.statuses else 0)
    jobs = uow.read(lambda conn: views.page(conn, wanted, before=order.before, limit=order.limit))
    skipped = []
    for job in jobs:
        try:
            one(who, job, order.reason)
        except DatabaseError:
            raise
        except AiJobsError as error:
            skipped.append(Skipped(job_id=job.id, code=error.code))
    return BulkAnswer(
        dry_run=False,
        matched=matched,
        done=len(jobs) - len(skipped),
        skipped=skipped,
        next=jobs[-1].id if len(jobs) == order.limit else None,
    )


def _narrowed(wanted: JobFilter, possible: tuple[LifecycleStatus, ...]) -> JobFilter:
    """Only states in which the thing is possible at all; none is left where only others were asked for."""
    statuses = tuple(s for s in wanted.statuses if s in possible) if wanted.statuses else possible
    values = {name: getattr(wanted, name) for name in JobFilter.__dataclass_fields__}
    return JobFilter(**values | {"statuses": statuses})
