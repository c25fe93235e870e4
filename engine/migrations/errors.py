"""Why a migration did not happen.

MigrationError
├── MigrationBusy ........... another process migrates and is not done
├── TableInTheWay ........... a table of the host application has the name of one of ours
└── UnknownRevision ......... a newer release has migrated this database, or no release ever
"""

from __future__ import annotations

from engine.errors import EngineError


class MigrationError(EngineError):
    """The database's tables could not be brought up to date."""

    code = "MIGRATION_FAILED"


class MigrationBusy(MigrationError):
    """Another process is migrating this database and did not finish in time."""

    code = "MIGRATION_BUSY"
    retryable = True


class TableInTheWay(MigrationError):
    """A table with this name exists and is not ours."""

    code = "MIGRATION_TABLE_EXISTS"


class UnknownRevision(MigrationError):
    """This release does not know the revision."""

    code = "MIGRATION_REVISION_UNKNOWN"
