"""Secrets at rest: encrypted with a set of keys, and bound to the row, the user and the mode they belong to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from engine.errors import CredentialUnreadable, SettingsError


def new_encryption_key() -> SecretStr:
    """A fresh key for :class:`Envelopes`, as text to put into the settings."""
    return SecretStr(_library().Fernet.generate_key().decode())


def _library() -> Any:
    """Loaded by the first who has a key: the others are spared 6 MB and its start."""
    import cryptography.fernet

    return cryptography.fernet


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a sealed secret is. It is sealed in with the secret, so a copied or changed row does not open."""

    credential_id: UUID
    user_id: str
    mode: str

    def as_fields(self) -> dict[str, str]:
        """The form that is sealed in."""
        return {"id": self.credential_id.hex, "user": self.user_id, "mode": self.mode}


class Envelopes:
    """Seals secrets with the first key of a set and opens them with any.

    To rotate: put the new key first, re-encrypt the stored rows, then take the old key away.
    """

    def __init__(self, keys: Sequence[SecretStr]) -> None:
        """Take the keys, newest first. Raises :class:`SettingsError`."""
        if not keys:
            raise SettingsError("No key to encrypt users' credentials with is configured.")
        try:
            fernets = [_library().Fernet(key.get_secret_value().strip()) for key in keys]
            self._fernet = _library().MultiFernet(fernets)
        except ValueError:
            # Without the original error, which may quote the key.
            raise SettingsError("A credential key is not 32 bytes in URL-safe base64.") from None

    @classmethod
    def from_setting(cls, keys: SecretStr) -> Envelopes:
        """Take the keys as one text, separated by commas, newest first. Raises :class:`SettingsError`."""
        parts = (part.strip() for part in keys.get_secret_value().split(","))
        return cls([SecretStr(part) for part in parts if part])

    def seal(self, secret: SecretStr, owner: Owner) -> bytes:
        """Encrypt ``secret`` so that it opens for ``owner`` only."""
        content = {"v": 1, "key": secret.get_secret_value(), **owner.as_fields()}
        sealed: bytes = self._fernet.encrypt(json.dumps(content).encode())
        return sealed

    def open(self, sealed: bytes, owner: Owner) -> SecretStr:
        """Decrypt. Raises :class:`CredentialUnreadable`, also where the content belongs to somebody else."""
        try:
            content: dict[str, Any] = json.loads(self._fernet.decrypt(sealed))
        except (_library().InvalidToken, ValueError):
            raise CredentialUnreadable() from None
        secret = content.pop("key", None)
        if not isinstance(secret, str) or content != {"v": 1, **owner.as_fields()}:
            raise CredentialUnreadable("The stored credential belongs to another row.")
        return SecretStr(secret)

    def reseal(self, sealed: bytes) -> bytes:
        """Encrypt the same content with the first key. Raises :class:`CredentialUnreadable`."""
        try:
            resealed: bytes = self._fernet.rotate(sealed)
        except _library().InvalidToken:
            raise CredentialUnreadable() from None
        return resealed
