"""The messages that a prompt and an input become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from engine.providers.base import Message
from registry.prompt import PromptTemplate


def build_messages(
    template: PromptTemplate,
    data: BaseModel | Mapping[str, Any],
    previous_errors: Sequence[str] = (),
) -> tuple[Message, ...]:
    """Fill a prompt from a validated input; on a retry, say what was wrong with the last answer (X28).

    ``previous_errors`` are the sentences of the last :class:`~engine.errors.OutputError`.
    Raises :class:`~registry.errors.PromptValuesError` where a field has no value.
    """
    rendered = template.render(data)
    messages = [Message("user", rendered.user)]
    if rendered.system.strip():
        messages.insert(0, Message("system", rendered.system))
    if previous_errors:
        messages.append(Message("user", _correction(previous_errors)))
    return tuple(messages)


def _correction(errors: Sequence[str]) -> str:
    listed = "\n".join(f"- {error}" for error in errors)
    return f"Your last answer could not be used:\n{listed}\nAnswer again and avoid these faults."
