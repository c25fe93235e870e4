"""``aijobs version``."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer

from engine.cli.nouns import single
from engine.cli.session import Session

command = single()


@command.command(epilog="Example: aijobs version --json")
def version(ctx: typer.Context) -> None:
    """Show the versions of aijobs, Python and the libraries that matter in a bug report."""
    session: Session = ctx.obj
    libraries = ("sqlalchemy", "alembic", "pydantic", "redis", "rq", "openai", "typer")
    found = {"aijobs": version_of("aijobs"), "python": platform.python_version()}
    found |= {name: version_of(name) for name in libraries}
    session.out.show(found, lambda: session.out.fields(found))
