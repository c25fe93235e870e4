"""The table of job types: looking up, aliases, duplicates, the freeze, queues."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from registry import ADR_114, DEFAULT_QUEUES, JobDefinitionRegistry, QueueSpec
from registry.errors import (
    DuplicateJobDefinitionError,
    DuplicateQueueError,
    InvalidLeaseError,
    InvalidQueueError,
    RegistryFrozenError,
    UnknownJobTypeError,
    UnknownProjectorError,
    UnknownQueueError,
)
from tests.registry.samples import Answer, Question, answer, definition


def test_a_registered_definition_is_found_by_its_type() -> None:
    registry = JobDefinitionRegistry()
    quiz = registry.register(definition("quiz"))
    recall = registry.register(definition("active_recall"))

    assert registry.get("quiz") is quiz
    assert registry.find("active_recall") is recall
    assert registry.get_all() == (quiz, recall)
    assert registry.types() == {"quiz", "active_recall"}


@pytest.mark.parametrize("name", ["active-recall", "active_recall"])
def test_a_legacy_name_with_dashes_finds_the_canonical_type(name: str) -> None:
    registry = JobDefinitionRegistry()
    recall = registry.register(definition("active_recall"))

    assert registry.get(name) is recall
    assert registry.find(name) is recall
    assert registry.types() == {"active_recall"}


@pytest.mark.parametrize("name", ["", "quizz", "Quiz", "quiz ", "qu-iz", "-", "quiz\x00"])
def test_an_unknown_type_is_an_error_to_get_and_nothing_to_find(name: str) -> None:
    registry = JobDefinitionRegistry()
    registry.register(definition("quiz"))

    assert registry.find(name) is None
    with pytest.raises(UnknownJobTypeError) as refusal:
        registry.get(name)
    assert refusal.value.field == "job_type"
    assert refusal.value.details["job_type"] == name


def test_a_type_cannot_be_registered_twice_and_the_first_one_stays() -> None:
    registry = JobDefinitionRegistry()
    first = registry.register(definition("quiz", version="1"))

    with pytest.raises(DuplicateJobDefinitionError) as refusal:
        registry.register(definition("quiz", version="2"))

    assert refusal.value.field == "job_type"
    assert registry.get("quiz") is first


def test_a_frozen_registry_takes_nothing_more_and_still_answers() -> None:
    registry = JobDefinitionRegistry()
    quiz = registry.register(definition("quiz"))
    before = registry.frozen

    registry.freeze()

    assert (before, registry.frozen) == (False, True)
    with pytest.raises(RegistryFrozenError):
        registry.register(definition("late"))
    assert registry.types() == {"quiz"}
    assert registry.get("quiz") is quiz


def test_types_given_out_before_do_not_change_later() -> None:
    registry = JobDefinitionRegistry()
    registry.register(definition("quiz"))
    before = registry.types()

    registry.register(definition("recall"))

    assert before == {"quiz"}
    assert registry.types() == {"quiz", "recall"}


def test_a_projector_that_nobody_registered_is_found_before_the_start() -> None:
    registry = JobDefinitionRegistry()
    registry.register(definition("plain"))
    registry.register(definition("quiz", projector="quiz_questions"))

    registry.check_projectors({"quiz_questions", "more"})
    with pytest.raises(UnknownProjectorError) as refusal:
        registry.check_projectors(["flashcards"])

    assert refusal.value.field == "projector"
    assert "'quiz_questions'" in refusal.value.why
    assert "flashcards" in refusal.value.why


# ------------------------------------------------------------------ queues


def test_the_default_queues_have_the_figures_of_the_design() -> None:
    registry = JobDefinitionRegistry()

    assert registry.queues == DEFAULT_QUEUES
    assert registry.queue("ai-interactive") == QueueSpec(
        "ai-interactive", 2, 30_000, 10_000, 2_000, 2
    )
    assert registry.queue("ai-background") == QueueSpec(
        "ai-background", 1, 60_000, 15_000, 5_000, 3
    )


def test_a_deployment_may_bring_its_own_queues() -> None:
    batch = QueueSpec("ai-batch", concurrency=100)
    registry = JobDefinitionRegistry([*DEFAULT_QUEUES, batch])

    assert registry.queue("ai-batch") is batch
    assert registry.register(definition("quiz", queue="ai-batch")).queue.queue_name == "ai-batch"


def test_a_definition_cannot_name_a_queue_that_the_deployment_lacks() -> None:
    registry = JobDefinitionRegistry([QueueSpec("ai-batch")])

    with pytest.raises(InvalidQueueError) as refusal:
        registry.register(definition("quiz", queue="ai-background"))

    assert refusal.value.field == "queue.queue_name"
    assert "ai-batch" in refusal.value.why


def test_two_queues_of_one_name_are_refused() -> None:
    with pytest.raises(DuplicateQueueError):
        JobDefinitionRegistry([QueueSpec("ai-batch"), QueueSpec("ai-batch", concurrency=2)])


def test_an_unknown_queue_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownQueueError, match="ai-background, ai-interactive"):
        JobDefinitionRegistry().queue("ai-analysis")


def test_the_profile_of_adr_114_fits_every_default_queue() -> None:
    for spec in DEFAULT_QUEUES:
        longer = spec.with_lease(ADR_114)
        assert (longer.lease_ms, longer.heartbeat_ms) == (300_000, 30_000)
        assert longer.concurrency == spec.concurrency


def test_exactly_three_heartbeats_are_the_shortest_lease() -> None:
    spec = QueueSpec("ai-batch", lease_ms=30, heartbeat_ms=10)

    assert spec.lease_ms == 30
    with pytest.raises(InvalidLeaseError, match="three heartbeats"):
        replace(spec, lease_ms=29)


def test_the_backoff_is_the_definitions_or_else_its_queues() -> None:
    registry = JobDefinitionRegistry()

    own = definition("own", backoff_ms=7, queue="ai-interactive")
    inherited = definition("inherited", backoff_ms=None, queue="ai-interactive")

    assert registry.backoff_ms(own) == 7
    assert registry.backoff_ms(inherited) == 2_000


# ------------------------------------------------------------------ the flat way


def test_every_flat_argument_lands_in_its_policy() -> None:
    def redact(model: object) -> object:
        return model

    flat = definition(
        "quiz",
        queue="ai-interactive",
        priority=3,
        timeout_ms=9_000,
        max_retries=4,
        backoff_ms=70,
        cancellable=False,
        abort_strategy="fail",
        on_unknown_outcome="fail",
        credential_modes=("user_deepseek_key", "platform_key"),
        projector="quiz_questions",
        version="5",
        schema_version="6",
        output_schema_version="7",
        label="Quiz",
        description="Asks.",
        domain="analysis",
        content_safety=True,
        redact_input=redact,
        redact_output=redact,
        redaction_version="8",
        on_failed="new",
        snapshot_days=9,
        output_days=10,
    )

    assert flat.job_type == "quiz"
    assert (flat.metadata.label, flat.metadata.description) == ("Quiz", "Asks.")
    assert (flat.metadata.domain, flat.metadata.version) == ("analysis", "5")
    assert (flat.queue.queue_name, flat.queue.default_priority) == ("ai-interactive", 3)
    assert (flat.execution.timeout_ms, flat.execution.max_retries) == (9_000, 4)
    assert flat.execution.retry_backoff.type == "exponential"
    assert flat.execution.retry_backoff.delay_ms == 70
    assert flat.execution.cancellable is False
    assert flat.execution.abort_strategy == "fail"
    assert flat.execution.on_unknown_outcome == "fail"
    assert (flat.input.model, flat.input.schema_version) == (Question, "6")
    assert (flat.output.model, flat.output.schema_version) == (Answer, "7")
    assert flat.credential.allowed_modes == ("user_deepseek_key", "platform_key")
    assert flat.credential.default_mode == "user_deepseek_key"
    assert flat.projector == "quiz_questions"
    assert flat.security.content_safety_check is True
    assert flat.security.output_redaction is True
    assert flat.security.redact_input is redact
    assert flat.security.redact_output is redact
    assert flat.security.redaction_version == "8"
    assert flat.idempotency.on_failed == "new"
    assert (flat.retention.snapshot_days, flat.retention.output_days) == (9, 10)
    assert flat.handler is answer
    assert flat.max_attempts == 5


def test_label_and_description_come_from_what_the_author_wrote_already() -> None:
    told = definition("feynman_evaluation").metadata
    untold = definition("quiz", handler=lambda ctx: {"text": ""}).metadata

    assert (told.label, told.description) == ("Feynman evaluation", "Answer the question.")
    assert (untold.label, untold.description) == ("Quiz", "")


def test_a_definition_and_its_policies_cannot_be_changed() -> None:
    quiz = definition("quiz")

    with pytest.raises(FrozenInstanceError):
        quiz.job_type = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        quiz.execution.timeout_ms = 5  # type: ignore[misc]
    assert quiz.prompt_version is None
