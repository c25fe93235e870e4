"""``aijobs credentials``: users' own model keys, encrypted at rest."""

from __future__ import annotations

import sys
from typing import Annotated, Any
from uuid import UUID

import typer
from pydantic import SecretStr

from engine.app import AiJobApp
from engine.cli.errors import Exit, NotFound, UsageMistake
from engine.cli.nouns import noun
from engine.cli.session import Session
from engine.cli.values import identity
from engine.lifecycle.documents import document
from engine.resources.credential_store import CredentialStore
from engine.resources.envelope import Envelopes, new_encryption_key

command = noun("Users' own model keys, encrypted with the keys in AIJOBS_CREDENTIAL_KEYS.")

User = Annotated[str, typer.Option(help="Whose key it is.")]
CredentialId = Annotated[str, typer.Argument(metavar="ID")]


@command.command("new-key", epilog="Example: export AIJOBS_CREDENTIAL_KEYS=$(aijobs credentials new-key)")
def new_key(ctx: typer.Context) -> None:
    """Print a fresh encryption key for AIJOBS_CREDENTIAL_KEYS. Keep it safe: it opens every stored key."""
    session: Session = ctx.obj
    key = new_encryption_key().get_secret_value()
    session.out.show({"key": key}, lambda: session.out.line(key))


@command.command(epilog="Example: aijobs credentials add --user u1 < key.txt")
def add(
    ctx: typer.Context,
    user: User,
    label: Annotated[str, typer.Option(help="The user's name for it.")] = "",
    replace: Annotated[str | None, typer.Option(metavar="ID", help="Put the new key under this id.")] = None,
) -> None:
    """Store a user's key and print its id. The key is asked for, or read from standard input; never an argument."""
    session: Session = ctx.obj
    app = session.database_app
    store, secret = _store(app), _secret()
    if replace is None:
        made = app.uow.run(lambda conn: store.store(conn, user_id=user, secret=secret, label=label))
    else:
        which = identity(replace, name="credential id")
        made = app.uow.run(
            lambda conn: store.replace(conn, user_id=user, credential_id=which, secret=secret), repeatable=True
        )
    session.out.show(document(made), lambda: session.out.line(str(made.id)))


@command.command("list", epilog="Example: aijobs credentials list --user u1")
def list_(ctx: typer.Context, user: User) -> None:
    """List a user's keys, without the keys."""
    session: Session = ctx.obj
    app = session.database_app
    store = _store(app)
    found = app.uow.read(lambda conn: store.list(conn, user_id=user))
    rows = [(c.id, c.mode, c.label, c.created_at, c.replaced_at) for c in found]
    session.out.show(
        {"credentials": [document(one) for one in found]},
        lambda: session.out.table(("ID", "MODE", "LABEL", "CREATED", "REPLACED"), rows),
    )


@command.command(epilog="Example: aijobs credentials delete ID --user u1")
def delete(ctx: typer.Context, credential_id: CredentialId, user: User) -> None:
    """Forget a key. Jobs that still name it end with CREDENTIAL_MISSING."""
    session: Session = ctx.obj
    app = session.database_app
    store, which = _store(app), identity(credential_id, name="credential id")
    session.confirm(f"forget {which}?")
    gone = app.uow.run(lambda conn: store.delete(conn, user_id=user, credential_id=which))
    if not gone:
        raise NotFound(f"the user {user!r} has no credential {which}", fix="see `aijobs credentials list`")
    session.out.show({"deleted": str(which)}, lambda: session.out.say("forgotten"))


@command.command(epilog="Example: aijobs credentials rotate")
def rotate(ctx: typer.Context) -> int:
    """Encrypt every stored key anew with the first key of AIJOBS_CREDENTIAL_KEYS; then older ones can go."""
    session: Session = ctx.obj
    app = session.database_app
    store = _store(app)
    done, unreadable = 0, 0
    after: UUID | None = None
    while True:
        page = app.uow.run(lambda conn, after=after: store.reseal(conn, after=after), repeatable=True)  # type: ignore[misc]
        done, unreadable, after = done + page.done, unreadable + page.unreadable, page.last_id
        if after is None:
            break
    counts: dict[str, Any] = {"done": done, "unreadable": unreadable}
    session.out.show(counts, lambda: session.out.fields(counts))
    if unreadable:
        session.out.warn("no key of AIJOBS_CREDENTIAL_KEYS opens the unreadable ones; do not drop keys yet")
    return Exit.CHECK_FAILED if unreadable else Exit.DONE


def _store(app: AiJobApp) -> CredentialStore:
    keys = app.settings.credential_keys
    if keys is None:
        fix = "make one with `aijobs credentials new-key` and set AIJOBS_CREDENTIAL_KEYS for every process"
        raise UsageMistake("no encryption key is set", fix=fix)
    return CredentialStore(Envelopes.from_setting(keys), app.clock)


def _secret() -> SecretStr:
    if sys.stdin.isatty():
        return SecretStr(str(typer.prompt("Key", hide_input=True, err=True)))
    return SecretStr(sys.stdin.readline().strip())
