"""What a projector is, and what it answers (ADR-003 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import BaseModel

from registry.job import JobView

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """Names one business row that a job made.

    ``artifact_type`` is a short ASCII name of the kind (``flashcard``), ``artifact_id`` the row's id as
    text. Both together are unique within a job; ``ordinal`` only orders (X88).
    """

    artifact_type: str
    artifact_id: str
    ordinal: int = 0


@runtime_checkable
class ResultProjector(Protocol):
    """Writes the business rows of one validated output."""

    @property
    def key(self) -> str:
        """The name under which job definitions ask for this projector."""

    def project(self, session: Session, job: JobView, output: BaseModel) -> Sequence[ArtifactRef]:
        """Write rows in the final transaction and return a reference to each.

        The transaction is the engine's: neither commit nor roll back, and call nothing that is not in
        this database, because the whole of it may run again after a deadlock. Take ids from
        ``outbox.base.ids.new_id`` and own every row by ``job.id``. Whatever is raised rolls the
        transaction back and counts as a failed attempt.
        """


@dataclass(frozen=True, slots=True)
class FunctionProjector:
    """A projector made of a key and a function, as ``@app.projector("key")`` does."""

    key: str
    function: Callable[[Session, JobView, BaseModel], Sequence[ArtifactRef] | None]

    def project(self, session: Session, job: JobView, output: BaseModel) -> Sequence[ArtifactRef]:
        """Call the function; None stands for no artifacts."""
        return self.function(session, job, output) or ()
