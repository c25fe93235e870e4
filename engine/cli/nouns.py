"""How a command's file begins: a noun with verbs, or a single word."""

from __future__ import annotations

import typer


def noun(about: str) -> typer.Typer:
    """A group of verbs; without one it shows its help."""
    group = typer.Typer(
        help=about, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )

    @group.callback(help=about)
    def stays_a_group() -> None:
        """Without a callback Typer would make a group of one verb that verb."""

    return group


def single() -> typer.Typer:
    """A command of one word."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
