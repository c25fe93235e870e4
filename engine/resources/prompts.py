"""Which prompt a job runs with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.errors import DefinitionRefusesJob
from registry.definition import JobDefinition
from registry.prompt import PromptTemplate


class PromptCatalog:
    """The prompts beside the definitions' own: older and newer versions that a job may ask for."""

    def __init__(self, prompts: Mapping[str, Iterable[PromptTemplate]] | None = None) -> None:
        """Take the further prompts of each job type."""
        self._prompts: dict[tuple[str, str], PromptTemplate] = {}
        for job_type, templates in (prompts or {}).items():
            for template in templates:
                self.add(job_type, template)

    def add(self, job_type: str, template: PromptTemplate) -> None:
        """Make a further version of a job type's prompt available; the same version replaces."""
        self._prompts[job_type, template.version] = template

    def resolve(
        self, definition: JobDefinition, version: str | None = None
    ) -> PromptTemplate | None:
        """The prompt of a job: the asked version, or the definition's own; None where it has none.

        Raises :class:`DefinitionRefusesJob` for a version that nobody knows: running another prompt than was
        asked for would be recorded as something it is not.
        """
        own = definition.prompt
        if version is None or (own is not None and own.version == version):
            return own
        found = self._prompts.get((definition.job_type, version))
        if found is None:
            raise DefinitionRefusesJob(
                f"Job type {definition.job_type!r} has no prompt version {version!r}.",
                prompt_version=version,
            )
        return found

    def knows(self, definition: JobDefinition, version: str) -> bool:
        """Whether a job of this type may ask for ``version``."""
        return version in self.versions(definition)

    def versions(self, definition: JobDefinition) -> tuple[str, ...]:
        """All versions a job of this type may ask for, the definition's own first."""
        further = sorted(v for job_type, v in self._prompts if job_type == definition.job_type)
        own = [definition.prompt.version] if definition.prompt else []
        return tuple(dict.fromkeys([*own, *further]))
