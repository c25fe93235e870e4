"""Every error of the engine, with its stable code, whether it is retried, and what an end user may read.

    EngineError
    ├── CreateError .............. a job cannot be created: nothing was written
    ├── JobStateError ............ the job is not in a state that allows this
    └── JobError ................. why an attempt ended (stored as ``error_code``)
        ├── ProviderError ........ PROVIDER_*        retried with backoff
        ├── OutputError .......... VALIDATION_*      retried, the handler sees the last errors
        ├── ContentSafetyError ... CONTENT_SAFETY_*  final
        ├── CredentialError ...... CREDENTIAL_*      final
        ├── SnapshotError ........ SNAPSHOT_*        final
        ├── CommitError .......... COMMIT_*          final
        ├── JobTimeout ........... TIMEOUT           per ``abort_strategy``
        ├── InternalError ........ INTERNAL_*        retried once
        └── LeaseExhausted, ...... LEASE_LOST, DISPATCH_DISCARDED, APPROVAL_EXPIRED ... final

Which class is retried how often is decided in ``engine.pipeline.retry`` alone (design 10).
"""

from __future__ import annotations

from typing import Any

from registry.errors import AiJobsError


class EngineError(AiJobsError):
    """The engine refused or failed an act."""

    code = "INTERNAL_ENGINE"


class SettingsError(EngineError):
    """A setting is missing or wrong."""

    code = "SETTINGS_INVALID"


# ------------------------------------------------------------------ creating


class CreateError(EngineError):
    """The job was not created and nothing was written."""

    code = "CREATE_INVALID"
    #: The field of ``CreateJobInput`` that is at fault, where there is one.
    field: str | None = None

    def __init__(self, message: str | None = None, *, field: str | None = None, **details: Any) -> None:
        super().__init__(message, field=field, **details)
        self.field = field


class InvalidPayloadError(CreateError):
    """The payload does not match the job type's input model."""

    code = "PAYLOAD_INVALID"
    public_message = "The input of this job is not valid."


class PayloadTooLargeError(CreateError):
    """The payload is larger than the limit."""

    code = "PAYLOAD_TOO_LARGE"
    public_message = "The input of this job is too large."


class InvalidCreateFieldError(CreateError):
    """A field of the creation request is missing, too long or malformed."""

    code = "FIELD_INVALID"
    public_message = "A field of this request is not valid."


class IdempotencyConflictError(CreateError):
    """This idempotency key already belongs to a request with other content."""

    code = "IDEMPOTENCY_KEY_REUSED"
    public_message = "This idempotency key was already used for a different request."


class TooManyJobsError(CreateError):
    """The user already has as many unfinished jobs as allowed."""

    code = "TOO_MANY_JOBS"
    retryable = True
    public_message = "You have too many jobs running. Try again when one has finished."


class QuotaExceededError(CreateError):
    """The user's daily or monthly quota is used up."""

    code = "QUOTA_EXCEEDED"
    public_message = "Your quota is used up."


class TransactionNotSupportedError(CreateError):
    """The caller's transaction cannot carry a job safely."""

    code = "TRANSACTION_NOT_SUPPORTED"


class CallerTransactionLostError(EngineError):
    """The database refused a statement inside the caller's transaction, which must now be rolled back."""

    code = "CALLER_TRANSACTION_LOST"
    retryable = True


class PlatformUnavailableError(EngineError):
    """The database cannot be reached."""

    code = "PLATFORM_UNAVAILABLE"
    retryable = True
    public_message = "The service is temporarily unavailable."


# ------------------------------------------------------------------ job state


class JobStateError(EngineError):
    """The job is not in a state that allows this."""

    code = "JOB_STATE"


class JobNotFoundError(JobStateError):
    """There is no such job."""

    code = "JOB_NOT_FOUND"
    public_message = "There is no such job."


class JobNotCancellableError(JobStateError):
    """The job has ended, or its type does not allow cancelling while it runs."""

    code = "JOB_NOT_CANCELLABLE"
    public_message = "This job can no longer be cancelled."


class JobAlreadyCancelledError(JobStateError):
    """The job is cancelled already."""

    code = "JOB_ALREADY_CANCELLED"
    public_message = "This job is already cancelled."


class JobNotRetryableError(JobStateError):
    """Only a failed or cancelled job can be retried as a new one."""

    code = "JOB_NOT_RETRYABLE"
    public_message = "This job cannot be retried."


class SnapshotGoneError(JobStateError):
    """The input of this job has expired, so it cannot be run again."""

    code = "SNAPSHOT_EXPIRED"
    public_message = "The input of this job is no longer stored."


class WaitTimeoutError(EngineError):
    """The job did not end within the time given; it goes on."""

    code = "WAIT_TIMEOUT"
    retryable = True


# ------------------------------------------------------------------ why an attempt ended


class JobError(EngineError):
    """An attempt of a job failed."""

    code = "INTERNAL_UNCLASSIFIED"


class ProviderError(JobError):
    """The model provider failed."""

    code = "PROVIDER_ERROR"
    retryable = True
    public_message = "The AI provider could not answer. It will be tried again where possible."


class ProviderUnavailable(ProviderError):
    """The provider could not be reached; the request was not sent."""

    code = "PROVIDER_UNAVAILABLE"


class ProviderOutcomeUnknown(ProviderError):
    """The request was sent and no answer came back: it may have been carried out and billed (WL-11)."""

    code = "PROVIDER_OUTCOME_UNKNOWN"


class ProviderTimeout(ProviderError):
    """The provider did not answer in time; the outcome of the call is unknown."""

    code = "PROVIDER_TIMEOUT"


