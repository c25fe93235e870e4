"""Which jobs an operator means: the filters of the list, and of what is done to all that match."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from engine.http.bodies import ASCII, PLAIN, Order, Status
from engine.lifecycle.views import JobFilter
from registry.job import LifecycleStatus

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


def _within(moment: datetime) -> datetime:
    """Before every job, or after: no database needs to know more exactly."""
    return min(max(moment, _EARLIEST), _LATEST)


def _iso(value: object) -> object:
    """A time is ISO 8601 text; a bare number is no time, though pydantic would make one of it."""
    if not isinstance(value, str) or "-" not in value[1:]:
        raise ValueError("must be a time such as 2026-10-31T08:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_iso), AfterValidator(_within)]


class WantedJobs(Order):
    """A filter; what is left out restricts nothing. Times are ISO 8601 with an offset."""

    status: list[Status] = Field(default_factory=list, max_length=5)
    job_type: Annotated[str, Field(max_length=64, pattern=ASCII)] | None = None
    queue_name: Annotated[str, Field(max_length=32, pattern=ASCII)] | None = None
    user_id: Annotated[str, Field(max_length=128, pattern=PLAIN)] | None = None
    target_type: Annotated[str, Field(max_length=64, pattern=PLAIN)] | None = None
    target_id: Annotated[str, Field(max_length=255, pattern=PLAIN)] | None = None
    error_code: Annotated[str, Field(max_length=64, pattern=ASCII)] | None = None
    created_from: Moment | None = None
    created_until: Moment | None = None

    def to_filter(self) -> JobFilter:
        """This filter as the repository takes it."""
        return JobFilter(
            statuses=tuple(LifecycleStatus(status) for status in self.status),
            job_type=self.job_type,
            queue_name=self.queue_name,
            user_id=self.user_id,
            target_type=self.target_type,
            target_id=self.target_id,
            error_code=self.error_code,
            created_from=self.created_from,
            created_until=self.created_until,
        )


def wanted_jobs(
    status: Annotated[list[Status] | None, Query(max_length=5)] = None,
    job_type: Annotated[str | None, Query(alias="jobType", max_length=64, pattern=ASCII)] = None,
    queue_name: Annotated[
        str | None, Query(alias="queueName", max_length=32, pattern=ASCII)
    ] = None,
    user_id: Annotated[str | None, Query(alias="userId", max_length=128, pattern=PLAIN)] = None,
    target_type: Annotated[
        str | None, Query(alias="targetType", max_length=64, pattern=PLAIN)
    ] = None,
    target_id: Annotated[str | None, Query(alias="targetId", max_length=255, pattern=PLAIN)] = None,
    error_code: Annotated[
        str | None, Query(alias="errorCode", max_length=64, pattern=ASCII)
    ] = None,
    created_from: Annotated[Moment | None, Query(alias="createdFrom")] = None,
    created_until: Annotated[Moment | None, Query(alias="createdUntil")] = None,
) -> JobFilter:
    """FastAPI dependency: the filter in the query. ``status`` may be given several times."""
    return JobFilter(
        statuses=tuple(LifecycleStatus(one) for one in status or ()),
        job_type=job_type,
        queue_name=queue_name,
        user_id=user_id,
        target_type=target_type,
        target_id=target_id,
        error_code=error_code,
        created_from=created_from,
        created_until=created_until,
    )


Before = Annotated[
    UUID | None, Query(description="Only what is older than this id: the next page.")
]
Limit = Annotated[int, Query(ge=1, le=500)]
