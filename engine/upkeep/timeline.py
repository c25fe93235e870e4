"""A job's life in order: what its rows say about when it was created, delivered, started, billed and ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from engine.lifecycle.views import ClaimView
from outbox.events import EventType
from outbox.queries import EventView
from projectors.protocol import ArtifactRef
from registry.job import JobView


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened; ``at`` is UTC, ``what`` a stable word, ``detail`` names and numbers."""

    at: datetime
    what: str
    detail: Mapping[str, Any] = field(default_factory=dict)


def timeline(
    job: JobView,
    *,
    events: Sequence[EventView] = (),
    claims: Sequence[ClaimView] = (),
    calls: Sequence[Mapping[str, Any]] = (),
    artifacts: Sequence[ArtifactRef] = (),
) -> list[Moment]:
    """Everything that is on record about ``job``, in order of time.

    ``calls`` are rows of ``ai_usage_log``. Words: created, available, published, claimed, called, answered,
    released, cancel_requested, and the final status.
    """
    moments = [Moment(job.created_at, "created", {"jobType": job.job_type, "queue": job.queue_name})]
    if job.available_at > job.created_at and not claims:
        moments.append(Moment(job.available_at, "available"))
    if job.cancel_requested_at is not None:
        moments.append(Moment(job.cancel_requested_at, "cancel_requested"))
    for event in events:
        moments += _of_event(event, claims)
    for claim in claims:
        moments += _of_claim(claim, job)
    for call in calls:
        moments += _of_call(call)
    if job.finished_at is not None:
        moments.append(Moment(job.finished_at, job.lifecycle_status.value, _ending(job, artifacts)))
    return sorted(moments, key=lambda moment: (moment.at, _RANK[moment.what]))


#: Where two things have the same time, cause comes before effect.
_RANK = {
    word: rank
    for rank, word in enumerate(
        ("created", "available", "published", "claimed", "called", "answered", "released",
         "cancel_requested", "succeeded", "failed", "cancelled")
    )
}  # fmt: skip


def _of_event(event: EventView, claims: Sequence[ClaimView]) -> Iterator[Moment]:
    if event.event_type != EventType.ENQUEUE:
        return
    detail = {"queue": event.queue_name, "deliveryNo": event.delivery_no, "by": event.locked_by}
    # It is marked after the ticket was put, and a quick worker has claimed the job by then.
    claimed = [claim.started_at for claim in claims if claim.started_at >= event.created_at]
    if event.published_at is not None:
        yield Moment(min([event.published_at, *claimed]), "published", detail)
    elif event.delivery_no == 1 and claimed:
        # Its creator has put the ticket (ADR 15), or nobody could have claimed it.
        yield Moment(min(claimed), "published", {**detail, "by": None})


def _of_claim(claim: ClaimView, job: JobView) -> Iterator[Moment]:
    detail = {"attempt": claim.attempt_no, "reason": claim.start_reason, "worker": claim.worker}
    yield Moment(claim.started_at, "claimed", detail)
    ended_the_job = job.is_final and claim.epoch == job.epoch
    if claim.ended_at is not None and not ended_the_job:
        yield Moment(claim.ended_at, "released", {"attempt": claim.attempt_no, "errorCode": claim.error_code})


def _of_call(call: Mapping[str, Any]) -> Iterator[Moment]:
    names = ("provider", "model")
    yield Moment(call["created_at"], "called", {name: call[name] for name in names})
    if call["settled_at"] is not None:
        yield Moment(call["settled_at"], "answered", {
            "provider": call["provider"], "model": call["model"], "inputTokens": call["input_tokens"],
            "outputTokens": call["output_tokens"], "latencyMs": call["latency_ms"],
            "errorCode": call["error_code"],
        })  # fmt: skip


def _ending(job: JobView, artifacts: Sequence[ArtifactRef]) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    for ref in artifacts:
        kinds[ref.artifact_type] = kinds.get(ref.artifact_type, 0) + 1
    return {"errorCode": job.error_code, "artifacts": kinds or None}
