"""HOW A VALIDATED OUTPUT BECOMES BUSINESS ROWS.

    protocol ....... ResultProjector and ArtifactRef: what a projector is and what it answers
    registry ....... ProjectorRegistry: projectors by key, filled at start-up, then frozen
    projection ..... project_output: one projection in the final transaction, guarded
    guard .......... statements a projector may not send, since they end the transaction
    artifacts ...... the table ai_job_artifact: which rows came from which job
    errors ......... PROJECTION_*: why an output could not become rows
    builtin/ ....... projectors of the built-in job types, with their business tables

Promises: a projector runs in the transaction that ends its job, so its rows and "succeeded" are one fact
(design 10); a repeated projection of one job returns the first one's artifacts and changes nothing (PC-2);
equal outputs of two jobs never share a row (PC-4).
Left to others: ending the job (engine.lifecycle), retrying (engine.pipeline), every commit.
"""

from projectors.protocol import ArtifactRef, FunctionProjector, ResultProjector
from projectors.registry import ProjectorRegistry

__all__ = ["ArtifactRef", "FunctionProjector", "ProjectorRegistry", "ResultProjector"]
