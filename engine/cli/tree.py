"""Every command by name. A command's module is loaded when the command is called, so help needs none of them."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from engine.cli.options import global_parameters


class Entry(NamedTuple):
    """Where a command lives, and what the overview says about it."""

    module: str
    help: str


#: The overview, in the order people need it.
SECTIONS: dict[str, dict[str, Entry]] = {
    "Start here": {
        "demo": Entry("engine.cli.commands.demo", "Cards and a quiz from a text, on this machine"),
        "doctor": Entry("engine.cli.commands.doctor", "Check database, Redis, application and daemons"),
        "version": Entry("engine.cli.commands.version", "Show versions"),
    },
    "Daemons": {
        "run": Entry("engine.cli.commands.run", "Dispatcher and worker in one process, for small sites"),
        "worker": Entry("engine.cli.commands.worker", "Run the jobs of some queues"),
        "dispatcher": Entry("engine.cli.commands.dispatcher", "Move events from the outbox to Redis; heal"),
        "serve": Entry("engine.cli.commands.serve", "Serve the HTTP API"),
    },
    "Jobs": {
        "stats": Entry("engine.cli.commands.stats", "What waits, runs and has ended, in one look"),
        "jobs": Entry("engine.cli.commands.jobs", "List, show, explain, create, wait, follow, cancel, retry"),
        "outbox": Entry("engine.cli.commands.outbox", "Events: stats, list, show, redeliver, discard"),
        "queues": Entry("engine.cli.commands.queues", "What waits where, and who listens"),
        "workers": Entry("engine.cli.commands.workers", "Workers and dispatchers that are running"),
        "types": Entry("engine.cli.commands.types", "The registered job types and their schemas"),
    },
    "Deployment": {
        "db": Entry("engine.cli.commands.db", "Tables: upgrade, current, check, sql, stamp"),
        "credentials": Entry("engine.cli.commands.credentials", "Users' own keys, encrypted"),
        "config": Entry("engine.cli.commands.config", "The settings, and where they come from"),
        "crashkit": Entry("engine.cli.commands.crashkit", "Break it on purpose and prove that nothing is lost"),
        "redis-acl": Entry("engine.cli.commands.redis_acl", "The Redis user a deployment needs"),
    },
}

COMMANDS: dict[str, Entry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

_SHARED = "--json, --app, --database-url and the other options of `aijobs --help` work here too."


class Root(TyperGroup):
    """The group ``aijobs``; it knows its commands by name only."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else load(cmd_name, entry)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        # commands first: they are what one looks for
        self.format_commands(ctx, formatter)
        TyperCommand.format_options(self, ctx, formatter)  # type: ignore[arg-type]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, COMMANDS))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])


def load(name: str, entry: Entry) -> Any:
    """Import a command and give it the options that every command takes."""
    try:
        module = import_module(entry.module)
    except ModuleNotFoundError as error:
        raise missing_library(name, error) from error
    command = get_command(module.command)
    command.name = name
    _share_options(command)
    return command


def missing_library(name: str, error: ModuleNotFoundError) -> Exception:
    """What to raise where the command ``name`` cannot be imported.

    A library of an extra that is not installed is the user's to mend; a module of ours is not."""
    from engine.cli.errors import UsageMistake

    library = (error.name or "").partition(".")[0]
    if library in ("engine", "outbox", "registry", "projectors", ""):
        return error
    fix = "pip install 'aijobs[all]'"
    return UsageMistake(f"`aijobs {name}` needs {library}, which is not installed", fix=fix)


def _share_options(command: Any) -> None:
    command.params.extend(global_parameters(hidden=True))
    command.epilog = f"{command.epilog}\n\n{_SHARED}" if command.epilog else _SHARED
    for child in getattr(command, "commands", {}).values():
        _share_options(child)
