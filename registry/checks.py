"""Every rule a definition must keep, one function each; the registry runs them in this order.

A check raises the error class of its own field and says which field and why (ADR-003 2.2).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, Final

from registry import limits, rules
from registry.definition import (
    CREDENTIAL_MODES,
    DOMAINS,
    CredentialPolicy,
    ExecutionPolicy,
    IdempotencyPolicy,
    InputPolicy,
    JobDefinition,
    Metadata,
    OutputPolicy,
    QueuePolicy,
    Retention,
    RetryBackoff,
    SecurityPolicy,
)
from registry.errors import (
    InvalidAbortStrategyError,
    InvalidBackoffError,
    InvalidCancellableError,
    InvalidCredentialModeError,
    InvalidHandlerError,
    InvalidIdempotencyError,
    InvalidJobTypeError,
    InvalidMetadataError,
    InvalidPolicyError,
    InvalidPriorityError,
    InvalidProjectorError,
    InvalidPromptError,
    InvalidQueueError,
    InvalidRetentionError,
    InvalidRetriesError,
    InvalidSchemaVersionError,
    InvalidSecurityError,
    InvalidTimeoutError,
    InvalidUnknownOutcomeError,
    MissingHandlerError,
)
from registry.prompt import PromptTemplate, prompt_fields

#: The class that belongs in each nested field of a definition.
POLICIES: Final[dict[str, type]] = {
    "metadata": Metadata,
    "queue": QueuePolicy,
    "execution": ExecutionPolicy,
    "input": InputPolicy,
    "output": OutputPolicy,
    "credential": CredentialPolicy,
    "security": SecurityPolicy,
    "idempotency": IdempotencyPolicy,
    "retention": Retention,
}


def check_definition(definition: JobDefinition, queues: Collection[str]) -> None:
    """Raise the first broken rule of a definition; ``queues`` are the configured names."""
    for check in CHECKS:
        check(definition)
    _queue(definition, queues)


def _job_type(d: JobDefinition) -> None:
    if not rules.matches(limits.JOB_TYPE.fullmatch, d.job_type):
        why = f"must match {limits.JOB_TYPE.pattern}, not {limits.shown(d.job_type)}"
        raise InvalidJobTypeError(why, field="job_type", owner="job definition")


def _policies(d: JobDefinition) -> None:
    for name, kind in POLICIES.items():
        value = getattr(d, name)
        if not isinstance(value, kind):
            why = f"must be {kind.__name__}(...), not {limits.shown(value)}"
            rules.refuse(d, name, why, InvalidPolicyError)
    prompt: object = d.prompt
    if not isinstance(prompt, PromptTemplate | None):
        why = f"must be PromptTemplate(...), not {limits.shown(d.prompt)}"
        rules.refuse(d, "prompt", why, InvalidPromptError)


def _metadata(d: JobDefinition) -> None:
    meta = d.metadata
    rules.text(d, "metadata.label", meta.label, 1, limits.LABEL_CHARS)
    rules.text(d, "metadata.description", meta.description, 0, limits.DESCRIPTION_CHARS)
    rules.one_of(d, "metadata.domain", meta.domain, DOMAINS, InvalidMetadataError)
    rules.version(d, "metadata.version", meta.version, InvalidMetadataError)


def _queue(d: JobDefinition, queues: Collection[str]) -> None:
    name = d.queue.queue_name
    rules.one_of(d, "queue.queue_name", name, queues, InvalidQueueError)


def _priority(d: JobDefinition) -> None:
    value = d.queue.default_priority
    rules.in_range(d, "queue.default_priority", value, limits.PRIORITY, InvalidPriorityError)


def _timeout(d: JobDefinition) -> None:
    value = d.execution.timeout_ms
    rules.in_range(d, "execution.timeout_ms", value, limits.TIMEOUT_MS, InvalidTimeoutError)


def _retries(d: JobDefinition) -> None:
    value = d.execution.max_retries
    rules.in_range(d, "execution.max_retries", value, limits.RETRIES, InvalidRetriesError)


def _backoff(d: JobDefinition) -> None:
    backoff: Any = d.execution.retry_backoff
    where = "execution.retry_backoff"
    if not isinstance(backoff, RetryBackoff):
        rules.refuse(d, where, "must be RetryBackoff(...)", InvalidBackoffError)
    rules.one_of(d, f"{where}.type", backoff.type, {"exponential"}, InvalidBackoffError)
    if backoff.delay_ms is not None:
        rules.in_range(
            d, f"{where}.delay_ms", backoff.delay_ms, limits.BACKOFF_MS, InvalidBackoffError
        )


def _switches(d: JobDefinition) -> None:
    run = d.execution
    rules.flag(d, "execution.cancellable", run.cancellable, InvalidCancellableError)
    rules.one_of(
        d,
        "execution.abort_strategy",
        run.abort_strategy,
        {"fail", "retry"},
        InvalidAbortStrategyError,
    )
    rules.one_of(
        d,
        "execution.on_unknown_outcome",
        run.on_unknown_outcome,
        {"fail", "retry"},
        InvalidUnknownOutcomeError,
    )
    rules.one_of(
        d,
        "idempotency.on_failed",
        d.idempotency.on_failed,
        {"return", "new"},
        InvalidIdempotencyError,
    )


def _schemas(d: JobDefinition) -> None:
    rules.version(d, "input.schema_version", d.input.schema_version, InvalidSchemaVersionError)
    rules.version(d, "output.schema_version", d.output.schema_version, InvalidSchemaVersionError)
    rules.model(d, "input.model", d.input.model)
    rules.model(d, "output.model", d.output.model)


def _credential(d: JobDefinition) -> None:
    where = "credential.allowed_modes"
    modes: Any = d.credential.allowed_modes
    if not isinstance(modes, tuple) or not modes:
        rules.refuse(d, where, "must be a tuple of at least one mode", InvalidCredentialModeError)
    for mode in modes:
        rules.one_of(d, where, mode, CREDENTIAL_MODES, InvalidCredentialModeError)
    if len(set(modes)) != len(modes):
        rules.refuse(d, where, "names a mode twice", InvalidCredentialModeError)
    default = d.credential.default_mode
    rules.one_of(d, "credential.default_mode", default, modes, InvalidCredentialModeError)


def _projector(d: JobDefinition) -> None:
    key = d.projector
    if key is not None and not rules.matches(limits.PROJECTOR_KEY.fullmatch, key):
        why = f"must match {limits.PROJECTOR_KEY.pattern}, not {limits.shown(key)}"
        rules.refuse(d, "projector", why, InvalidProjectorError)


def _security(d: JobDefinition) -> None:
    policy = d.security
    for name in ("content_safety_check", "output_redaction"):
        rules.flag(d, f"security.{name}", getattr(policy, name), InvalidSecurityError)
    for name in ("redact_input", "redact_output"):
        rules.redactor(d, f"security.{name}", getattr(policy, name))
    if policy.output_redaction != (policy.redact_output is not None):
        why = "must be True exactly when security.redact_output is given"
        rules.refuse(d, "security.output_redaction", why, InvalidSecurityError)
    rules.version(d, "security.redaction_version", policy.redaction_version, InvalidSecurityError)


def _retention(d: JobDefinition) -> None:
    for name in ("snapshot_days", "output_days"):
        value = getattr(d.retention, name)
        where = f"retention.{name}"
        rules.in_range(d, where, value, limits.RETENTION_DAYS, InvalidRetentionError)


def _handler(d: JobDefinition) -> None:
    if d.handler is None:
        if d.prompt is None:
            rules.refuse(
                d, "handler", "is missing, and there is no prompt either", MissingHandlerError
            )
        return
    _callable(d, d.handler)


def _callable(d: JobDefinition, handler: Any) -> None:
    if not callable(handler) or inspect.isclass(handler):
        why = f"must be a function or a callable object, not {limits.shown(handler)}"
        rules.refuse(d, "handler", why, InvalidHandlerError)
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        why = "is a generator; return the whole output instead of yielding"
        rules.refuse(d, "handler", why, InvalidHandlerError)
    if not rules.takes_one_argument(handler):
        rules.refuse(d, "handler", "must take one argument, the job context", InvalidHandlerError)


def _prompt(d: JobDefinition) -> None:
    if d.prompt is None:
        return
    rules.version(d, "prompt.version", d.prompt.version, InvalidPromptError)
    for name in ("system", "user"):
        if not isinstance(getattr(d.prompt, name), str):
            rules.refuse(d, f"prompt.{name}", "must be text", InvalidPromptError)
    if not d.prompt.user.strip():
        rules.refuse(d, "prompt.user", "must not be empty", InvalidPromptError)
    if d.prompt.has_stray_braces:
        why = "has a '{{' that opens no {{field}}; a place holds one field name and nothing else"
        rules.refuse(d, "prompt", why, InvalidPromptError)
    _places(d)


def _places(d: JobDefinition) -> None:
    assert d.prompt is not None
    known = prompt_fields(d.input.model)
    strangers = sorted(d.prompt.places - known)
    if strangers:
        why = f"names {', '.join(strangers)}, but the input has only {', '.join(sorted(known))}"
        rules.refuse(d, "prompt", why, InvalidPromptError)


#: The order in which problems are reported: the name first, what runs it last.
CHECKS: Final[tuple[Callable[[JobDefinition], None], ...]] = (
    _job_type,
    _policies,
    _metadata,
    _priority,
    _timeout,
    _retries,
    _backoff,
    _switches,
    _schemas,
    _credential,
    _projector,
    _security,
    _retention,
    _handler,
    _prompt,
)
