"""What a job type is: ADR-003's nested policies, and ``JobDefinition.simple``, the flat way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, TypedDict

from pydantic import BaseModel

from registry.prompt import PromptTemplate as PromptTemplate

Domain = Literal["analysis", "generation", "import", "maintenance"]
CredentialMode = Literal["platform_key", "user_deepseek_key"]
AbortStrategy = Literal["fail", "retry"]
UnknownOutcome = Literal["retry", "fail"]
OnFailed = Literal["return", "new"]

DOMAINS: Final = frozenset({"analysis", "generation", "import", "maintenance"})
CREDENTIAL_MODES: Final = frozenset({"platform_key", "user_deepseek_key"})

#: Takes the job context and returns the output (model or dict), or a coroutine of it.
Handler = Callable[[Any], Any]
#: Takes a validated model and returns one of the same type without what must not be stored.
Redactor = Callable[[Any], Any]


class JobPolicies(TypedDict, total=False):
    """The keyword arguments of :meth:`JobDefinition.simple` beside input, output and handler."""

    queue: str
    priority: int
    timeout_ms: int
    max_retries: int
    backoff_ms: int | None
    cancellable: bool
    abort_strategy: AbortStrategy
    on_unknown_outcome: UnknownOutcome
    credential_modes: Sequence[CredentialMode]
    projector: str | None
    prompt: PromptTemplate | None
    version: str
    schema_version: str
    output_schema_version: str
    label: str | None
    description: str | None
    domain: Domain
    content_safety: bool
    redact_input: Redactor | None
    redact_output: Redactor | None
    redaction_version: str
    on_failed: OnFailed
    snapshot_days: int
    output_days: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """What people call this job type. ``version`` names the definition as a whole."""

    label: str
    description: str = ""
    domain: Domain = "generation"
    version: str = "1"


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """Where its jobs wait. Priority 0 is the top, 100 the bottom."""

    queue_name: str = "ai-background"
    default_priority: int = 50


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """The delay before the first retry in ms (None: the queue's), doubled for each one after."""

    type: Literal["exponential"] = "exponential"
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ExecutionPolicy:
    """How long an attempt may take, how many there are, and what ends one early.

    ``timeout_ms`` covers EXECUTE of one attempt. ``max_retries`` does not count the first attempt.
    ``abort_strategy`` says what a time-out leads to, ``on_unknown_outcome`` what follows a provider
    call that was sent and never answered: it may have been carried out and billed (WL-11).
    """

    timeout_ms: int = 60_000
    max_retries: int = 2
    retry_backoff: RetryBackoff = RetryBackoff()
    cancellable: bool = True
    abort_strategy: AbortStrategy = "retry"
    on_unknown_outcome: UnknownOutcome = "retry"


@dataclass(frozen=True, slots=True)
class InputPolicy:
    """The model a payload is validated with, and the version its snapshot is marked with."""

    model: type[BaseModel]
    schema_version: str = "1"


@dataclass(frozen=True, slots=True)
class OutputPolicy:
    """The model an output is validated with, and the version it is stored under."""

    model: type[BaseModel]
    schema_version: str = "1"


@dataclass(frozen=True, slots=True)
class CredentialPolicy:
    """Whose key pays. Each mode is bound to its own endpoint (design 10)."""

    allowed_modes: tuple[CredentialMode, ...] = ("platform_key",)
    default_mode: CredentialMode = "platform_key"


@dataclass(frozen=True, slots=True)
class SecurityPolicy:
    """What is checked, and what is taken out before anything is stored.

    ``redact_input`` works on the input before the snapshot is written, so the handler sees its
    result; ``redact_output`` on the output before hash and storage (X81). ``output_redaction`` is
    ADR-003's switch and must agree with the function.
    """

    content_safety_check: bool = False
    output_redaction: bool = False
    redact_input: Redactor | None = None
    redact_output: Redactor | None = None
    redaction_version: str = "1"


@dataclass(frozen=True, slots=True)
class IdempotencyPolicy:
    """What a repeated key gets after a failure: the failed job, or a new one (design 7)."""

    on_failed: OnFailed = "return"


@dataclass(frozen=True, slots=True)
class Retention:
    """How many days input and output stay readable, counted from the job's end."""

    snapshot_days: int = 30
    output_days: int = 90


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """One job type. A plain value: it is checked when it is registered (ADR-003 2.2).

    A definition needs a ``handler`` (any callable taking the job context, async or plain), or a
    ``prompt``, which the default executor sends to the model, or both.
    """

    job_type: str
    _: KW_ONLY
    metadata: Metadata
    input: InputPolicy
    output: OutputPolicy
    queue: QueuePolicy = QueuePolicy()
    execution: ExecutionPolicy = ExecutionPolicy()
    credential: CredentialPolicy = CredentialPolicy()
    #: Key of the result projector; None stores the output and writes no business rows.
    projector: str | None = None
    security: SecurityPolicy = SecurityPolicy()
    idempotency: IdempotencyPolicy = IdempotencyPolicy()
    retention: Retention = Retention()
    handler: Handler | None = field(default=None, repr=False)
    prompt: PromptTemplate | None = field(default=None, repr=False)

    @property
    def max_attempts(self) -> int:
        """The only budget of crashes and failures: the first attempt and its retries (X24)."""
        return self.execution.max_retries + 1

    @property
    def prompt_version(self) -> str | None:
        """The version of the prompt, where the definition has one."""
        return self.prompt.version if self.prompt else None

    @classmethod
    def simple(
        cls,
        job_type: str,
        *,
        input: type[BaseModel],  # noqa: A002 - the public word (design 4)
        output: type[BaseModel],
        handler: Handler | None = None,
        queue: str = "ai-background",
        priority: int = 50,
        timeout_ms: int = 60_000,
        max_retries: int = 2,
        backoff_ms: int | None = None,
        cancellable: bool = True,
        abort_strategy: AbortStrategy = "retry",
        on_unknown_outcome: UnknownOutcome = "retry",
        credential_modes: Sequence[CredentialMode] = ("platform_key",),
        projector: str | None = None,
        prompt: PromptTemplate | None = None,
        version: str = "1",
        schema_version: str = "1",
        output_schema_version: str = "1",
        label: str | None = None,
        description: str | None = None,
        domain: Domain = "generation",
        content_safety: bool = False,
        redact_input: Redactor | None = None,
        redact_output: Redactor | None = None,
        redaction_version: str = "1",
        on_failed: OnFailed = "return",
        snapshot_days: int = 30,
        output_days: int = 90,
    ) -> JobDefinition:
        """Write a definition flat, as ``@app.job`` does; every argument maps to one policy field.

        The first of ``credential_modes`` is the default. Label and description default to the job
        type in words and the first line of the handler's docstring. Nothing is checked here.
        """
        return cls(
            job_type,
            metadata=Metadata(
                label=_in_words(job_type) if label is None else label,
                description=_first_doc_line(handler) if description is None else description,
                domain=domain,
                version=version,
            ),
            queue=QueuePolicy(queue, priority),
            execution=ExecutionPolicy(
                timeout_ms=timeout_ms,
                max_retries=max_retries,
                retry_backoff=RetryBackoff(delay_ms=backoff_ms),
                cancellable=cancellable,
                abort_strategy=abort_strategy,
                on_unknown_outcome=on_unknown_outcome,
            ),
            input=InputPolicy(input, schema_version),
            output=OutputPolicy(output, output_schema_version),
            credential=_credentials(credential_modes),
            projector=projector,
            security=SecurityPolicy(
                content_safety_check=content_safety,
                output_redaction=redact_output is not None,
                redact_input=redact_input,
                redact_output=redact_output,
                redaction_version=redaction_version,
            ),
            idempotency=IdempotencyPolicy(on_failed),
            retention=Retention(snapshot_days, output_days),
            handler=handler,
            prompt=prompt,
        )


def _credentials(modes: Any) -> CredentialPolicy:
    # A bare text is one mode whose comma was forgotten.
    allowed = (modes,) if isinstance(modes, str) else tuple(modes)
    # No mode at all is left to the registry, which refuses it by name.
    return CredentialPolicy(allowed, allowed[0] if allowed else "platform_key")


def _in_words(job_type: object) -> str:
    return str(job_type).replace("_", " ").capitalize()


def _first_doc_line(handler: Handler | None) -> str:
    doc = inspect.getdoc(handler) if handler is not None and inspect.isroutine(handler) else None
    return doc.splitlines()[0] if doc else ""
