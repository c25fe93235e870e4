"""WHAT A JOB IS: pure data, no I/O; the ground floor that every other package stands on.

    errors       the root of the error tree, and one class for each refusal
    limits       the figures and names that definitions and queues are held to
    queues       QueueSpec, the two default queues, ADR-114's lease profile
    prompt       PromptTemplate: ``{{field}}`` places, filled once
    definition   JobDefinition and its policies; ``JobDefinition.simple`` is the flat way
    checks       every rule a definition must keep, in the order they are reported
    rules        the kinds of rule that checks are made of
    registry     JobDefinitionRegistry: filled at start-up, then frozen
    job          LifecycleStatus and its fellows; JobView, the row as projectors see it
    catalog/     the built-in job types

Promises: what can be looked up has passed every check; a definition and a view never change.
Left to others: validating payloads (engine.intake), projectors themselves (projectors), every row.
"""

from registry.definition import (
    CREDENTIAL_MODES,
    DOMAINS,
    AbortStrategy,
    CredentialMode,
    CredentialPolicy,
    Domain,
    ExecutionPolicy,
    Handler,
    IdempotencyPolicy,
    InputPolicy,
    JobDefinition,
    Metadata,
    OnFailed,
    OutputPolicy,
    QueuePolicy,
    Redactor,
    Retention,
    RetryBackoff,
    SecurityPolicy,
    UnknownOutcome,
)
from registry.errors import AiJobsError, RegistryError
from registry.job import (
    FINAL_STATUSES,
    JobView,
    LifecycleStatus,
    Outcome,
    StartReason,
    WaitKind,
)
from registry.prompt import PromptTemplate, RenderedPrompt
from registry.queues import ADR_114, DEFAULT_QUEUES, LeaseProfile, QueueSpec
from registry.registry import JobDefinitionRegistry

__all__ = [
    "ADR_114",
    "CREDENTIAL_MODES",
    "DEFAULT_QUEUES",
    "DOMAINS",
    "FINAL_STATUSES",
    "AbortStrategy",
    "AiJobsError",
    "CredentialMode",
    "CredentialPolicy",
    "Domain",
    "ExecutionPolicy",
    "Handler",
    "IdempotencyPolicy",
    "InputPolicy",
    "JobDefinition",
    "JobDefinitionRegistry",
    "JobView",
    "LeaseProfile",
    "LifecycleStatus",
    "Metadata",
    "OnFailed",
    "Outcome",
    "OutputPolicy",
    "PromptTemplate",
    "QueuePolicy",
    "QueueSpec",
    "Redactor",
    "RegistryError",
    "RenderedPrompt",
    "Retention",
    "RetryBackoff",
    "SecurityPolicy",
    "StartReason",
    "UnknownOutcome",
    "WaitKind",
]
