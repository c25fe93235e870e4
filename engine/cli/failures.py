"""Any error as one line with its fix, and the exit code that goes with it.

Errors of ours are known by their stable code. Foreign ones are recognised only where their cause is one
that a user can mend: a database or a Redis that is not there, tables of another release, a file.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import Any, Final

from engine.cli.errors import CliError, Exit, SchemaBehind, UsageMistake
from engine.cli.output import HELP
from registry.errors import AiJobsError


@dataclass(frozen=True, slots=True)
class Failure:
    """What is told to the user."""

    code: str
    message: str
    fix: str | None
    exit_code: int


#: Exit codes of our own errors; every other one of ours is a refusal of what was asked: wrong usage.
_EXITS: Final[dict[str, Exit]] = {
    "JOB_NOT_FOUND": Exit.NOT_FOUND,
    "OUTBOX_EVENT_NOT_FOUND": Exit.NOT_FOUND,
    "JOB_TYPE_UNKNOWN": Exit.NOT_FOUND,
    "QUEUE_UNKNOWN": Exit.NOT_FOUND,
    "CREDENTIAL_MISSING": Exit.NOT_FOUND,
    "JOB_STATE": Exit.STATE,
    "JOB_NOT_CANCELLABLE": Exit.STATE,
    "JOB_ALREADY_CANCELLED": Exit.STATE,
    "JOB_NOT_RETRYABLE": Exit.STATE,
    "SNAPSHOT_EXPIRED": Exit.STATE,
    "OUTBOX_EVENT_STATE": Exit.STATE,
    "IDEMPOTENCY_KEY_REUSED": Exit.STATE,
    "TOO_MANY_JOBS": Exit.STATE,
    "QUOTA_EXCEEDED": Exit.STATE,
    "MIGRATION_BUSY": Exit.STATE,
    "MIGRATION_TABLE_EXISTS": Exit.STATE,
    "WAIT_TIMEOUT": Exit.TIMED_OUT,
    "DATABASE_UNAVAILABLE": Exit.UNREACHABLE,
    "DATABASE_MISSING": Exit.UNREACHABLE,
    "DATABASE_LOGIN_REFUSED": Exit.UNREACHABLE,
    "DATABASE_CONTENTION": Exit.UNREACHABLE,
    "COMMIT_OUTCOME_UNKNOWN": Exit.UNREACHABLE,
    "TRANSPORT_UNAVAILABLE": Exit.UNREACHABLE,
}

#: The end of a fix that the doctor itself leaves out.
SEE_DOCTOR: Final = "; `aijobs doctor` says more"

_FIXES: Final[dict[str, str]] = {
    "JOB_TYPE_UNKNOWN": "see `aijobs types list`; types of your own need --app module:attribute or AIJOBS_APP",
    "QUEUE_UNKNOWN": "see `aijobs queues list`; add queues with AIJOBS_QUEUES",
    "JOB_NOT_FOUND": "see `aijobs jobs list`",
    "OUTBOX_EVENT_NOT_FOUND": "see `aijobs outbox list`",
    "JOB_NOT_RETRYABLE": "create a job of its own instead; `aijobs jobs show ID --input` prints the input",
    "IDEMPOTENCY_KEY_REUSED": "use another --key, or the same input as the first time",
    "DATABASE_UNAVAILABLE": f"check AIJOBS_DATABASE_URL and that the server runs{SEE_DOCTOR}",
    "DATABASE_MISSING": "create it with CREATE DATABASE, or correct the name at the end of AIJOBS_DATABASE_URL",
    "DATABASE_LOGIN_REFUSED": "correct user and password in AIJOBS_DATABASE_URL, or the user's rights on the server",
    "DATABASE_URL_INVALID": "set AIJOBS_DATABASE_URL or --database-url",
    "TRANSPORT_UNAVAILABLE": f"check AIJOBS_REDIS_URL and that Redis runs{SEE_DOCTOR}",
    "TRANSPORT_MISCONFIGURED": "set AIJOBS_REDIS_URL or --redis-url, for example redis://127.0.0.1:6379/0",
    "COMMIT_OUTCOME_UNKNOWN": "look whether it happened before you repeat it",
    "MIGRATION_REVISION_UNKNOWN": "install the release of aijobs that migrated this database",
    "WAIT_TIMEOUT": "the job goes on; `aijobs jobs explain ID` says where it is",
    "CREDENTIAL_UNREADABLE": "AIJOBS_CREDENTIAL_KEYS must hold every key that was ever used",
}


def judge(error: BaseException) -> Failure:
    """What to tell the user about ``error``."""
    if isinstance(error, CliError):
        return Failure(error.code, str(error), error.fix, error.exit_code)
    if isinstance(error, AiJobsError):
        return _of_ours(error)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        return _of_usage(error)
    if type(error).__module__.startswith("sqlalchemy"):
        return _of_database(error)
    if isinstance(error, OSError) and error.filename is not None:
        return Failure("FILE", f"{error.filename}: {error.strerror or error}", None, Exit.USAGE)
    return _unexpected(error)


def _of_ours(error: AiJobsError) -> Failure:
    cause = error.__cause__
    text = str(error)
    # A refusal quotes the server already
    if cause is not None and type(cause).__module__.startswith("sqlalchemy") and error.code not in _QUOTING:
        text = f"{text} ({_driver_says(cause)})"
    return Failure(error.code, text, _FIXES.get(error.code), _EXITS.get(error.code, Exit.USAGE))


_QUOTING: Final = frozenset({"DATABASE_MISSING", "DATABASE_LOGIN_REFUSED"})


def _of_usage(error: Any) -> Failure:
    """Typer's own complaints: no such option, a value of the wrong type, a missing argument."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "aijobs"
    text = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return Failure(HELP, text, None, error.exit_code)
    return Failure("USAGE", text, f"see `{path} --help`", error.exit_code)


