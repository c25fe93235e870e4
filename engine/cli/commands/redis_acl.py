"""``aijobs redis-acl``: the Redis user a deployment needs, and nothing more."""

from __future__ import annotations

import secrets
import sys
from typing import Annotated

import typer

from engine.cli.errors import UsageMistake
from engine.cli.nouns import single
from engine.cli.session import Session
from outbox.transports.rq.acl import acl_line

command = single()


@command.command("redis-acl", epilog="Example: aijobs redis-acl --generate >> /etc/redis/users.acl")
def redis_acl(
    ctx: typer.Context,
    user: Annotated[str, typer.Option(help="Name of the Redis user.")] = "aijobs",
    generate: Annotated[
        bool, typer.Option("--generate", help="Make a password and tell it on standard error.")
    ] = False,
) -> None:
    """Print the ACL line of a Redis user that may touch our keys with the commands we send, nothing else.

    The password is asked for, or read from standard input; the line holds only its digest. The same line,
    without the word `user`, can be given to ACL SETUSER.
    """
    session: Session = ctx.obj
    if not user.isascii() or not user.isprintable() or " " in user or not user:
        raise UsageMistake("--user: must be printable ASCII without spaces")
    password = secrets.token_urlsafe(32) if generate else _password()
    line = acl_line(user, password, session.app.settings.redis_prefix)
    session.out.show({"user": user, "line": line}, lambda: session.out.line(line))
    if generate:
        session.out.warn(f"the password is shown only once: {password}")


def _password() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise UsageMistake("no password came on standard input", fix="pipe one in, or use --generate")
    return password
