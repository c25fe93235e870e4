"""W3C trace context, where OpenTelemetry is installed: a job's work belongs to the trace of its creation.

Only the API is used; without an SDK configured by the host nothing is recorded. Spans carry ids and names,
never an input or an output.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from registry.job import JobView

_HEADER = "traceparent"


@cache
def _api() -> Any | None:
    try:
        from opentelemetry import propagate, trace
    except ImportError:
        return None
    return propagate, trace


def current_traceparent() -> str | None:
    """The caller's trace context as a ``traceparent``, or None."""
    api = _api()
    if api is None:
        return None
    propagate, _trace = api
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier.get(_HEADER)


def processing(job: JobView, traceparent: str | None, *, attempt_no: int) -> AbstractContextManager[Any]:
    """A span for one claim of ``job`` in the trace that created it; nothing where there was none."""
    api = _api()
    if api is None or traceparent is None:
        return nullcontext()
    propagate, trace = api
    context = propagate.extract({_HEADER: traceparent})
    span: AbstractContextManager[Any] = trace.get_tracer("aijobs").start_as_current_span(
        f"process {job.queue_name}",
        context=context,
        kind=trace.SpanKind.CONSUMER,
        attributes={
            "messaging.system": "aijobs",
            "messaging.destination.name": job.queue_name,
            "messaging.message.id": str(job.id),
            "aijobs.job.type": job.job_type,
            "aijobs.job.attempt": attempt_no,
        },
    )
    return span
