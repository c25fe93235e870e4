"""The kinds of rule that checks are made of; each refuses with the error class it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from pydantic import BaseModel, PydanticUserError

from registry import limits
from registry.definition import JobDefinition
from registry.errors import (
    DefinitionError,
    InvalidMetadataError,
    InvalidModelError,
    InvalidSecurityError,
)

Refuse = type[DefinitionError]


def refuse(d: JobDefinition, where: str, why: str, error: Refuse) -> NoReturn:
    """Raise the refusal of one field of one definition."""
    raise error(why, field=where, owner=f"job type {d.job_type!r}", job_type=d.job_type)


def matches(pattern: Callable[[str], object], value: object) -> bool:
    """Whether the value is text and the bound match method accepts it."""
    return isinstance(value, str) and pattern(value) is not None


def in_range(
    d: JobDefinition, where: str, value: object, allowed: limits.Range, error: Refuse
) -> None:
    """Refuse what is not an int of the range."""
    if not allowed.holds(value):
        refuse(d, where, allowed.refusal(value), error)


def one_of(
    d: JobDefinition, where: str, value: object, allowed: Collection[str], error: Refuse
) -> None:
    """Refuse what is not one of the words."""
    if not isinstance(value, str) or value not in allowed:
        names = ", ".join(sorted(allowed))
        refuse(d, where, f"must be one of {names}, not {limits.shown(value)}", error)


def flag(d: JobDefinition, where: str, value: object, error: Refuse) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        refuse(d, where, f"must be True or False, not {limits.shown(value)}", error)


def text(d: JobDefinition, where: str, value: object, least: int, most: int) -> None:
    """Refuse what is not text of the given length, counted without outer spaces at the low end."""
    if not isinstance(value, str) or not least <= len(value.strip()) <= len(value) <= most:
        refuse(d, where, f"must be text of {least} to {most} characters", InvalidMetadataError)


def version(d: JobDefinition, where: str, value: object, error: Refuse) -> None:
    """Refuse what does not fit a version column."""
    if not matches(limits.VERSION.fullmatch, value):
        why = f"must match {limits.VERSION.pattern}, not {limits.shown(value)}"
        refuse(d, where, why, error)


def redactor(d: JobDefinition, where: str, value: object) -> None:
    """Refuse what is neither None nor a plain function of one argument."""
    if value is None:
        return
    if not callable(value) or not takes_one_argument(value):
        refuse(d, where, "must be a function of one argument, the model", InvalidSecurityError)
    if inspect.iscoroutinefunction(value):
        refuse(d, where, "must be a plain function, not async", InvalidSecurityError)


def model(d: JobDefinition, where: str, model: Any) -> None:
    """Refuse what is not a pydantic model that has a JSON schema."""
    if not inspect.isclass(model) or not issubclass(model, BaseModel) or model is BaseModel:
        why = f"must be a subclass of pydantic.BaseModel, not {limits.shown(model)}"
        refuse(d, where, why, InvalidModelError)
    try:
        model.model_json_schema()
    except (PydanticUserError, NameError) as cause:
        # Snapshots, outputs and prompts are JSON: a model that has no JSON form cannot be stored.
        refuse(d, where, f"has no JSON schema: {_first_line(cause)}", InvalidModelError)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def takes_one_argument(function: Callable[..., Any]) -> bool:
    """Whether the function can be called with exactly one positional argument."""
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return False
    except ValueError:  # some builtins have no signature to ask
        return True
    return True
