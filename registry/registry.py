"""The table of job types: filled while the app is put together, frozen when it starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from registry import limits
from registry.checks import check_definition
from registry.definition import JobDefinition
from registry.errors import (
    DuplicateJobDefinitionError,
    DuplicateQueueError,
    RegistryFrozenError,
    UnknownJobTypeError,
    UnknownProjectorError,
    UnknownQueueError,
)
from registry.nearest import did_you_mean
from registry.queues import DEFAULT_QUEUES, QueueSpec


class JobDefinitionRegistry:
    """Job definitions by job type, and the queues they may name (ADR-003 2.2).

    Every definition is checked when it is registered, so a job type that can be looked up can run.
    Look-ups take canonical names and the legacy spelling with dashes: ``active-recall`` finds
    ``active_recall`` (X72). Registering is for one thread at start-up; look-ups are for all.
    """

    def __init__(self, queues: Iterable[QueueSpec] = DEFAULT_QUEUES) -> None:
        """Take the configured queues; raises ``DuplicateQueueError`` where two share a name."""
        self._queues: dict[str, QueueSpec] = {}
        for spec in queues:
            if spec.name in self._queues:
                raise DuplicateQueueError(
                    "is used by two queues", field="name", owner=f"queue {spec.name!r}"
                )
            self._queues[spec.name] = spec
        self._definitions: dict[str, JobDefinition] = {}
        self._types: frozenset[str] = frozenset()
        self._frozen = False

    # -------------------------------------------------------------- filling

    def register(self, definition: JobDefinition) -> JobDefinition:
        """Check and add a definition, and return it.

        Raises ``RegistryFrozenError`` after the start, ``DuplicateJobDefinitionError`` where the
        type is taken, and another :class:`~registry.errors.DefinitionError` for each broken rule.
        """
        self._refuse_if_frozen(definition)
        check_definition(definition, self._queues.keys())
        if definition.job_type in self._definitions:
            raise DuplicateJobDefinitionError(
                "is registered already", field="job_type", owner=_owner(definition)
            )
        self._definitions[definition.job_type] = definition
        self._types = frozenset(self._definitions)
        return definition

    def check_projectors(self, known: Collection[str]) -> None:
        """Refuse a definition whose projector is not among the registered keys.

        Projectors live one floor up, so this is asked once, before the freeze. Raises
        ``UnknownProjectorError``.
        """
        for definition in self._definitions.values():
            key = definition.projector
            if key is not None and key not in known:
                have = ", ".join(sorted(known)) or "none"
                raise UnknownProjectorError(
                    f"names {key!r}, which is not registered (registered: {have})",
                    field="projector",
                    owner=_owner(definition),
                    job_type=definition.job_type,
                )

    def freeze(self) -> None:
        """Refuse every later ``register``, so that all look-ups of a process agree."""
        self._frozen = True

    @property
    def frozen(self) -> bool:
        """Whether the registry takes no more definitions."""
        return self._frozen

    # -------------------------------------------------------------- looking up

    def get(self, job_type: str) -> JobDefinition:
        """The definition of a job type or its legacy spelling; raises ``UnknownJobTypeError``."""
        definition = self.find(job_type)
        if definition is None:
            near = did_you_mean(str(job_type), self._definitions)
            why = f"{limits.shown(job_type)} has no definition{near}"
            raise UnknownJobTypeError(why, field="job_type", job_type=job_type)
        return definition

    def find(self, job_type: object) -> JobDefinition | None:
        """The definition of a job type or its legacy spelling, or None."""
        if not isinstance(job_type, str):
            # A caller's word for a type may be anything.
            return None
        return self._definitions.get(job_type) or self._definitions.get(job_type.replace("-", "_"))

    def get_all(self) -> tuple[JobDefinition, ...]:
        """Every definition, in the order of registering."""
        return tuple(self._definitions.values())

    def types(self) -> frozenset[str]:
        """The canonical job types known to this process: it touches no job of another type."""
        return self._types

    # -------------------------------------------------------------- queues

    @property
    def queues(self) -> tuple[QueueSpec, ...]:
        """The configured queues, in the order given."""
        return tuple(self._queues.values())

    def queue(self, name: str) -> QueueSpec:
        """The settings of a queue; raises ``UnknownQueueError``."""
        try:
            return self._queues[name]
        except KeyError:
            have = ", ".join(sorted(self._queues))
            why = f"{limits.shown(name)} is not configured (configured: {have}){did_you_mean(str(name), self._queues)}"
            raise UnknownQueueError(why, field="queue_name") from None

    def backoff_ms(self, definition: JobDefinition) -> int:
        """The delay before a job's first retry in ms: the definition's, or else its queue's."""
        own = definition.execution.retry_backoff.delay_ms
        return self.queue(definition.queue.queue_name).backoff_ms if own is None else own

    def _refuse_if_frozen(self, definition: JobDefinition) -> None:
        if self._frozen:
            why = "comes too late: register every definition before the app starts"
            raise RegistryFrozenError(why, owner=_owner(definition))


def _owner(definition: JobDefinition) -> str:
    return f"job type {definition.job_type!r}"
