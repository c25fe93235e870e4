"""The root of the error tree, and every way a job definition can be refused.

AiJobsError
├── RegistryError ...... a definition, a queue or a look-up is wrong   (this module)
│   ├── DefinitionError ....... one class for each field a definition can get wrong
│   ├── QueueSpecError ........ one class for each field a queue can get wrong
│   ├── UnknownJobTypeError, UnknownQueueError ..... a look-up found nothing
│   ├── PromptValuesError ..... a prompt was given an input without one of its fields
│   └── RegistryFrozenError ... something was registered after the start
├── OutboxError ........ an event cannot be stored or moved on         (outbox.errors)
├── TransportError ..... Redis, or a ticket, is in the way             (outbox.errors)
├── ProjectionError .... an output cannot become business rows         (projectors.errors)
└── EngineError ........ creating, running and ending jobs             (engine.errors)
"""

from __future__ import annotations

from typing import Any, ClassVar


class AiJobsError(Exception):
    """Something in aijobs went wrong."""

    #: Stable name for programs: it appears in rows, answers and exit messages.
    code: ClassVar[str] = "INTERNAL_UNCLASSIFIED"
    #: Whether the same act may succeed later without anybody changing anything.
    retryable: ClassVar[bool] = False
    #: What an end user may read; never a path, an address, a key or a stack.
    public_message: ClassVar[str] = "Something went wrong on our side."

    def __init__(self, message: str | None = None, **details: Any) -> None:
        """Take the text for engineers (default: the first doc sentence), details for programs."""
        super().__init__(message or _first_line(type(self)))
        self.details: dict[str, Any] = details


def _first_line(cls: type) -> str:
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


class RegistryError(AiJobsError):
    """The registry refused a definition, a queue or a look-up."""

    code = "REGISTRY_ERROR"

    def __init__(
        self, why: str | None = None, *, field: str | None = None, owner: str = "", **details: Any
    ) -> None:
        """Take why it is refused, the dotted field at fault and whose field it is.

        The message reads ``owner: field why``, as in
        ``job type 'quiz': execution.timeout_ms must be 1000 to 600000 ms, not 5``.
        """
        self.field = field
        self.why = why or _first_line(type(self))
        sentence = f"{field} {why}" if field and why else self.why
        super().__init__(f"{owner}: {sentence}" if owner else sentence, field=field, **details)


# ------------------------------------------------------------------ look-ups and life


class UnknownJobTypeError(RegistryError):
    """No definition is registered for this job type."""

    code = "JOB_TYPE_UNKNOWN"
    public_message = "This type of job does not exist."


class UnknownQueueError(RegistryError):
    """No queue of this name is configured."""

    code = "QUEUE_UNKNOWN"


class RegistryFrozenError(RegistryError):
    """The registry is frozen: register every definition before the app starts."""

    code = "REGISTRY_FROZEN"


class PromptValuesError(RegistryError):
    """The input has no value for a field that the prompt names."""

    code = "PROMPT_VALUES"


# ------------------------------------------------------------------ definitions


class DefinitionError(RegistryError):
    """A job definition is not valid."""

    code = "DEFINITION_INVALID"


class DuplicateJobDefinitionError(DefinitionError):
    """This job type already has a definition."""

    code = "DEFINITION_DUPLICATE"


class InvalidJobTypeError(DefinitionError):
    """The job type is not a lower-case snake_case name of 2 to 64 characters."""

    code = "DEFINITION_JOB_TYPE"


class InvalidPolicyError(DefinitionError):
    """A part of the definition is not the policy class that belongs there."""

    code = "DEFINITION_POLICY"


class InvalidMetadataError(DefinitionError):
    """The label, description, domain or version of a definition is not valid."""

    code = "DEFINITION_METADATA"


class InvalidQueueError(DefinitionError):
    """The definition names a queue that is not configured."""

    code = "DEFINITION_QUEUE"


class InvalidPriorityError(DefinitionError):
    """The priority is not a whole number from 0 (top) to 100."""

    code = "DEFINITION_PRIORITY"


