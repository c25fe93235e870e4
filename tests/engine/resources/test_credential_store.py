"""Users' keys at rest, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from engine.errors import (
    CredentialInvalid,
    CredentialMissing,
    CredentialUnreadable,
    SettingsError,
)
from engine.resources.credential_store import USER_CREDENTIAL, CredentialStore, StoredCredential
from engine.resources.credentials import OFFLINE, PLATFORM_KEY, USER_DEEPSEEK_KEY, Credential
from engine.resources.envelope import Envelopes, Owner, new_encryption_key
from engine.resources.resolver import CredentialResolver
from outbox.base.clock import DatabaseClock
from outbox.base.db import create_engine_for

SECRET = SecretStr("sk-user-0123456789")


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    made = create_engine_for(database_url)
    USER_CREDENTIAL.create(made)
    yield made
    made.dispose()


@pytest.fixture
def conn(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.begin() as connection:
        yield connection


def store_with(*keys: SecretStr) -> CredentialStore:
    return CredentialStore(Envelopes(keys or [new_encryption_key()]), DatabaseClock())


def key_of(credential: Credential) -> str:
    assert credential.secret is not None
    return credential.secret.get_secret_value()


def opened(
    store: CredentialStore, conn: sa.Connection, stored: StoredCredential, user: str = "u1"
) -> str:
    return key_of(store.open(conn, user_id=user, credential_id=stored.id, mode=USER_DEEPSEEK_KEY))


def test_stored_key_is_unreadable_in_the_table_and_opens_for_its_user(conn: sa.Connection) -> None:
    store = store_with()
    stored = store.store(conn, user_id="u1", secret=SECRET, label=" mine ")
    row = conn.execute(sa.select(USER_CREDENTIAL)).one()
    assert b"0123456789" not in row.sealed
    assert (row.label, row.mode, row.replaced_at) == ("mine", USER_DEEPSEEK_KEY, None)
    assert row.created_at.tzinfo is not None
    assert opened(store, conn, stored) == SECRET.get_secret_value()


def test_nothing_printable_of_a_stored_credential_holds_key_or_user(conn: sa.Connection) -> None:
    store = store_with()
    stored = store.store(conn, user_id="user-77", secret=SECRET)
    credential = store.open(
        conn, user_id="user-77", credential_id=stored.id, mode=USER_DEEPSEEK_KEY
    )
    shown = f"{stored!r} {credential!r} {credential} {store.list(conn, user_id='user-77')!r}"
    assert "0123456789" not in shown
    assert "user-77" not in shown


@pytest.mark.parametrize("other", ["u2", "U1", "u1 ", ""])
def test_another_users_key_looks_like_none_in_every_act(conn: sa.Connection, other: str) -> None:
    store = store_with()
    stored = store.store(conn, user_id="u1", secret=SECRET)
    with pytest.raises(CredentialMissing):
        opened(store, conn, stored, other)
    with pytest.raises(CredentialMissing):
        store.get(conn, user_id=other, credential_id=stored.id)
    with pytest.raises(CredentialMissing):
        store.replace(conn, user_id=other, credential_id=stored.id, secret=SecretStr("sk-evil"))
    assert store.list(conn, user_id=other) == []
    assert not store.delete(conn, user_id=other, credential_id=stored.id)
    assert opened(store, conn, stored) == SECRET.get_secret_value()


@pytest.mark.parametrize(
    "change", [{"user_id": "u2"}, {"id": UUID(int=1)}, {"mode": "another_mode"}]
)
def test_row_copied_or_changed_by_hand_does_not_decrypt(
    conn: sa.Connection, change: dict[str, object]
) -> None:
    store = store_with()
    store.store(conn, user_id="u1", secret=SECRET)
    conn.execute(sa.update(USER_CREDENTIAL).values(**change))
    row = conn.execute(sa.select(USER_CREDENTIAL)).one()
    with pytest.raises(CredentialUnreadable):
        store.open(conn, user_id=row.user_id, credential_id=row.id, mode=row.mode)


def test_key_is_not_handed_out_for_another_mode(conn: sa.Connection) -> None:
    store = store_with()
    stored = store.store(conn, user_id="u1", secret=SECRET)
    with pytest.raises(CredentialMissing):
        store.open(conn, user_id="u1", credential_id=stored.id, mode=PLATFORM_KEY)


def test_replaced_key_keeps_its_id_and_says_when(conn: sa.Connection) -> None:
    store = store_with()
    stored = store.store(conn, user_id="u1", secret=SECRET)
    changed = store.replace(
        conn, user_id="u1", credential_id=stored.id, secret=SecretStr("sk-second")
    )
    assert changed.id == stored.id
    assert changed.replaced_at is not None
    assert changed.replaced_at >= stored.created_at
    assert opened(store, conn, stored) == "sk-second"


def test_deleted_key_is_gone_from_the_table(conn: sa.Connection) -> None:
    store = store_with()
    stored = store.store(conn, user_id="u1", secret=SECRET)
    assert store.delete(conn, user_id="u1", credential_id=stored.id)
    assert not store.delete(conn, user_id="u1", credential_id=stored.id)
    assert conn.execute(sa.select(sa.func.count()).select_from(USER_CREDENTIAL)).scalar_one() == 0


def test_list_is_in_order_and_of_one_user(conn: sa.Connection) -> None:
    store = store_with()
    ids = [store.store(conn, user_id="u1", secret=SECRET, label=str(n)).id for n in range(3)]
    store.store(conn, user_id="u2", secret=SECRET)
    assert [found.id for found in store.list(conn, user_id="u1")] == sorted(ids)


def test_encryption_keys_rotate_without_losing_a_row(conn: sa.Connection) -> None:
    old, new = new_encryption_key(), new_encryption_key()
    before = store_with(old)
    stored = [before.store(conn, user_id=f"u{n}", secret=SecretStr(f"sk-{n}")) for n in range(5)]
    both = store_with(new, old)
    done, after = 0, None
    while True:
        round_ = both.reseal(conn, after=after, limit=2)
        done += round_.done
        after = round_.last_id
        if after is None:
            break
    assert done == 5
    alone = store_with(new)
    for number, credential in enumerate(stored):
        assert opened(alone, conn, credential, f"u{number}") == f"sk-{number}"
        with pytest.raises(CredentialUnreadable):
            opened(before, conn, credential, f"u{number}")
        assert credential.replaced_at is None


def test_row_that_no_key_opens_is_counted_and_left(conn: sa.Connection) -> None:
    store_with().store(conn, user_id="u1", secret=SECRET)
    report = store_with().reseal(conn)
    assert (report.done, report.unreadable, report.last_id) == (0, 1, None)


@pytest.mark.parametrize("text", ["", "  ", "two words", "sk-\nX: 1", "sk-ключ", "x" * 5000])
def test_what_cannot_be_a_key_is_refused(conn: sa.Connection, text: str) -> None:
    with pytest.raises(CredentialInvalid) as caught:
        store_with().store(conn, user_id="u1", secret=SecretStr(text))
    assert text.strip() == "" or text not in str(caught.value)


# -- without a database


@pytest.mark.parametrize("keys", [[], ["short"], ["x" * 44], ["é" * 32]])
def test_unusable_encryption_keys_are_refused_without_being_shown(keys: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        Envelopes([SecretStr(key) for key in keys])
    assert not keys or keys[0] not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_keys_may_come_as_one_text() -> None:
    old, new = new_encryption_key(), new_encryption_key()
    owner = Owner(UUID(int=7), "u", USER_DEEPSEEK_KEY)
    sealed = Envelopes([old]).seal(SECRET, owner)
    text = SecretStr(f" {new.get_secret_value()}, {old.get_secret_value()},")
    assert Envelopes.from_setting(text).open(sealed, owner) == SECRET


def test_tampered_envelope_does_not_open() -> None:
    envelopes = Envelopes([new_encryption_key()])
    owner = Owner(UUID(int=7), "u", USER_DEEPSEEK_KEY)
    sealed = bytearray(envelopes.seal(SECRET, owner))
    sealed[-5] ^= 1
    for broken in (bytes(sealed), b"", b"not a token"):
        with pytest.raises(CredentialUnreadable):
            envelopes.open(broken, owner)


# -- resolving


@pytest.fixture
def sqlite_conn(sqlite_url: str) -> Iterator[sa.Connection]:
    engine = create_engine_for(sqlite_url)
    USER_CREDENTIAL.create(engine)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def test_resolver_takes_each_mode_from_its_own_place(sqlite_conn: sa.Connection) -> None:
    store = store_with()
    stored = store.store(sqlite_conn, user_id="u1", secret=SECRET)
    resolver = CredentialResolver(platform=SecretStr("sk-platform"), store=store)

    def resolve(mode: str, credential_id: str | None = None, user_id: str = "u1") -> Credential:
        return resolver.resolve(
            sqlite_conn, mode=mode, credential_id=credential_id, user_id=user_id
        )

    assert key_of(resolve(PLATFORM_KEY)) == "sk-platform"
    assert resolve(OFFLINE).secret is None
    for written in (str(stored.id), stored.id.hex):
        assert key_of(resolve(USER_DEEPSEEK_KEY, written)) == SECRET.get_secret_value()
    for wrong in (None, "", "no-uuid", str(UUID(int=1))):
        with pytest.raises(CredentialMissing):
            resolve(USER_DEEPSEEK_KEY, wrong)
    with pytest.raises(CredentialMissing):
        resolve(USER_DEEPSEEK_KEY, str(stored.id), "u2")


def test_users_keys_without_encryption_keys_are_missing(sqlite_conn: sa.Connection) -> None:
    resolver = CredentialResolver(platform=None, store=None)
    with pytest.raises(CredentialMissing):
        resolver.resolve(
            sqlite_conn, mode=USER_DEEPSEEK_KEY, credential_id=str(UUID(int=1)), user_id="u"
        )
