"""Why a request with an idempotency key is not run. A reused key is ``engine.errors.IdempotencyConflictError``."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from engine.errors import EngineError


class IdempotencyError(EngineError):
    """A request with an idempotency key cannot be run."""

    code = "IDEMPOTENCY_REFUSED"


class IdempotencyKeyInvalid(IdempotencyError):
    """The idempotency key must be 1 to 255 visible ASCII characters."""

    code = "IDEMPOTENCY_KEY_INVALID"
    public_message = "Idempotency-Key must be 1 to 255 visible ASCII characters, given once."


class IdempotencyKeyMissing(IdempotencyError):
    """This request needs an idempotency key."""

    code = "IDEMPOTENCY_KEY_MISSING"
    public_message = "This request needs the header Idempotency-Key."


class IdempotencyInProgress(IdempotencyError):
    """A request with this idempotency key is being carried out."""

    code = "IDEMPOTENCY_IN_PROGRESS"
    retryable = True
    public_message = "A request with this idempotency key is in progress. Try again shortly."

    def __init__(
        self,
        message: str | None = None,
        *,
        job_id: UUID | None = None,
        retry_after_s: int = 1,
        **details: Any,
    ) -> None:
        """Take the job that the running request has made, where it has, and when to ask again."""
        super().__init__(message, job_id=job_id, **details)
        self.job_id = job_id
        self.retry_after_s = retry_after_s


class IdempotencyOutcomeUnknown(IdempotencyError):
    """The request with this key ended after something was sent to a provider, and nobody knows with what effect."""

    code = "IDEMPOTENCY_OUTCOME_UNKNOWN"
    public_message = (
        "The first request with this key was interrupted after it had reached a provider. "
        "Whether it took effect is unknown: check, then use a new key."
    )


class IdempotencyAnswerNotKept(IdempotencyError):
    """The request with this key was carried out, but its answer was too large to be kept."""

    code = "IDEMPOTENCY_ANSWER_NOT_KEPT"
    public_message = (
        "The first request with this key was carried out. Its answer was too large to be kept."
    )


class IdempotencyClaimLost(IdempotencyError):
    """Another request has taken this key over meanwhile."""

    code = "IDEMPOTENCY_CLAIM_LOST"
    retryable = True
    public_message = "A request with this idempotency key is in progress. Try again shortly."
