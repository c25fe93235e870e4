"""What can go wrong below jobs and events: the database, and values it cannot keep."""

from __future__ import annotations

from registry.errors import AiJobsError


class DatabaseError(AiJobsError):
    """The database refused or failed a unit of work."""

    code = "DATABASE_ERROR"
    public_message = "The service is temporarily unavailable."


class DatabaseUrlError(DatabaseError):
    """The database URL cannot be used."""

    code = "DATABASE_URL_INVALID"


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached."""

    code = "DATABASE_UNAVAILABLE"
    retryable = True


class DatabaseMissing(DatabaseUnavailable):
    """The server runs, and has no database of this name."""

    code = "DATABASE_MISSING"


class DatabaseLoginRefused(DatabaseUnavailable):
    """The server runs, and refuses the user or the password."""

    code = "DATABASE_LOGIN_REFUSED"


class DatabaseContention(DatabaseError):
    """Deadlocks or lock waits outlasted every retry of the unit; nothing of it was stored."""

    code = "DATABASE_CONTENTION"
    retryable = True


class CommitOutcomeUnknown(DatabaseError):
    """The connection was lost while COMMIT was on its way, and nothing tells whether it happened (CI-9)."""

    code = "COMMIT_OUTCOME_UNKNOWN"
    retryable = True


class UnpreparedConnectionError(DatabaseError):
    """The caller's connection cannot carry our statements safely."""

    code = "CONNECTION_NOT_PREPARED"


class NotCanonicalError(AiJobsError):
    """The value cannot be stored alike on every database."""

    code = "VALUE_NOT_STORABLE"


class NaiveDatetimeError(AiJobsError):
    """A date and time without a time zone was given (DB-8)."""

    code = "DATETIME_NAIVE"
