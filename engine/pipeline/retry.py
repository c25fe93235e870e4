"""What follows a failed attempt: the only place where retries are decided (design 10, ground rule 10).

A pure function of the error and the job's counts. One budget: the definition's attempts, counted at the
claim. RQ retries nothing, providers retry nothing, the outbox retries only deliveries (TR-6, WL-10).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ProviderRateLimited
from engine.lifecycle.values import Failure
from outbox.base.backoff import exponential
from outbox.base.text import storable
from registry.definition import JobDefinition
from registry.errors import AiJobsError
from registry.job import Outcome, StartReason, WaitKind

#: Claims a job may have in all; a rate limit uses no attempt but must not go on for ever (WL-12).
MAX_CLAIMS = 1_000
#: Longest backoff between two attempts, in ms.
MAX_BACKOFF_MS = 600_000
#: How long to wait when a provider limits the rate without saying for how long, in ms.
DEFAULT_RATE_WAIT_MS = 30_000

#: Sent, and no answer: the provider may have worked and billed (WL-11).
UNKNOWN_OUTCOMES = frozenset({"PROVIDER_OUTCOME_UNKNOWN", "PROVIDER_TIMEOUT"})

#: Frames under this folder are ours and say nothing about a handler's mistake.
_ENGINE = str(Path(__file__).resolve().parents[1])

_NEVER = ("CONTENT_SAFETY_", "CREDENTIAL_", "SNAPSHOT_", "QUOTA_", "CANCELLED")
_FAMILIES = ("PROVIDER_", "VALIDATION_", "PROJECTION_", "COMMIT_", "INTERNAL_", "TIMEOUT", *_NEVER)


@dataclass(frozen=True, slots=True)
class RetryInPlace:
    """The next attempt starts in this worker after ``delay_ms``."""

    delay_ms: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Park:
    """The job gives up lease and slot and comes again after ``delay_ms``."""

    kind: WaitKind
    reason: StartReason
    delay_ms: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Fail:
    """The job has failed."""

    failure: Failure


Decision = RetryInPlace | Park | Fail


@dataclass(frozen=True, slots=True)
class Situation:
    """What the decision depends on beside the error."""

    definition: JobDefinition
    attempt_no: int
    max_attempts: int
    epoch: int
    #: Codes of the attempts before this one.
    earlier_codes: tuple[str, ...]
    backoff_ms: int
    park_from_ms: int
    max_retry_after_ms: int
    #: A provider call was begun and its outcome is not known.
    call_in_flight: bool = False
    #: Whether the text of a handler's own error is kept in the row.
    keep_error_text: bool = False


def decide(error: BaseException, at: Situation, *, jitter: Callable[[], float]) -> Decision:
    """What is to happen after ``error`` ended an attempt."""
    failure = describe(error, keep_text=at.keep_error_text)
    if isinstance(error, ProviderRateLimited) and at.epoch < MAX_CLAIMS:
        return _wait_for_rate(error, failure, at)
    if not _retried(failure.code or "", error, at) or at.attempt_no >= at.max_attempts:
        return Fail(_final(failure, at))
    delay = exponential(at.attempt_no, base_ms=at.backoff_ms, limit_ms=MAX_BACKOFF_MS, jitter=jitter)
    if delay < at.park_from_ms:
        return RetryInPlace(delay, failure)
    return Park(WaitKind.RETRY, StartReason.RETRY, delay, failure)


def describe(error: BaseException, *, keep_text: bool = False) -> Failure:
    """How ``error`` is recorded: a stable code, a sentence for users, and the kind for engineers.

    The text of a foreign error may hold an input or an output, so only its kind and place are kept, unless
    ``keep_text`` says that this deployment wants it in the row; it never gets into a log (promise 7).
    """
    if isinstance(error, AiJobsError):
        code = error.code if error.code.startswith(_FAMILIES) else "INTERNAL_UNCLASSIFIED"
        told = tuple(getattr(error, "errors", ()))
        return Failure(code, error.public_message, f"{type(error).__name__}: {storable(str(error))}", told)
    text = f": {storable(str(error)[:2_000])}" if keep_text else ""
    return Failure("INTERNAL_HANDLER", AiJobsError.public_message, _where(error, text))


def _where(error: BaseException, text: str) -> str:
    """The error's kind and the places it came from: the handler's own, where there are any."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_ENGINE)] or frames
    places = [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(own[-12:])]
    return "\n  at ".join([type(error).__name__ + text, *places])


def _wait_for_rate(error: ProviderRateLimited, failure: Failure, at: Situation) -> Park:
    wanted = DEFAULT_RATE_WAIT_MS if error.retry_after_ms is None else error.retry_after_ms
    delay = max(0, min(wanted, at.max_retry_after_ms))
    return Park(WaitKind.RATE, StartReason.RATE, delay, failure)


def _retried(code: str, error: BaseException, at: Situation) -> bool:
    execution = at.definition.execution
    if _is_unknown(code, at) and execution.on_unknown_outcome == "fail":
        return False
    if code == "TIMEOUT":
        return execution.abort_strategy == "retry"
    if code.startswith(_NEVER):
        return False
    if code.startswith("INTERNAL_"):
        # Once in a job's life: a mistake in code is rarely mended by trying (X25).
        return not any(earlier.startswith("INTERNAL_") for earlier in at.earlier_codes)
    return error.retryable if isinstance(error, AiJobsError) else False


def _is_unknown(code: str, at: Situation) -> bool:
    return code in UNKNOWN_OUTCOMES or at.call_in_flight


def _final(failure: Failure, at: Situation) -> Failure:
    repeatable = at.definition.execution.on_unknown_outcome == "retry"
    unknown = _is_unknown(failure.code or "", at) and not repeatable
    outcome = Outcome.INDETERMINATE if unknown else failure.outcome
    if failure.code == "SNAPSHOT_EXPIRED":
        outcome = Outcome.EXPIRED
    return Failure(failure.code, failure.public, failure.internal, failure.errors, outcome)
