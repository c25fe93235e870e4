"""``aijobs``: one call, arguments in, exit code out. The only place where an error becomes a message."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command

from engine.cli.options import global_parameters
from engine.cli.session import Session
from engine.cli.tree import Root

HELP = """Durable AI jobs on the SQL database you already have.

Data goes to standard output, talk to standard error. New here? Run `aijobs demo`.
"""
_EPILOG = "Durations are written 500ms, 30s, 5m, 2h; times 2026-01-31T09:00:00Z or -1h."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises."""
    _let_streams_print_anything()
    # Python prints warnings of unconfigured loggers by itself; here errors are told once, at the end.
    logging.getLogger().addHandler(logging.NullHandler())
    session = Session()
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Known before the arguments are read, so that a slip among them is told as JSON too.
    session.options.json = "--json" in arguments
    try:
        code = root().main(args=arguments, prog_name="aijobs", standalone_mode=False, obj=session)
        sys.stdout.flush()
        return int(code) if isinstance(code, int) else 0
    except BrokenPipeError:
        return _reader_has_gone()
    except KeyboardInterrupt:
        return 130
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):
            return _reader_has_gone()
        return leaving.code if isinstance(leaving.code, int) else 1
    except Exception as error:  # noqa: BLE001 - this is the edge
        return session.fail(error)
    finally:
        session.close()


def root() -> Root:
    """The group of all commands."""
    return Root(
        name="aijobs",
        help=HELP,
        epilog=_EPILOG,
        params=[*global_parameters(hidden=False), *_of_the_root()],
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        subcommand_metavar="COMMAND ...",
    )


def _of_the_root() -> list[Any]:
    """``--version``, and Typer's two options for shell completion."""
    holder = typer.Typer(add_completion=True, rich_markup_mode=None)

    def declare(version: bool = typer.Option(False, "--version", "-V", help="Show the version.")) -> None:
        """Never called."""

    holder.command()(declare)
    parameters: list[Any] = list(get_command(holder).params)
    parameters[0].expose_value, parameters[0].is_eager, parameters[0].callback = False, True, _show_version
    for parameter in parameters[1:]:
        parameter.expose_value = False
    return parameters


def _show_version(ctx: Any, _parameter: Any, value: bool) -> bool:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        typer.echo(f"aijobs {version('aijobs')}")
        raise typer.Exit
    return value


def _let_streams_print_anything() -> None:
    """A name or a text that this terminal's encoding lacks is shown escaped; it is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _reader_has_gone() -> int:
    """``aijobs jobs list | head``: not an error. Python would complain once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
