"""From a model's text to a valid instance of a pydantic model, or to sentences that say what is wrong.

The sentences are shown to the model on the next attempt and stored with the job, so they never quote the
output: no values, no keys that the model made up (design 3, promise 7).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from engine.errors import OutputInvalid

M = TypeVar("M", bound=BaseModel)

#: More findings than this would not help the next attempt.
MAX_FINDINGS: Final = 10

_FENCE: Final = re.compile(r"\A```[A-Za-z0-9_-]*[ \t]*\n(.*)\n?```\Z", re.DOTALL)
_THOUGHTS: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”")
#: Checks written by the owner of a model may repeat the value; pydantic's own messages do not.
_OWN_CHECKS: Final = frozenset({"value_error", "assertion_error"})


def parse_output(text: str, model: type[M], **details: Any) -> M:
    """Read ``text`` as JSON and validate it; ``details`` go into the error.

    A Markdown fence around the whole answer, and thoughts before it, are taken off: servers without a JSON mode
    add them. Raises :class:`OutputInvalid`, also for NaN, Infinity and numbers too large for a float (WL-14).
    """
    bare = _unwrap(text)
    findings = _unreadable(bare)
    if findings is None:
        try:
            return model.model_validate_json(bare)
        except ValidationError as error:
            findings = list(_sentences(error, model))
    raise OutputInvalid("; ".join(findings), errors=findings, **details)


def schema_instruction(model: type[BaseModel]) -> str:
    """What to tell a model whose server cannot be told the schema: answer with JSON of this shape."""
    schema = json.dumps(model.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return (
        "Answer with one JSON object and nothing else: no explanation, no Markdown. "
        f"It must be valid against this JSON Schema:\n{schema}"
    )


def _unwrap(text: str) -> str:
    bare = _THOUGHTS.sub("", text, count=1).strip().removeprefix("\ufeff")
    fenced = _FENCE.match(bare)
    return fenced.group(1) if fenced else bare


def _unreadable(text: str) -> list[str] | None:
    if not text:
        return ["The answer is empty."]
    try:
        json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except _NotFinite:
        return ["The answer holds a number that is not finite (NaN, Infinity or out of range)."]
    except json.JSONDecodeError as error:
        # Only where it broke: the text around it is output.
        return [f"The answer is not valid JSON (line {error.lineno}, column {error.colno})."]
    except (ValueError, RecursionError):
        return ["The answer holds a number or a nesting beyond any sensible size."]
    return None


class _NotFinite(ValueError):
    """A number that JSON does not have."""


def _refuse(_name: str) -> float:
    raise _NotFinite


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _NotFinite
    return value


def _sentences(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    known = _property_names(model.model_json_schema())
    found = error.errors(include_url=False, include_input=False, include_context=False)
    for item in found[:MAX_FINDINGS]:
        place = ".".join(_step(step, known) for step in item["loc"]) or "answer"
        own = item["type"] in _OWN_CHECKS
        text = _QUOTED.sub("…", item["msg"]) if own else item["msg"]
        yield f"{place}: {text.removeprefix('Value error, ').removeprefix('Assertion failed, ')}"
    if len(found) > MAX_FINDINGS:
        yield f"… and {len(found) - MAX_FINDINGS} more"


def _step(step: int | str, known: frozenset[str]) -> str:
    return str(step) if isinstance(step, int) or step in known else "…"


def _property_names(schema: object) -> frozenset[str]:
    names: set[str] = set()
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            properties = node.get("properties")
            names.update(properties if isinstance(properties, Mapping) else ())
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return frozenset(names)
