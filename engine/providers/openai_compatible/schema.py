"""A pydantic model as the strict kind of JSON Schema that servers can hold a model to while it writes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel

#: Keywords outside the strict subset. What they ask for is still checked when the answer is validated.
_DROPPED: Final = frozenset(
    {"default", "title", "examples", "minLength", "maxLength", "uniqueItems", "format"}
)
_BRANCHES: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions")


@lru_cache(maxsize=256)
def strict_schema(model: type[BaseModel]) -> tuple[dict[str, Any], bool]:
    """The schema to send, and whether it may be sent as strict.

    Strict means: every object is closed and lists all its properties as required. A model with a free-form map
    cannot promise that and is sent as it is. Callers must not change the result: it is shared.
    """
    schema = model.model_json_schema()
    if _has_free_map(schema):
        return schema, False
    return _strict(schema), True


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _member(key, value) for key, value in node.items() if key not in _DROPPED}
    if "properties" in kept:
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept


def _member(key: str, value: Any) -> Any:
    if key in _MAPS:
        return {name: _strict(part) for name, part in value.items()}
    if key in _BRANCHES or key == "items":
        return _strict(value)
    return value


def _has_free_map(node: Any) -> bool:
    if isinstance(node, list):
        return any(_has_free_map(item) for item in node)
    if not isinstance(node, dict):
        return False
    if node.get("type") == "object" and node.get("additionalProperties", False) is not False:
        return True
    if node.get("type") == "object" and not node.get("properties"):
        return True
    return any(_has_free_map(value) for value in node.values())
