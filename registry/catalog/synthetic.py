"""A job type that needs no model: it echoes a value, slowly or after failing, for tests and drills.

Its errors carry the code family of the error they stand for, so that a drill can watch how each
family is retried. ``unexpected`` raises what no handler should: an error that is none of ours.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal, Protocol

from pydantic import Field, JsonValue

from registry.catalog.fields import JobInput, JobOutput
from registry.definition import JobDefinition
from registry.errors import AiJobsError

FailureKind = Literal[
    "provider", "validation", "internal", "content_safety", "credential", "unexpected"
]


class SyntheticError(AiJobsError):
    """The synthetic job failed as it was told to."""

    code = "INTERNAL_SYNTHETIC"
    retryable = True


class SyntheticProviderError(SyntheticError):
    """The synthetic job failed like a provider that cannot answer."""

    code = "PROVIDER_SYNTHETIC"


class SyntheticValidationError(SyntheticError):
    """The synthetic job failed like an output that does not match its model."""

    code = "VALIDATION_SYNTHETIC"


class SyntheticContentSafetyError(SyntheticError):
    """The synthetic job failed like a content that must not be processed."""

    code = "CONTENT_SAFETY_SYNTHETIC"
    retryable = False


class SyntheticCredentialError(SyntheticError):
    """The synthetic job failed like a key that cannot be used."""

    code = "CREDENTIAL_SYNTHETIC"
    retryable = False


class SyntheticBug(Exception):
    """The synthetic job failed like a handler with a mistake in it."""


FAILURES: Final[dict[FailureKind, type[Exception]]] = {
    "provider": SyntheticProviderError,
    "validation": SyntheticValidationError,
    "internal": SyntheticError,
    "content_safety": SyntheticContentSafetyError,
    "credential": SyntheticCredentialError,
    "unexpected": SyntheticBug,
}


class SyntheticInput(JobInput):
    """What to echo, how long to take, and how often to fail first."""

    value: JsonValue = Field(default=None, description="Any JSON value; it is the output.")
    sleep_ms: int = Field(default=0, ge=0, le=600_000, description="How long each attempt waits.")
    fail_times: int = Field(default=0, ge=0, le=100, description="How many attempts fail first.")
    error: FailureKind = Field(default="provider", description="What a failing attempt raises.")


class SyntheticOutput(JobOutput):
    """The input's value, unchanged."""

    value: JsonValue


class SyntheticContext(Protocol):
    """The two things of a job context that the handler looks at."""

    @property
    def input(self) -> SyntheticInput: ...
    @property
    def attempt_no(self) -> int: ...


async def run(ctx: SyntheticContext) -> SyntheticOutput:
    """Wait, then fail while ``attempt_no`` (counted from 1) is within ``fail_times``, then echo."""
    order = ctx.input
    if order.sleep_ms:
        await asyncio.sleep(order.sleep_ms / 1000)
    if ctx.attempt_no <= order.fail_times:
        raise FAILURES[order.error](f"told to fail {order.fail_times} times")
    return SyntheticOutput(value=order.value)


DEFINITION: Final = JobDefinition.simple(
    "synthetic",
    input=SyntheticInput,
    output=SyntheticOutput,
    handler=run,
    queue="ai-background",
    timeout_ms=60_000,
    label="Synthetic",
    description="Echoes a value, slowly or after failing; for tests and drills.",
    domain="maintenance",
)
