"""Every way a definition or a queue is refused, by its own class, with the field and the reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, Field

from registry import (
    JobDefinition,
    JobDefinitionRegistry,
    PromptTemplate,
    QueueSpec,
    RetryBackoff,
    errors,
)
from registry.errors import AiJobsError, DefinitionError, QueueSpecError, RegistryError
from tests.registry.samples import Answer, Question, answer, definition, spoiled


class Opaque:
    """No type that JSON knows."""


class HasNoSchema(BaseModel):
    model_config = {"arbitrary_types_allowed": True}

    thing: Opaque


class PointsNowhere(BaseModel):
    other: NotDefinedAnywhere  # type: ignore[name-defined]  # noqa: F821


class Hidden(BaseModel):
    text: str
    secret: str = Field(default="", exclude=True)


def takes_nothing() -> Answer:
    return Answer(text="")


def takes_two(ctx: Any, more: Any) -> Answer:
    return Answer(text="")


def yields(ctx: Any) -> Iterator[Answer]:
    yield Answer(text="")


async def yields_async(ctx: Any) -> AsyncIterator[Answer]:
    yield Answer(text="")


async def redacts_async(model: Any) -> Any:
    return model


NO_FUNCTIONS: tuple[Any, ...] = ("text", takes_nothing, takes_two)
NO_MODELS: tuple[Any, ...] = (dict, BaseModel, Question(text="a value"), "Question", None)
NO_SCHEMAS: tuple[Any, ...] = (HasNoSchema, PointsNowhere)


def prompt(user: str = "{{text}}", system: str = "", version: str = "1") -> PromptTemplate:
    return PromptTemplate(version, system, user)


def unchecked(**flat: Any) -> JobDefinition:
    """A definition with arguments that the type checker would refuse."""
    return definition(**flat)


class Case(NamedTuple):
    """A definition that breaks one rule, the class that refuses it, and the field it names."""

    broken: JobDefinition
    error: type[DefinitionError]
    field: str
    why: str = ""


def _job_types() -> Iterator[Case]:
    too_long = "a" * 65
    for name in ("", "a", "Quiz", "1quiz", "_quiz", "quiz-x", "quiz x", "qüiz", "quiz\n", too_long):
        yield Case(definition(name), errors.InvalidJobTypeError, "job_type", "must match")
    not_text: Any = None
    yield Case(definition(not_text), errors.InvalidJobTypeError, "job_type", "None")


def _figures() -> Iterator[Case]:
    outside: dict[str, tuple[type[DefinitionError], str, tuple[Any, ...]]] = {
        "priority": (
            errors.InvalidPriorityError,
            "queue.default_priority",
            (-1, 101, 5.0, True, "5", None),
        ),
        "timeout_ms": (
            errors.InvalidTimeoutError,
            "execution.timeout_ms",
            (999, 600_001, 0, -1, 1e4, True, None),
        ),
        "max_retries": (
            errors.InvalidRetriesError,
            "execution.max_retries",
            (-1, 11, 1.0, False, None),
        ),
        "backoff_ms": (
            errors.InvalidBackoffError,
            "execution.retry_backoff.delay_ms",
            (0, -5, 3_600_001, 2.5, True, "1"),
        ),
        "snapshot_days": (
            errors.InvalidRetentionError,
            "retention.snapshot_days",
            (0, 3_651, -1, None),
        ),
        "output_days": (errors.InvalidRetentionError, "retention.output_days", (0, 3_651, 1.5)),
    }
    for argument, (error, field, values) in outside.items():
        for value in values:
            yield Case(unchecked(**{argument: value}), error, field, "whole number")


def _words() -> Iterator[Case]:
    wrong: dict[str, tuple[type[DefinitionError], str]] = {
        "queue": (errors.InvalidQueueError, "queue.queue_name"),
        "domain": (errors.InvalidMetadataError, "metadata.domain"),
        "abort_strategy": (errors.InvalidAbortStrategyError, "execution.abort_strategy"),
        "on_unknown_outcome": (errors.InvalidUnknownOutcomeError, "execution.on_unknown_outcome"),
        "on_failed": (errors.InvalidIdempotencyError, "idempotency.on_failed"),
    }
    for argument, (error, field) in wrong.items():
        for value in ("", "sometimes", None, 1):
            yield Case(unchecked(**{argument: value}), error, field, "must be one of")


def _texts() -> Iterator[Case]:
    for label in ("", "  ", "x" * 121, 7):
        yield Case(definition(label=label), errors.InvalidMetadataError, "metadata.label")
    for text in ("x" * 2_001, 7):
        yield Case(
            definition(description=text), errors.InvalidMetadataError, "metadata.description"
        )
    versions: dict[str, tuple[type[DefinitionError], str]] = {
        "version": (errors.InvalidMetadataError, "metadata.version"),
        "schema_version": (errors.InvalidSchemaVersionError, "input.schema_version"),
        "output_schema_version": (errors.InvalidSchemaVersionError, "output.schema_version"),
        "redaction_version": (errors.InvalidSecurityError, "security.redaction_version"),
    }
    for argument, (error, field) in versions.items():
        for value in ("", " 1", "1/2", "-1", "x" * 33, 1, None, "1\n"):
            yield Case(unchecked(**{argument: value}), error, field, "must match")


def _models() -> Iterator[Case]:
    for side in ("input", "output"):
        for model in NO_MODELS:
            case = unchecked(**{side: model})
            yield Case(case, errors.InvalidModelError, f"{side}.model", "subclass")
        for model in NO_SCHEMAS:
            case = unchecked(**{side: model})
            yield Case(case, errors.InvalidModelError, f"{side}.model", "no JSON schema")


def _credentials() -> Iterator[Case]:
    allowed, default = "credential.allowed_modes", "credential.default_mode"
    error = errors.InvalidCredentialModeError
    yield Case(definition(credential_modes=()), error, allowed, "at least one")
    yield Case(definition(credential_modes=("root",)), error, allowed, "'root'")
    twice = ("platform_key", "platform_key")
    yield Case(definition(credential_modes=twice), error, allowed, "twice")
    a_list = {"allowed_modes": ["platform_key"]}
    yield Case(spoiled(credential=a_list), error, allowed, "tuple")
    foreign = {"default_mode": "user_deepseek_key"}
    yield Case(spoiled(credential=foreign), error, default, "user_deepseek_key")


def _security() -> Iterator[Case]:
    error = errors.InvalidSecurityError
    yield Case(
        definition(content_safety="yes"), error, "security.content_safety_check", "True or False"
    )
    for side in ("redact_input", "redact_output"):
        for value in NO_FUNCTIONS:
            yield Case(unchecked(**{side: value}), error, f"security.{side}", "one argument")
        yield Case(unchecked(**{side: redacts_async}), error, f"security.{side}", "not async")
    switch = "security.output_redaction"
    yield Case(spoiled(security={"output_redaction": True}), error, switch, "exactly when")
    yield Case(spoiled(security={"redact_output": lambda m: m}), error, switch, "exactly when")


def _handlers() -> Iterator[Case]:
    error = errors.InvalidHandlerError
    for handler in ("answer", 7, Answer):
        yield Case(definition(handler=handler), error, "handler", "callable")
    for function in (takes_nothing, takes_two, partial(takes_two)):
        yield Case(definition(handler=function), error, "handler", "one argument")
    for generator in (yields, yields_async):
        yield Case(definition(handler=generator), error, "handler", "generator")
    yield Case(definition(handler=None), errors.MissingHandlerError, "handler", "no prompt")


def _prompts() -> Iterator[Case]:
    error = errors.InvalidPromptError
    yield Case(definition(prompt="Say {{text}}"), error, "prompt", "PromptTemplate")
    for version in ("", "a b", 1):
        wrong: Any = version
        yield Case(definition(prompt=prompt(version=wrong)), error, "prompt.version", "must match")
    for empty in ("", " \n"):
        yield Case(definition(prompt=prompt(empty)), error, "prompt.user", "empty")
    nothing: Any = None
    yield Case(definition(prompt=prompt(nothing)), error, "prompt.user", "text")
    yield Case(definition(prompt=prompt(system=nothing)), error, "prompt.system", "text")
    for stray in ("{{text", "{{ te xt }}", "{{text.size}}", "{{}}", "{{ 1st }}"):
        yield Case(definition(prompt=prompt(stray)), error, "prompt", "opens no")
    yield Case(definition(prompt=prompt("{{texts}}")), error, "prompt", "texts")
    yield Case(definition(prompt=prompt(system="{{size}}")), error, "prompt", "size")
    hidden = definition(input=Hidden, prompt=prompt("{{secret}}"))
    yield Case(hidden, error, "prompt", "secret")


def _shapes() -> Iterator[Case]:
    parts = "metadata queue execution input output credential security idempotency retention"
    for part in parts.split():
        yield Case(spoiled(**{part: "flat"}), errors.InvalidPolicyError, part, "must be")
    bare: Any = {"retry_backoff": 5_000}
    where = "execution.retry_backoff"
    yield Case(spoiled(execution=bare), errors.InvalidBackoffError, where, "RetryBackoff")
    linear: Any = {"retry_backoff": RetryBackoff(type="linear")}  # type: ignore[arg-type]
    yield Case(spoiled(execution=linear), errors.InvalidBackoffError, f"{where}.type", "exponent")
    maybe = definition(cancellable="maybe")
    yield Case(maybe, errors.InvalidCancellableError, "execution.cancellable", "True or False")
    for key in ("", "Cards", "flash-cards", "x" * 65, 3):
        case = definition(projector=key)
        yield Case(case, errors.InvalidProjectorError, "projector", "must match")


SOURCES: tuple[Callable[[], Iterator[Case]], ...] = (
    _job_types,
    _figures,
    _words,
    _texts,
    _models,
    _credentials,
    _security,
    _handlers,
    _prompts,
    _shapes,
)
CASES = [case for source in SOURCES for case in source()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.error.__name__}-{case.field}")
def test_a_broken_rule_is_refused_by_its_class_with_field_and_reason(case: Case) -> None:
    registry = JobDefinitionRegistry()

    with pytest.raises(DefinitionError) as refusal:
        registry.register(case.broken)

    assert type(refusal.value) is case.error
    assert refusal.value.field == case.field
    assert case.why in refusal.value.why
    assert case.field in str(refusal.value)
    assert registry.types() == frozenset()


def test_a_refusal_names_the_job_type_that_it_is_about() -> None:
    with pytest.raises(errors.InvalidTimeoutError) as refusal:
        JobDefinitionRegistry().register(definition("quiz", timeout_ms=5))

    expected = "job type 'quiz': execution.timeout_ms must be a whole number from 1000 to 600000 ms"
    assert str(refusal.value).startswith(expected)
    assert refusal.value.details == {"field": "execution.timeout_ms", "job_type": "quiz"}


def test_every_definition_refusal_is_broken_by_some_row() -> None:
    covered = {case.error for case in CASES}
    elsewhere = {errors.DuplicateJobDefinitionError, errors.UnknownProjectorError}
    assert covered | elsewhere == _leaves(DefinitionError)


# ------------------------------------------------------------------ queues

QUEUE_CASES: list[tuple[dict[str, Any], type[QueueSpecError], str]] = [
    *(
        ({"name": name}, errors.InvalidQueueNameError, "name")
        for name in ("", "AI", "1a", "a_b", "a b", "-a", "x" * 33, None, "a\n")
    ),
    *(
        ({"concurrency": n}, errors.InvalidConcurrencyError, "concurrency")
        for n in (0, -1, 10_001, 1.0, True, None)
    ),
    *(
        ({"heartbeat_ms": n}, errors.InvalidHeartbeatError, "heartbeat_ms")
        for n in (0, -1, 3_600_001, 1.5, None)
    ),
    *(
        ({"lease_ms": n}, errors.InvalidLeaseError, "lease_ms")
        for n in (44_999, 0, 86_400_001, 6e4, None)
    ),
    *(
        ({"backoff_ms": n}, errors.InvalidQueueBackoffError, "backoff_ms")
        for n in (0, 3_600_001, 1.5, None)
    ),
    *(
        ({"transport_attempts": n}, errors.InvalidTransportAttemptsError, "transport_attempts")
        for n in (0, 101, True, None)
    ),
]


@pytest.mark.parametrize(("change", "error", "field"), QUEUE_CASES)
def test_a_broken_queue_cannot_be_built(
    change: dict[str, Any], error: type[QueueSpecError], field: str
) -> None:
    with pytest.raises(QueueSpecError) as refusal:
        QueueSpec(**{"name": "ai-batch", **change})

    assert type(refusal.value) is error
    assert refusal.value.field == field


def test_every_queue_refusal_is_broken_by_some_row() -> None:
    covered = {error for _, error, _ in QUEUE_CASES}
    assert covered | {errors.DuplicateQueueError} == _leaves(QueueSpecError)


# ------------------------------------------------------------------ the tree itself


def test_each_error_has_a_code_of_its_own_and_a_sentence() -> None:
    tree = [cls for cls in _family(RegistryError) if cls.__module__ == errors.__name__]
    codes = [cls.code for cls in tree]

    assert len(codes) == len(set(codes))
    for cls in tree:
        assert cls.code.isupper()
        assert cls.__doc__
        assert str(cls()) == cls.__doc__.splitlines()[0]


def _family(cls: type[AiJobsError]) -> set[type[AiJobsError]]:
    return {cls}.union(*(_family(child) for child in cls.__subclasses__()))


def _leaves(root: type[RegistryError]) -> set[type[AiJobsError]]:
    """Every class below the root that refuses something (a missing handler has its own code)."""
    return _family(root) - {root}


@pytest.mark.parametrize(
    "good",
    [
        {"priority": 0},
        {"priority": 100},
        {"timeout_ms": 1_000},
        {"timeout_ms": 600_000},
        {"max_retries": 0},
        {"max_retries": 10},
        {"backoff_ms": 1},
        {"backoff_ms": 3_600_000},
        {"queue": "ai-interactive"},
        {"credential_modes": ("user_deepseek_key", "platform_key")},
        {"credential_modes": "user_deepseek_key"},
        {"redact_input": lambda model: model, "redact_output": lambda model: model},
        {"handler": lambda ctx: {"text": ""}},
        {"handler": partial(takes_two, more=1)},
        {"handler": max},  # some builtins have no signature to ask
        {"handler": None, "prompt": prompt("{{text}} {{count}} {{note}} {{ tags }}")},
        {"handler": answer, "prompt": prompt('{"a": {"b": {"c": 1}}} {{text}}')},
        {"handler": None, "prompt": prompt("No field at all.")},
        {"snapshot_days": 1, "output_days": 3_650},
        {"projector": "flashcards"},
        {"label": "Über", "description": "", "version": "2026.11-rc_1"},
    ],
    ids=lambda change: "-".join(change),
)
def test_the_edges_of_what_is_allowed_are_allowed(good: dict[str, Any]) -> None:
    registry = JobDefinitionRegistry()

    registered = registry.register(definition(**good))

    assert registry.get("answer_question") is registered


@pytest.mark.parametrize("job_type", ["ab", "a" * 64, "a1", "feynman_evaluation", "a__b", "a_"])
def test_the_shortest_and_the_longest_job_type_are_allowed(job_type: str) -> None:
    registry = JobDefinitionRegistry()
    registry.register(definition(job_type))
    assert registry.types() == {job_type}
