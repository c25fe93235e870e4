"""What one command works with: its options, where it prints, and the application, made when first asked for."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from engine.cli.options import GlobalOptions

if TYPE_CHECKING:
    from engine.app import AiJobApp
    from engine.cli.output import Output


class Session:
    """Stands in every command's context as ``ctx.obj``."""

    def __init__(self) -> None:
        self.options = GlobalOptions()
        #: Whether slips among variables are told elsewhere: a daemon logs them, the doctor lists them.
        self.tells_slips = False

    @cached_property
    def out(self) -> Output:
        """Where data and talk go."""
        from engine.cli.output import Output

        options = self.options
        return Output(json=options.json, color=not options.no_color, quiet=options.quiet)

    @cached_property
    def app(self) -> AiJobApp:
        """The application; no connection is opened. Raises what :func:`~engine.cli.application.find` raises."""
        from engine.cli.application import find
        from engine.config import unknown_variables

        if not self.tells_slips:
            for slip in unknown_variables():
                self.out.warn(slip)
        return find(self.options)

    @cached_property
    def database_app(self) -> AiJobApp:
        """The application, for a command that reads or writes rows: its database file, if it is one, exists."""
        from engine.cli.schema import refuse_missing_file

        refuse_missing_file(self.app)
        return self.app

    def confirm(self, question: str) -> None:
        """Ask on a terminal, unless ``-y``; without a terminal nothing is assumed."""
        from engine.cli.errors import NotAllowed, UsageMistake

        if self.options.yes:
            return
        if not self.out.can_ask:
            raise UsageMistake(f"not confirmed: {question}", fix="pass --yes")
        if not typer.confirm(question, err=True):
            raise NotAllowed("nothing was done")

    def fail(self, error: Exception) -> int:
        """Say what went wrong on standard error, with the fix, and return the exit code."""
        from engine.cli.failures import judge, show_traceback

        failure = judge(error)
        if self.options.verbose:
            show_traceback(error)
        self.out.failure(failure)
        return int(failure.exit_code)

    def close(self) -> None:
        """Let go of the application's connections."""
        app = self.__dict__.get("app")
        # What was to be said has been said; a connection that ends badly changes nothing of it.
        with suppress(Exception):
            if app is not None:
                app.close()