def _of_database(error: BaseException) -> Failure:
    from sqlalchemy.exc import DBAPIError

    from outbox.base.failures import classify, translate

    says = _driver_says(error)
    if isinstance(error, DBAPIError) and classify(error) != "other":
        ours = translate(error)
        ours.__cause__ = error
        return _of_ours(ours)
    if _is_about_tables(error):
        return judge(SchemaBehind(says))
    if "not a database" in says:
        return Failure("DATABASE_URL_INVALID", says, "name another file in AIJOBS_DATABASE_URL", Exit.USAGE)
    return Failure("DATABASE_ERROR", f"the database refused: {says}", "`aijobs doctor` says more", Exit.UNEXPECTED)


def _driver_says(error: BaseException) -> str:
    """The driver's own words, first line only; it names hosts and tables, never bound values."""
    cause: Any = getattr(error, "orig", None) or error
    arguments: tuple[Any, ...] = getattr(cause, "args", ())
    text = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], str) else str(cause)
    return text.strip().splitlines()[0][:300] if text.strip() else type(cause).__name__


#: No such table or column: PostgreSQL's states, MySQL's numbers, SQLite's words.
_MISSING_STATES: Final = frozenset({"42P01", "42703"})
_MISSING_NUMBERS: Final = frozenset({1146, 1054})


def _is_about_tables(error: BaseException) -> bool:
    cause: Any = getattr(error, "orig", None)
    if getattr(cause, "sqlstate", None) in _MISSING_STATES:
        return True
    if _number(error) is not None:
        return _number(error) in _MISSING_NUMBERS
    return "no such table" in str(cause) or "no such column" in str(cause)


def _number(error: BaseException) -> int | None:
    """MySQL's number of an error."""
    cause: Any = getattr(error, "orig", None)
    first = cause.args[0] if cause is not None and cause.args else None
    return first if isinstance(first, int) else None


def _unexpected(error: BaseException) -> Failure:
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return Failure("UNEXPECTED", text, "this is a defect; -v shows where", Exit.UNEXPECTED)


def show_traceback(error: BaseException) -> None:
    """For ``-v``; where the user's own code failed, theirs and not ours."""
    theirs = error.__cause__ if isinstance(error, UsageMistake) else None
    traceback.print_exception(theirs or error, file=sys.stderr)