class ProviderRateLimited(ProviderError):
    """The provider asked us to wait; this uses no attempt (WL-12)."""

    code = "PROVIDER_RATE_LIMITED"

    def __init__(self, message: str | None = None, *, retry_after_ms: int | None = None, **details: Any) -> None:
        """Take how long the provider asked us to wait, in ms; None where it did not say."""
        super().__init__(message, retry_after_ms=retry_after_ms, **details)
        self.retry_after_ms = retry_after_ms


class ProviderRejected(ProviderError):
    """The provider refused the request as wrong; sending it again would not help."""

    code = "PROVIDER_REJECTED"
    retryable = False
    public_message = "The AI provider refused this request."


class OfflineCannotDo(ProviderRejected):
    """The offline provider works on texts and cannot do this task."""

    code = "PROVIDER_OFFLINE_UNSUPPORTED"
    public_message = "This task needs an AI provider, and none is configured."


class SourceTextUnusable(ProviderRejected):
    """The text holds no words to work on."""

    code = "PROVIDER_INPUT_UNUSABLE"
    public_message = "This text holds nothing to learn from."


class OutputError(JobError):
    """The output is not usable."""

    code = "VALIDATION_OUTPUT"
    retryable = True
    public_message = "The AI answer was not usable."

    def __init__(self, message: str | None = None, *, errors: list[str] | None = None, **details: Any) -> None:
        """Take what was wrong, one sentence each, for the next attempt's prompt (never the output itself)."""
        super().__init__(message, **details)
        self.errors = errors or [str(self)]


class OutputInvalid(OutputError):
    """The output does not match the job type's output model."""

    code = "VALIDATION_OUTPUT"


class OutputTruncated(OutputError):
    """The answer was cut off at the token limit (WL-13)."""

    code = "VALIDATION_TRUNCATED"


class OutputNotStorable(OutputError):
    """The output holds something no database can keep: NaN, Infinity, NUL or a lone surrogate (WL-14)."""

    code = "VALIDATION_NOT_STORABLE"


class OutputTooLarge(OutputError):
    """The output is larger than the limit (WL-15)."""

    code = "VALIDATION_TOO_LARGE"


class ContentSafetyError(JobError):
    """Content safety stopped this job."""

    code = "CONTENT_SAFETY_BLOCKED"
    public_message = "This content cannot be processed."


class ContentFiltered(ContentSafetyError):
    """The provider's content filter stopped the answer (WL-13)."""

    code = "CONTENT_SAFETY_FILTERED"


class CredentialError(JobError):
    """The credential cannot be used."""

    code = "CREDENTIAL_INVALID"
    public_message = "The API key for this job cannot be used. Check it and try again."


class CredentialInvalid(CredentialError):
    """The provider refused the key, or the key does not belong where it was to be used."""

    code = "CREDENTIAL_INVALID"


class CredentialQuotaExhausted(CredentialError):
    """The provider account behind the key has no quota or balance left; waiting does not help."""

    code = "CREDENTIAL_QUOTA_EXHAUSTED"
    public_message = "The account of the API key for this job has no quota left."


class CredentialMissing(CredentialError):
    """No credential of this mode is configured."""

    code = "CREDENTIAL_MISSING"


class CredentialUnreadable(CredentialError):
    """The stored credential cannot be decrypted with the present key set."""

    code = "CREDENTIAL_UNREADABLE"


class SnapshotError(JobError):
    """The stored input cannot be used."""

    code = "SNAPSHOT_UNREADABLE"
    public_message = "The input of this job can no longer be read."


class SnapshotExpired(SnapshotError):
    """The stored input has expired."""

    code = "SNAPSHOT_EXPIRED"


class CommitError(JobError):
    """A commit that a handler made itself was refused, and nothing of it was written."""

    code = "COMMIT_REFUSED"


class CommitInvalid(CommitError):
    """An operation's name, payload, version, change or result cannot be used."""

    code = "COMMIT_INVALID"


class CommitConflict(CommitError):
    """The job has committed this operation already, with another payload."""

    code = "COMMIT_CONFLICT"


class CommitVersionMoved(CommitError):
    """The job has made other commits than the handler expected."""

    code = "COMMIT_VERSION"


class CommitTransactionEnded(CommitError):
    """The change ended the transaction, which belongs to the engine."""

    code = "COMMIT_TRANSACTION"


class QuotaError(JobError):
    """The quota is used up."""

    code = "QUOTA_EXCEEDED"
    public_message = "Your quota is used up."


class JobTimeout(JobError):
    """The attempt took longer than its time limit."""

    code = "TIMEOUT"
    public_message = "This job took too long."


class JobCancelled(JobError):
    """The job was cancelled."""

    code = "CANCELLED"
    public_message = "This job was cancelled."


class InternalError(JobError):
    """Code or infrastructure of ours failed."""

    code = "INTERNAL_ERROR"
    retryable = True


class HandlerError(InternalError):
    """The job's handler raised an unexpected error."""

    code = "INTERNAL_HANDLER"


class ProgressInvalid(HandlerError):
    """The job's handler reported progress that is no finite number, or a note that is no text."""

    code = "INTERNAL_PROGRESS"


class DefinitionRefusesJob(JobError):
    """The job's definition can no longer run it."""

    code = "INTERNAL_DEFINITION"


class LeaseExhausted(JobError):
    """The worker was lost and no attempts are left."""

    code = "LEASE_LOST"


class DispatchDiscarded(JobError):
    """An operator gave up the delivery of this job."""

    code = "DISPATCH_DISCARDED"


#: Codes that stand for themselves where only the text of a row is at hand.
BY_CODE: dict[str, type[JobError]] = {}


def _index(cls: type[JobError]) -> None:
    BY_CODE.setdefault(cls.code, cls)
    for child in cls.__subclasses__():
        _index(child)


_index(JobError)
