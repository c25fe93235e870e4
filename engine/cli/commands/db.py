"""``aijobs db``: the engine's tables, from nothing to head."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from engine.cli.errors import SchemaBehind
from engine.cli.nouns import noun
from engine.cli.schema import refuse_missing_file
from engine.cli.session import Session
from engine.migrations import runner

command = noun("The engine's tables; those of a host application beside them are never touched.")

Revision = Annotated[str, typer.Option(help="The revision to go to.")]


@command.command(epilog="Example: aijobs db upgrade --database-url postgresql://app@localhost/app")
def upgrade(ctx: typer.Context, revision: Revision = "head") -> None:
    """Bring the tables up to date. Several processes may do so at once; one does the work."""
    session: Session = ctx.obj
    applied = runner.upgrade(session.app.database, revision)
    now = runner.current(session.app.database)

    def text() -> None:
        for step in applied:
            session.out.line(step)
        session.out.say(f"the database is at {now}" + ("" if applied else ", nothing to do"))

    session.out.show({"applied": applied, "revision": now}, text)


@command.command(epilog="Example: aijobs db current")
def current(ctx: typer.Context) -> None:
    """Show the revision of the database and the newest one of this release."""
    session: Session = ctx.obj
    found = runner.current(session.database_app.database)
    session.out.show(
        {"revision": found, "head": runner.head()},
        lambda: session.out.fields({"revision": found or "none", "head": runner.head()}),
    )


@command.command(epilog="Example: aijobs db check || aijobs db upgrade")
def check(ctx: typer.Context) -> int:
    """Compare the tables with what this release needs; exit code 7 when they differ."""
    session: Session = ctx.obj
    refuse_missing_file(session.app)
    problems = runner.check(session.app.database)

    def text() -> None:
        for problem in problems:
            session.out.line(problem)

    session.out.show({"problems": problems}, text)
    if problems:
        raise SchemaBehind(f"{len(problems)} differences")
    session.out.say("the tables are as they should be")
    return 0


@command.command(epilog="Example: aijobs db sql --dialect postgresql > upgrade.sql")
def sql(
    ctx: typer.Context,
    revision: Revision = "head",
    start: Annotated[str, typer.Option(help="The revision the database is at.")] = "base",
    dialect: Annotated[
        Literal["sqlite", "mysql", "mariadb", "postgresql"] | None,
        typer.Option(metavar="KIND", help="sqlite, mysql, mariadb or postgresql; default: that of the database."),
    ] = None,
) -> None:
    """Print the statements of an upgrade, for those who run them by hand. Connects to nothing."""
    session: Session = ctx.obj
    url = f"{dialect}://" if dialect else session.app.settings.database_url
    statements = runner.sql(url, revision, start=start)
    session.out.show({"sql": statements}, lambda: session.out.line(statements.rstrip("\n")))


@command.command(epilog="Example: aijobs db stamp --revision 0001")
def stamp(ctx: typer.Context, revision: Revision = "head") -> None:
    """Write down that the tables are at a revision, without touching them. Then run `aijobs db check`."""
    session: Session = ctx.obj
    refuse_missing_file(session.app)
    runner.stamp(session.app.database, revision)
    found = runner.current(session.app.database)
    session.out.show({"revision": found}, lambda: session.out.say(f"the database counts as being at {found}"))
