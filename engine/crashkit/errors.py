"""What keeps the kit from a verdict. A breach is no error: it is a result."""

from __future__ import annotations

from registry.errors import AiJobsError


class KitError(AiJobsError):
    """The crash kit could not do its work."""

    code = "CRASHKIT_ERROR"


class KitStuckError(KitError):
    """Something the kit waited for did not come."""

    code = "CRASHKIT_STUCK"


class KitRefusedError(KitError):
    """The kit does not run on these places."""

    code = "CRASHKIT_REFUSED"
