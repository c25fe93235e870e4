"""Finds the AiJobApp behind ``--app``, as daemons and every other command see it."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.app import AiJobApp
from engine.cli.errors import NotPossible, UsageMistake
from engine.cli.options import GlobalOptions
from engine.config import load_settings
from registry.errors import AiJobsError
from registry.nearest import did_you_mean

_FORM = "write it as module:attribute, for example --app myproject.jobs:app"


def find(options: GlobalOptions) -> AiJobApp:
    """The application of ``--app`` or ``AIJOBS_APP``, else one with the built-in job types.

    Addresses given on the command line replace those the application was made with. Raises
    :class:`~engine.errors.SettingsError` and :class:`UsageMistake`, which says what is wrong with the name.
    """
    addresses = {
        name: value
        for name, value in (("database_url", options.database_url), ("redis_url", options.redis_url))
        if value is not None
    }
    settings = load_settings(**addresses)
    reference = options.app or settings.app
    if reference is None:
        return AiJobApp(settings=settings)
    return _with_addresses(_load(reference), addresses)


def _load(reference: str) -> AiJobApp:
    name, colon, attribute = reference.partition(":")
    if not (colon and name and attribute) or "/" in name or name.endswith(".py"):
        raise UsageMistake(f"--app {reference!r} does not name an application", fix=_meant(reference))
    module = _import(name)
    value: Any = module
    for part in attribute.split("."):
        value = getattr(value, part, None)
        if value is None:
            near = did_you_mean(attribute, vars(module))
            raise UsageMistake(f"--app: {name} has no {attribute!r}{_apps_in(module) or near}", fix=_FORM)
    if isinstance(value, type):
        raise UsageMistake(f"--app: {reference} is a class, not an AiJobApp{_apps_in(module)}", fix=_FORM)
    if callable(value) and not isinstance(value, AiJobApp):
        value = _call(value, reference)
    if not isinstance(value, AiJobApp):
        kind = type(value).__name__
        raise UsageMistake(f"--app: {reference} is of type {kind}, not an AiJobApp{_apps_in(module)}", fix=_FORM)
    return value


def _meant(reference: str) -> str:
    """A file, or a module without its attribute, as the application that is likely in it."""
    path, _, attribute = reference.partition(":")
    name = path.removeprefix("./").removesuffix(".py").strip("/").replace("/", ".")
    if not name:
        return _FORM
    return f"did you mean --app {name}:{attribute or 'app'}?"


def _import(name: str) -> ModuleType:
    # As with python -m: the folder one stands in counts.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            near = did_you_mean(name, _modules(here))
            fix = "start in the folder that holds it, or install it into this environment"
            message = f"--app: there is no module {error.name!r} (looked in {here}){near}"
            raise UsageMistake(message, fix=fix) from None
        raise _import_failed(name, error) from _without_importlib(error)
    except AiJobsError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module of theirs may raise anything
        raise _import_failed(name, error) from _without_importlib(error)


def _modules(folder: str) -> list[str]:
    """What could be imported from here."""
    place = Path(folder)
    return [path.stem for path in place.glob("*.py")] + [path.parent.name for path in place.glob("*/__init__.py")]


def _without_importlib(error: BaseException) -> BaseException:
    """The error with its traceback from the module on: how it came to be imported tells nothing."""
    trace = error.__traceback__
    while trace is not None and _is_machinery(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return error.with_traceback(trace)


def _is_machinery(file: str) -> bool:
    return file.startswith("<frozen importlib") or file in (__file__, importlib.__file__)


def _import_failed(name: str, error: BaseException) -> UsageMistake:
    return UsageMistake(f"--app: importing {name} failed: {_told(error)}", fix="-v shows the traceback")


def _call(factory: Any, reference: str) -> Any:
    try:
        return factory()
    except AiJobsError:
        raise
    except Exception as error:
        message = f"--app: calling {reference} failed: {_told(error)}"
        raise UsageMistake(message, fix="-v shows the traceback") from error


def _told(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}{_place(error)}"


def _place(error: BaseException) -> str:
    """Where it happened: the last line of the user's own code, or the line that is no Python."""
    if isinstance(error, SyntaxError) and error.filename:
        # Its text ends with the file's name and the line already
        return "" if error.lineno else f" ({error.filename})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_machinery(f.filename)]
    own = [f for f in frames if "site-packages" not in f.filename] or frames
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _apps_in(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, AiJobApp)]
    return f"; it has {', '.join(f'{module.__name__}:{name}' for name in names)}" if names else ""


def _with_addresses(app: AiJobApp, addresses: dict[str, str]) -> AiJobApp:
    changed = {name: value for name, value in addresses.items() if getattr(app.settings, name) != value}
    parts = {"database_url": "database", "redis_url": "transport"}
    for name in changed:
        if parts[name] in vars(app):
            option = f"--{name.replace('_', '-')}"
            raise NotPossible(
                f"{option}: the application has opened its {parts[name]} while it was imported",
                fix=f"set AIJOBS_{name.upper()} instead, or open nothing at import",
            )
    app.settings = app.settings.model_copy(update=changed)
    return app
