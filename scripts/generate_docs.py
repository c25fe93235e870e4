"""Writes docs/errors.md, docs/settings.md and docs/cli.md from the code; with --check only compares.

A test runs the check, so a page cannot fall behind what it describes.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- written by scripts/generate_docs; do not edit -->\n\n"
PACKAGES = ("registry", "outbox", "projectors", "engine")


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` name those that are out of step."""
    pages = {name: NOTE + render() for name, render in PAGES.items()}
    if "--check" not in arguments:
        for name, text in pages.items():
            (ROOT / "docs" / name).write_text(text, encoding="utf-8")
        return 0
    stale = [name for name, text in pages.items() if _present(name) != text]
    for name in stale:
        print(f"docs/{name} is out of step: run ./scripts/generate_docs", file=sys.stderr)
    return 1 if stale else 0


def _present(name: str) -> str:
    path = ROOT / "docs" / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


# ------------------------------------------------------------------ errors


def errors() -> str:
    """Every error class with a code of its own."""
    from registry.errors import AiJobsError

    _import_everything()
    rows = sorted({_error_row(cls) for cls in _subclasses(AiJobsError) if _is_ours(cls)})
    lines = [
        "# Errors\n",
        "Every error of aijobs is a subclass of `registry.errors.AiJobsError`, with a stable `code`.",
        "Programs look at the code, engineers read the message, end users read the public message. Jobs store",
        "the code of the error that ended them in `error_code`; which codes are retried is decided in",
        "`engine/pipeline/retry.py`.\n",
        "| code | class | what happened | may succeed later | end users read |",
        "|---|---|---|---|---|",
    ]
    return "\n".join(lines + list(map("| {} |".format, (" | ".join(row) for row in rows)))) + "\n"


def _error_row(cls: type[Any]) -> tuple[str, str, str, str, str]:
    doc = (cls.__doc__ or "").strip().splitlines()[0]
    later = "yes" if cls.retryable else "no"
    return f"`{cls.code}`", f"`{cls.__module__}.{cls.__name__}`", doc, later, cls.public_message


def _is_ours(cls: type) -> bool:
    return cls.__module__.split(".")[0] in PACKAGES and "code" in vars(cls)


def _subclasses(cls: type) -> Iterator[type]:
    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)


def _import_everything() -> None:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if ".migrations.env" not in module.name and ".versions." not in module.name:
                importlib.import_module(module.name)


# ------------------------------------------------------------------ settings


def settings() -> str:
    """Every setting with its variable, default and meaning."""
    from engine.config import Settings

    lines = [
        "# Settings\n",
        "Read once, from arguments or environment variables. Times are milliseconds where the name ends in `_MS`.\n",
        "| variable | default | what it does |",
        "|---|---|---|",
        *(f"| `{name}` | {default} | {text} |" for name, default, text in _settings(Settings, "AIJOBS_")),
    ]
    return "\n".join(lines) + "\n"


def _settings(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    texts = _docstrings(model)
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        if isinstance(field.default, BaseModel):
            yield from _settings(type(field.default), f"{variable}__")
        else:
            yield variable, _shown(field.default), texts[name].replace("|", "\\|")


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The string under each attribute. Read here and not by pydantic, which would do so at every start."""
    [definition] = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, text in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            texts[field.target.id] = str(text.value.value)
    return texts


def _shown(value: Any) -> str:
    if value is None or value is PydanticUndefined or value == ():
        return "none"
    if isinstance(value, tuple):
        return "the two built-in queues"
    return f"`{json.dumps(value) if isinstance(value, bool) else value}`"


# ------------------------------------------------------------------ the command line


def command_line() -> str:
    """Every command with its options, as ``--help`` prints them."""
    from engine.cli.main import root

    lines = [
        "# Command line\n",
        "Data goes to stdout, talk to stderr. `--json` works everywhere. Commands that read the database work without",
        "Redis and without any daemon running.\n",
        "## Everywhere\n",
        "| option | meaning |\n|---|---|",
    ]
    command = root()
    context = command.make_context("aijobs", [], resilient_parsing=True)
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    lines += ["\n".join(_option(record) for record in records if record is not None) + "\n"]
    lines += _commands(command, "aijobs")
    return "\n".join(lines) + "\n"


def _commands(command: Any, name: str, parent: Any = None) -> Iterator[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    if hasattr(command, "list_commands"):
        for verb in command.list_commands(context):
            child = command.get_command(context, verb)
            if child is not None and not child.hidden:
                yield from _commands(child, verb, context)
        return
    yield f"## `{context.command_path}`\n"
    yield (command.help or "").split("\f")[0].strip() + "\n"
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [record for record in records if record is not None and record[0] not in _EVERYWHERE]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield "\n".join(map(_option, rows)) + "\n"


def _option(record: tuple[str, str]) -> str:
    option, text = (part.replace("|", "/") for part in record)
    return f"| `{option}` | {text} |"


#: Options of every command, which the page lists once.
_EVERYWHERE = frozenset({"--help", "-h, --help"})

PAGES: dict[str, Callable[[], str]] = {"errors.md": errors, "settings.md": settings, "cli.md": command_line}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main(sys.argv[1:]))
