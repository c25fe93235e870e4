"""Why an output could not become business rows; all of them roll the final transaction back.

ProjectionError ................ the projector failed: retried like any attempt (design 10)
├── ProjectionConflict ......... a row it wrote is there already, and is not this job's artifact (X78)
├── ProjectionOutputMismatch ... the output has not the shape that this projector reads
├── ProjectionResultInvalid .... it answered something other than distinct artifact references
└── ProjectionTransactionEnded . it committed or rolled back a transaction that is not its own

DuplicateProjectorError ........ two projectors with one key (a RegistryError, raised at start-up)

Contention and lost connections are none of these: they pass through, and the unit of work runs again.
"""

from __future__ import annotations

from registry.errors import AiJobsError, RegistryError


class ProjectionError(AiJobsError):
    """The projector could not write its business rows."""

    code = "PROJECTION_FAILED"
    retryable = True
    public_message = "The result could not be stored."


class ProjectionConflict(ProjectionError):
    """A row that the projector wrote exists already and does not belong to this job."""

    code = "PROJECTION_CONFLICT"


class ProjectionOutputMismatch(ProjectionError):
    """The output does not have the shape that this projector reads."""

    code = "PROJECTION_OUTPUT"
    retryable = False


class ProjectionResultInvalid(ProjectionError):
    """The projector did not return distinct artifact references."""

    code = "PROJECTION_RESULT"
    retryable = False


class ProjectionTransactionEnded(ProjectionError):
    """The projector ended the transaction, which belongs to the engine."""

    code = "PROJECTION_TRANSACTION"
    retryable = False


class DuplicateProjectorError(RegistryError):
    """This projector key is taken already."""

    code = "PROJECTOR_DUPLICATE"