class InvalidTimeoutError(DefinitionError):
    """The time limit of an attempt is outside 1 s to 10 min."""

    code = "DEFINITION_TIMEOUT"


class InvalidRetriesError(DefinitionError):
    """The number of retries is outside 0 to 10."""

    code = "DEFINITION_RETRIES"


class InvalidBackoffError(DefinitionError):
    """The delay before the first retry is outside 1 ms to 1 h, or its type is unknown."""

    code = "DEFINITION_BACKOFF"


class InvalidCancellableError(DefinitionError):
    """Whether a running job can be cancelled must be True or False."""

    code = "DEFINITION_CANCELLABLE"


class InvalidAbortStrategyError(DefinitionError):
    """What follows a time-out must be 'fail' or 'retry'."""

    code = "DEFINITION_ABORT_STRATEGY"


class InvalidUnknownOutcomeError(DefinitionError):
    """What follows a provider call of unknown outcome must be 'retry' or 'fail'."""

    code = "DEFINITION_UNKNOWN_OUTCOME"


class InvalidSchemaVersionError(DefinitionError):
    """A schema version is not a short text of letters, digits, dots, dashes and underscores."""

    code = "DEFINITION_SCHEMA_VERSION"


class InvalidModelError(DefinitionError):
    """An input or output model is not a pydantic model with a JSON schema."""

    code = "DEFINITION_MODEL"


class InvalidCredentialModeError(DefinitionError):
    """The credential modes are empty, unknown, repeated, or do not contain the default."""

    code = "DEFINITION_CREDENTIAL_MODE"


class InvalidProjectorError(DefinitionError):
    """The projector key is not a lower-case snake_case name."""

    code = "DEFINITION_PROJECTOR_KEY"


class UnknownProjectorError(DefinitionError):
    """The definition names a projector that nobody registered."""

    code = "DEFINITION_PROJECTOR_UNKNOWN"


class InvalidSecurityError(DefinitionError):
    """A content safety or redaction setting is not valid."""

    code = "DEFINITION_SECURITY"


class InvalidIdempotencyError(DefinitionError):
    """What a repeated key does after a failure must be 'return' or 'new'."""

    code = "DEFINITION_IDEMPOTENCY"


class InvalidRetentionError(DefinitionError):
    """A retention time is outside 1 to 3650 days."""

    code = "DEFINITION_RETENTION"


class InvalidHandlerError(DefinitionError):
    """The handler cannot be called with one argument, the job context."""

    code = "DEFINITION_HANDLER"


class MissingHandlerError(InvalidHandlerError):
    """The definition has neither a handler nor a prompt, so nothing could run it."""

    code = "DEFINITION_HANDLER_MISSING"


class InvalidPromptError(DefinitionError):
    """The prompt template is empty, malformed, or names a field that the input does not have."""

    code = "DEFINITION_PROMPT"


# ------------------------------------------------------------------ queues


class QueueSpecError(RegistryError):
    """A queue's settings are not valid."""

    code = "QUEUE_INVALID"


class InvalidQueueNameError(QueueSpecError):
    """The queue name is not lower-case letters, digits and dashes, 1 to 32 characters."""

    code = "QUEUE_NAME"


class DuplicateQueueError(QueueSpecError):
    """Two queues have the same name."""

    code = "QUEUE_DUPLICATE"


class InvalidConcurrencyError(QueueSpecError):
    """The number of jobs a worker runs at once is outside 1 to 10000."""

    code = "QUEUE_CONCURRENCY"


class InvalidHeartbeatError(QueueSpecError):
    """The time between heartbeats is outside 1 ms to 1 h."""

    code = "QUEUE_HEARTBEAT"


class InvalidLeaseError(QueueSpecError):
    """The lease is shorter than three heartbeats, or longer than a day."""

    code = "QUEUE_LEASE"


class InvalidQueueBackoffError(QueueSpecError):
    """The queue's delay before the first retry is outside 1 ms to 1 h."""

    code = "QUEUE_BACKOFF"


class InvalidTransportAttemptsError(QueueSpecError):
    """How often a delivery may be handed out between two claims is outside 1 to 100."""

    code = "QUEUE_TRANSPORT_ATTEMPTS"
