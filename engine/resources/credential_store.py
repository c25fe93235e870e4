"""Users' own keys at rest: encrypted, bound to their owner, and readable only where a job of the owner runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from pydantic import SecretStr

from engine.errors import CredentialInvalid, CredentialMissing, CredentialUnreadable
from engine.resources.credentials import USER_DEEPSEEK_KEY, Credential
from engine.resources.envelope import Envelopes, Owner
from outbox.base.clock import DatabaseClock, stamp
from outbox.base.ids import new_id
from outbox.base.tables import METADATA, MYSQL_TABLE, column
from outbox.base.types import BinaryUuid, UtcDateTime, ascii_text, exact_text, long_bytes

#: Longest key in characters; the longest known ones have a few hundred.
MAX_SECRET = 4096
MAX_LABEL = 100


#: A user's key for one credential mode. Only :class:`CredentialStore` reads and writes this table.
USER_CREDENTIAL = sa.Table(
    "user_credential",
    METADATA,
    column("id", BinaryUuid, primary_key=True),
    column("user_id", exact_text(128)),
    column("mode", ascii_text(32)),
    # The user's name for the key, to tell several apart; nothing of the key itself is kept readable.
    column("label", exact_text(MAX_LABEL)),
    column("sealed", long_bytes()),
    column("created_at", UtcDateTime),
    # When the user last put in another key; re-encryption does not count.
    column("replaced_at", UtcDateTime, nullable=True),
    sa.Index("ix_user_credential_user", "user_id", "id"),
    **MYSQL_TABLE,
)


@dataclass(frozen=True, slots=True)
class StoredCredential:
    """What a user may see of a stored key: all but the key."""

    id: UUID
    user_id: str = field(repr=False)
    mode: str
    label: str
    created_at: datetime
    replaced_at: datetime | None


@dataclass(frozen=True, slots=True)
class Resealed:
    """One round of re-encryption; ``last_id`` begins the next one, None means that all rows were seen."""

    done: int
    unreadable: int
    last_id: UUID | None


_C = USER_CREDENTIAL.c
_VISIBLE = [one for one in _C if one.name != "sealed"]


class CredentialStore:
    """Keeps users' keys. Every method works in the caller's transaction and commits nothing."""

    def __init__(self, envelopes: Envelopes, clock: DatabaseClock) -> None:
        """Take the encryption keys and the database's clock."""
        self._envelopes = envelopes
        self._clock = clock

    def store(
        self,
        conn: sa.Connection,
        *,
        user_id: str,
        secret: SecretStr,
        mode: str = USER_DEEPSEEK_KEY,
        label: str = "",
    ) -> StoredCredential:
        """Keep a key under a new id. Raises :class:`CredentialInvalid` for what cannot be a key."""
        owner = Owner(new_id(), user_id, mode)
        row = {
            "id": owner.credential_id,
            "user_id": user_id,
            "mode": mode,
            "label": label.strip()[:MAX_LABEL],
            "sealed": self._envelopes.seal(checked(secret), owner),
            "created_at": stamp(),
        }
        conn.execute(sa.insert(USER_CREDENTIAL).values(row), {"now_us": self._clock.us()})
        return self.get(conn, user_id=user_id, credential_id=owner.credential_id)

    def replace(
        self, conn: sa.Connection, *, user_id: str, credential_id: UUID, secret: SecretStr
    ) -> StoredCredential:
        """Put another key under the same id, so that queued jobs use it too. Raises :class:`CredentialMissing`."""
        row = self._row(conn, user_id, credential_id)
        sealed = self._envelopes.seal(checked(secret), Owner(row.id, row.user_id, row.mode))
        change = sa.update(USER_CREDENTIAL).where(_C.id == credential_id)
        conn.execute(
            change.values(sealed=sealed, replaced_at=stamp()), {"now_us": self._clock.us()}
        )
        return self.get(conn, user_id=user_id, credential_id=credential_id)

    def delete(self, conn: sa.Connection, *, user_id: str, credential_id: UUID) -> bool:
        """Forget a key; False where the user has no such key. Jobs that still name it end CREDENTIAL_MISSING."""
        try:
            self._row(conn, user_id, credential_id)
        except CredentialMissing:
            return False
        return conn.execute(sa.delete(USER_CREDENTIAL).where(_C.id == credential_id)).rowcount == 1

    def list(self, conn: sa.Connection, *, user_id: str) -> list[StoredCredential]:
        """The user's keys, oldest first, without the keys."""
        found = sa.select(*_VISIBLE).where(_C.user_id == user_id).order_by(_C.id)
        rows = conn.execute(found).mappings()
        return [StoredCredential(**row) for row in rows if row["user_id"] == user_id]

    def get(self, conn: sa.Connection, *, user_id: str, credential_id: UUID) -> StoredCredential:
        """One key without the key. Raises :class:`CredentialMissing`, also for another user's."""
        row = self._row(conn, user_id, credential_id)._mapping
        return StoredCredential(**{one.name: row[one.name] for one in _VISIBLE})

    def open(
        self, conn: sa.Connection, *, user_id: str, credential_id: UUID, mode: str
    ) -> Credential:
        """Decrypt the key for one attempt of a job of ``user_id``; only a worker calls this (X83).

        Raises :class:`CredentialMissing` where this user has no such key for this mode (another user's key
        looks exactly like none), :class:`CredentialUnreadable` where it does not decrypt.
        """
        row = self._row(conn, user_id, credential_id)
        if row.mode != mode:
            raise CredentialMissing(mode=mode)
        secret = self._envelopes.open(row.sealed, Owner(row.id, row.user_id, row.mode))
        return Credential(mode=mode, secret=secret)

    def reseal(
        self, conn: sa.Connection, *, after: UUID | None = None, limit: int = 200
    ) -> Resealed:
        """Re-encrypt up to ``limit`` rows with the newest key; rows that no key opens are left and counted."""
        found = sa.select(_C.id, _C.sealed).order_by(_C.id).limit(limit)
        if after is not None:
            found = found.where(_C.id > after)
        rows = conn.execute(found).all()
        done = sum(self._reseal_row(conn, row.id, row.sealed) for row in rows)
        last_id = rows[-1].id if len(rows) == limit else None
        return Resealed(done=done, unreadable=len(rows) - done, last_id=last_id)

    def _reseal_row(self, conn: sa.Connection, credential_id: UUID, sealed: bytes) -> bool:
        try:
            fresh = self._envelopes.reseal(sealed)
        except CredentialUnreadable:
            return False
        # Compared with what was read: a key that its owner replaced meanwhile must not come back.
        where = (_C.id == credential_id, _C.sealed == sealed)
        conn.execute(sa.update(USER_CREDENTIAL).where(*where).values(sealed=fresh))
        return True

    def _row(
        self, conn: sa.Connection, user_id: str, credential_id: UUID
    ) -> sa.Row[tuple[UUID, str, str, str, bytes, datetime, datetime | None]]:
        row = conn.execute(sa.select(USER_CREDENTIAL).where(_C.id == credential_id)).one_or_none()
        # Compared here: MariaDB takes "u1" and "u1 " for one text (padded collation).
        if row is None or row.user_id != user_id:
            raise CredentialMissing("This user has no such credential.")
        return row


def checked(secret: SecretStr) -> SecretStr:
    """The key without surrounding space. Raises :class:`CredentialInvalid` for what cannot be a key."""
    text = secret.get_secret_value().strip()
    printable = text.isascii() and text.isprintable() and " " not in text
    if not text or not printable or len(text) > MAX_SECRET:
        raise CredentialInvalid("A key is one word of printable ASCII characters.")
    return SecretStr(text)
