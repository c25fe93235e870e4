"""Every command that a page or a message tells people to type is one that exists, with the options it has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import root

_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: Variables may be set before the command; the prompt of a shell may stand there too.
_LINE = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(?:\S*/bin/|ExecStart=\S*/)?(aijobs .*)$", re.MULTILINE)
_INLINE = re.compile(r"`(?:[A-Z_]+=\S+ )*(aijobs [^`]+)`")
#: What stands for words that the reader fills in, or for the rest of a line.
_OPEN = re.compile(r"…|\.\.\.|[{}<>]|NOUN|COMMAND")
#: The lock of a migration, and what RQ's tools show of a ticket.
_NAMES = ("aijobs migration", "aijobs ticket")
#: The end of a command within a line of the shell.
_END = re.compile(r"\s+#.*|\s*(?:&&|\|\||[|;>]).*")


def shown(text: str) -> Iterator[str]:
    """The commands that a page shows."""
    for block in _FENCE.findall(text):
        yield from _LINE.findall(block)
    yield from _INLINE.findall(_FENCE.sub("", text))


def in_messages(text: str) -> Iterator[str]:
    """The commands that source code tells people to type."""
    yield from re.findall(r"`(aijobs [^`\n]+)`", text)
    yield from re.findall(r"""["'](aijobs [a-z][^"'\n]*)["']""", text)


def fault(line: str) -> str | None:
    """What is wrong with a command, None where nothing is."""
    words = shlex.split(_END.sub("", line).replace("'", " ").replace('"', " "))[1:]
    command: Any = root()
    context = command.make_context("aijobs", [], resilient_parsing=True)
    known = _options(command)
    for word in words:
        name = word.partition("=")[0].rstrip(",.")
        if _OPEN.search(word):
            return None
        if name.startswith("-") and len(name) > 1:
            if name not in known:
                return f"`{line}`: {context.command_path} has no option {name}"
        elif hasattr(command, "commands") or hasattr(command, "list_commands"):
            child = command.get_command(context, word)
            if child is None:
                return f"`{line}`: {context.command_path} has no command {word!r}"
            command = child
            context = command.make_context(word, [], parent=context, resilient_parsing=True)
            known |= _options(command)
    return None


def _options(command: Any) -> set[str]:
    found = {"--help", "-h"}
    for parameter in command.params:
        found |= {*parameter.opts, *parameter.secondary_opts}
    return found


def pages(root_: Path) -> list[Path]:
    return [root_ / "README.md", root_ / "CONTRIBUTING.md", *sorted((root_ / "docs").rglob("*.md"))]


def test_every_command_on_a_page_exists(project_root: Path) -> None:
    lines = {(page.name, line) for page in pages(project_root) for line in shown(page.read_text(encoding="utf-8"))}

    assert len(lines) > 30
    assert [f"{name}: {wrong}" for name, line in sorted(lines) if (wrong := fault(line))] == []


def test_every_command_in_a_message_exists(project_root: Path) -> None:
    sources = [path for name in ("engine", "outbox", "registry") for path in (project_root / name).rglob("*.py")]
    lines = {(path.name, line) for path in sources for line in in_messages(path.read_text(encoding="utf-8"))}

    assert len(lines) > 30
    commands = sorted((name, line) for name, line in lines if line not in _NAMES)
    assert [f"{name}: {wrong}" for name, line in commands if (wrong := fault(line))] == []


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("`aijobs job list`", "no command 'job'"),
        ("```\nAIJOBS_APP=app:app aijobs jobs lst   # all\n```", "no command 'lst'"),
        ("```ini\nExecStart=/opt/bin/aijobs worker %i --cores 2\n```", "no option --cores"),
        ("`aijobs redis-acl --password-hash …`", "no option --password-hash"),
    ],
)
def test_a_command_that_does_not_exist_is_found(page: str, wrong: str) -> None:
    [line] = shown(page)

    assert wrong in (fault(line) or "")
