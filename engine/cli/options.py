"""Options of every command, taken before or after its verb. Flags win over AIJOBS_* variables."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import typer
from typer.main import get_command


@dataclass(slots=True)
class GlobalOptions:
    """What was given; None and False are "not given"."""

    app: str | None = None
    database_url: str | None = None
    redis_url: str | None = None
    json: bool = False
    no_color: bool = False
    quiet: bool = False
    verbose: int = 0
    log_format: str | None = None
    log_level: str | None = None
    yes: bool = False


def _declare(
    app: Annotated[
        str | None,
        typer.Option(metavar="MODULE:ATTR", help="The AiJobApp, looked for from here [AIJOBS_APP]."),
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="SQLite, MariaDB, MySQL or PostgreSQL [AIJOBS_DATABASE_URL].")
    ] = None,
    redis_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Redis, such as redis://host:6379/0 [AIJOBS_REDIS_URL].")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours, as with NO_COLOR.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors.")] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, show_default=False, help="More detail; tracebacks.")
    ] = 0,
    log_format: Annotated[
        Literal["auto", "console", "json"] | None,
        typer.Option(metavar="auto|console|json", help="How daemons log [AIJOBS_LOG_FORMAT]."),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(metavar="LEVEL", help="debug, info, warning or error [AIJOBS_LOG_LEVEL]."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Never called: only what it declares is used."""


def global_parameters(*, hidden: bool) -> list[Any]:
    """Fresh parameters for one command; they write into the ``GlobalOptions`` of the context's session.

    Typer itself turns the declarations into parameters, so that nothing here depends on how it does that.
    """
    parameters = [copy(parameter) for parameter in _parameters()]
    for parameter in parameters:
        parameter.hidden = hidden
    return parameters


@cache
def _parameters() -> list[Any]:
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    holder.command()(_declare)
    parameters: list[Any] = list(get_command(holder).params)
    for parameter in parameters:
        parameter.expose_value = False
        parameter.callback = _store
    return parameters


def _store(ctx: Any, parameter: Any, value: Any) -> Any:
    # A value that was not given must not undo what stood before the verb.
    if value:
        setattr(ctx.obj.options, parameter.name, value)
    return value
