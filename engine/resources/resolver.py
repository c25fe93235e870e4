"""From what a job says about its credential to the key itself, in the worker's memory."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa
from pydantic import SecretStr

from engine.errors import CredentialMissing
from engine.resources.credential_store import CredentialStore
from engine.resources.credentials import OFFLINE, PLATFORM_KEY, Credential


class CredentialResolver:
    """Finds the key of a job: the platform's from the settings, a user's own from the store."""

    def __init__(self, *, platform: SecretStr | None, store: CredentialStore | None) -> None:
        """Take the platform's key and the store; either may be missing in an installation."""
        self._platform = platform
        self._store = store

    def resolve(
        self, conn: sa.Connection, *, mode: str, credential_id: str | None, user_id: str
    ) -> Credential:
        """The credential for one attempt, read in the caller's transaction.

        A platform credential may come without a key: the provider of the platform decides whether it needs
        one. Raises :class:`CredentialMissing` or :class:`CredentialUnreadable`.
        """
        if mode == PLATFORM_KEY:
            return self.platform_credential()
        if mode == OFFLINE:
            return Credential(OFFLINE)
        if self._store is None:
            raise CredentialMissing(
                "No key to read users' credentials with is configured.", mode=mode
            )
        stored = _parsed(credential_id, mode)
        return self._store.open(conn, user_id=user_id, credential_id=stored, mode=mode)

    def platform_credential(self) -> Credential:
        """The platform's credential, which needs no look-up."""
        return Credential(PLATFORM_KEY, self._platform)


def _parsed(credential_id: str | None, mode: str) -> UUID:
    try:
        return UUID(credential_id or "")
    except ValueError:
        raise CredentialMissing("The job names no credential of its user.", mode=mode) from None
