"""A prompt with places for the input's fields, filled once and never scanned again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, RootModel

from registry.errors import PromptValuesError

_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """The two texts to send to a model (never to a log), and their template's version."""

    version: str
    system: str = field(repr=False)
    user: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A system and a user text in which ``{{name}}`` stands for a field of the input model.

    ``version`` is recorded with each job. Single braces mean nothing, so JSON may be quoted as it
    is. The registry checks every place against the input model when the definition is registered.
    """

    version: str
    system: str
    user: str

    @property
    def places(self) -> frozenset[str]:
        """The names of the fields that the two texts ask for."""
        return frozenset(_PLACE.findall(self.system)) | frozenset(_PLACE.findall(self.user))

    @property
    def has_stray_braces(self) -> bool:
        """Whether some ``{{`` opens no readable place, which is a mistyped one."""
        return any("{{" in _PLACE.sub(" ", text) for text in (self.system, self.user))

    def render(self, data: BaseModel | Mapping[str, Any]) -> RenderedPrompt:
        """Fill the places from a validated input (or its JSON-ready fields).

        Text goes in as it is, None leaves its place empty, everything else goes in as JSON. Values
        go in at one pass and are never searched for places, so a user's ``{{field}}`` stays text.

        Raises :class:`~registry.errors.PromptValuesError` where a field has no value.
        """
        values = _json_fields(data)
        return RenderedPrompt(self.version, _fill(self.system, values), _fill(self.user, values))


def prompt_fields(model: type[BaseModel]) -> frozenset[str]:
    """The fields of an input model that a prompt may name: all that its JSON form has."""
    stored = {name for name, field in model.model_fields.items() if not field.exclude}
    return frozenset(stored | model.model_computed_fields.keys())


def _json_fields(data: BaseModel | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(data, BaseModel):
        return data
    dumped = data.model_dump(mode="json", by_alias=False)
    # A root model dumps to its bare value, whose only name is ``root``.
    return {"root": dumped} if isinstance(data, RootModel) else dumped


def _fill(text: str, values: Mapping[str, Any]) -> str:
    def value_of(place: re.Match[str]) -> str:
        name = place.group(1)
        if name not in values:
            raise PromptValuesError("has no value in this input", field=name, owner="prompt")
        return _as_text(values[name])

    return _PLACE.sub(value_of, text)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
