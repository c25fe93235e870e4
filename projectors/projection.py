"""One projection in the final transaction, guarded: the only caller of ``ResultProjector.project``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from pydantic import BaseModel

from outbox.base.clock import DatabaseClock
from outbox.base.db import classify
from projectors import artifacts
from projectors.errors import (
    ProjectionConflict,
    ProjectionError,
    ProjectionResultInvalid,
    ProjectionTransactionEnded,
)
from projectors.guard import lent_session
from projectors.protocol import ArtifactRef, ResultProjector
from registry.job import JobView

#: PostgreSQL's state, MySQL's and MariaDB's number, SQLite's two.
_DUPLICATES: Final = frozenset({"23505", 1062, 1555, 2067})


def project_output(
    conn: sa.Connection,
    projector: ResultProjector,
    job: JobView,
    output: BaseModel,
    clock: DatabaseClock,
) -> list[ArtifactRef]:
    """Turn the output into business rows and artifacts in the caller's transaction; return the artifacts.

    The caller holds the lock of the job's row. A job that has artifacts is projected already: they are
    returned and nothing is changed, whatever the output says (PC-2). Raises a :class:`ProjectionError`,
    after which the caller must roll back; contention and lost connections pass through unchanged, so
    that the unit of work can run again.
    """
    done = artifacts.existing(conn, job.id)
    if done:
        return done
    try:
        refs = _run(conn, projector, job, output)
    except ProjectionError:
        raise
    except sa.exc.DBAPIError as error:
        raise _judged(projector, error) from error
    except BaseException as error:
        # On a thread of the worker SystemExit and its like would end the process, CancelledError the job's task.
        raise ProjectionError(_failed(projector, error), key=projector.key) from error
    try:
        return artifacts.record(conn, job.id, refs, clock)
    except sa.exc.DBAPIError as error:
        # Nothing can be written any more, as after an error of its own that the projector has swallowed.
        raise _judged(projector, error) from error


def _run(
    conn: sa.Connection, projector: ResultProjector, job: JobView, output: BaseModel
) -> Sequence[ArtifactRef]:
    def refuse(what: str) -> Exception:
        return ProjectionTransactionEnded(f"projector {projector.key!r} {what}", key=projector.key)

    with lent_session(conn, refuse=refuse) as session:
        refs: object = projector.project(session, job, output)
    if not isinstance(refs, list | tuple):
        kind = type(refs).__name__
        raise ProjectionResultInvalid(
            f"projector {projector.key!r} returned {kind}, not a list", key=projector.key
        )
    return refs


def _judged(projector: ResultProjector, error: sa.exc.DBAPIError) -> Exception:
    if classify(error) != "other":
        return error
    # Only the artifact's own key would mean "done", and that one was looked up before (X78).
    kind = ProjectionConflict if _is_duplicate(error) else ProjectionError
    return kind(_failed(projector, error), key=projector.key)


def _is_duplicate(error: sa.exc.DBAPIError) -> bool:
    """Whether a row is there already; other constraints (a missing value, a missing parent) are no conflict."""
    cause: Any = error.orig
    codes = (
        getattr(cause, "sqlstate", None),
        getattr(cause, "sqlite_errorcode", None),
        *getattr(cause, "args", ()),
    )
    return isinstance(error, sa.exc.IntegrityError) and any(code in _DUPLICATES for code in codes)


def _failed(projector: ResultProjector, error: BaseException) -> str:
    """The kind of error alone: its text may hold an output (design 1, promise 7)."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig else error
    return f"projector {projector.key!r}: {type(cause).__name__}"
