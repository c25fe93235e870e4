"""Mistakes that only the command line can see; each says how to mend it.

CliError
├── UsageMistake ....... an argument, a file or a setting is wrong           exit 2
├── NotFound ........... what was named does not exist                       exit 3
├── NotPossible ........ it exists, but not in a state that allows this      exit 4
├── CheckFailed ........ a check found something                             exit 7
└── NotAllowed ......... confirmation is missing, or refused                 exit 9
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from registry.errors import AiJobsError


class Exit(IntEnum):
    """What the exit codes mean."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    NOT_FOUND = 3
    STATE = 4
    JOB_NOT_SUCCEEDED = 5
    TIMED_OUT = 6
    CHECK_FAILED = 7
    UNREACHABLE = 8
    REFUSED = 9


class CliError(AiJobsError):
    """The command could not be carried out."""

    code = "CLI_ERROR"
    exit_code: ClassVar[Exit] = Exit.UNEXPECTED

    def __init__(self, message: str | None = None, *, fix: str | None = None, **details: Any) -> None:
        """Take what is wrong, and what to do about it (one line each)."""
        super().__init__(message, **details)
        self.fix = fix


class UsageMistake(CliError):
    """The command was called in a way that cannot work."""

    code = "USAGE"
    exit_code = Exit.USAGE


class NotFound(CliError):
    """What was named does not exist."""

    code = "NOT_FOUND"
    exit_code = Exit.NOT_FOUND


class NotPossible(CliError):
    """The present state does not allow this."""

    code = "NOT_POSSIBLE"
    exit_code = Exit.STATE


class CheckFailed(CliError):
    """A check found something that must be mended."""

    code = "CHECK_FAILED"
    exit_code = Exit.CHECK_FAILED


class SchemaBehind(CheckFailed):
    """The database does not have the tables of this release."""

    code = "SCHEMA_BEHIND"

    def __init__(self, how: str) -> None:
        """Take how it stands instead, as a part of a sentence."""
        super().__init__(
            f"the database does not have the tables of this release: {how}", fix="run `aijobs db upgrade`"
        )


class NotAllowed(CliError):
    """The act was not confirmed."""

    code = "NOT_CONFIRMED"
    exit_code = Exit.REFUSED
