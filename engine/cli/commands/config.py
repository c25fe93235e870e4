"""``aijobs config``: the settings in force, and where each came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from pydantic import BaseModel, SecretStr

from engine.cli.nouns import noun
from engine.cli.session import Session
from registry.queues import QueueSpec

command = noun("The settings in force.")


@command.command(epilog="Example: aijobs config show --origin")
def show(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Also where each value came from.")] = False,
) -> None:
    """Show every setting under the name of its variable; secrets and passwords are masked."""
    session: Session = ctx.obj
    flags = {"AIJOBS_DATABASE_URL": session.options.database_url, "AIJOBS_REDIS_URL": session.options.redis_url,
             "AIJOBS_APP": session.options.app}  # fmt: skip
    given = {name for name, value in flags.items() if value is not None}
    # Loaded first, so that the name of the application is what was given or set
    settings = session.app.settings
    rows = [
        (name, "" if value is None else value, "command line" if name in given else source)
        for name, value, source in _settings(settings, "AIJOBS_")
    ]
    document = {name: {"value": value, "origin": source} if origin else value for name, value, source in rows}
    columns = ("NAME", "VALUE", "ORIGIN") if origin else ("NAME", "VALUE")
    session.out.show(document, lambda: session.out.table(columns, [row[: len(columns)] for row in rows]))


def _settings(settings: BaseModel, prefix: str) -> Iterator[tuple[str, Any, str]]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        key = f"{prefix}{name.upper()}"
        if isinstance(value, BaseModel):
            yield from _settings(value, f"{key}__")
        else:
            source = "environment or code" if name in settings.model_fields_set else "default"
            yield key, _shown(value), source


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, tuple):
        return [_queue(item) for item in value]
    if isinstance(value, str) and "://" in value and "@" in value:
        return _masked(value)
    return value


def _masked(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return url.partition("://")[0] + "://***@" + url.rpartition("@")[2]


def _queue(spec: Any) -> Any:
    if not isinstance(spec, QueueSpec):
        return spec
    return {name: getattr(spec, name) for name in QueueSpec.__dataclass_fields__}
