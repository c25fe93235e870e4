"""The completion object, from the job and its output: the same bytes whoever asks, and whenever."""

from __future__ import annotations

import json
from typing import Any

from registry.catalog.chat_completion import ChatCompletionOutput
from registry.job import JobView


def completion(job: JobView, output: ChatCompletionOutput, model: str) -> bytes:
    """The body of an answer that is not streamed. ``model`` is what was asked for."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": output.content, "refusal": None},
        "logprobs": None,
        "finish_reason": output.finish_reason,
    }
    body = {
        "id": completion_id(job),
        "object": "chat.completion",
        "created": int(job.created_at.timestamp()),
        "model": output.model or model,
        "choices": [choice],
        "usage": usage_of(output),
        "system_fingerprint": None,
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def chunk(
    job: JobView,
    model: str,
    *,
    epoch: int | None = None,
    delta: dict[str, Any] | None = None,
    finish_reason: str | None = None,
) -> dict[str, Any]:
    """One chunk of a stream; ``system_fingerprint`` names the claim whose text it is."""
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish_reason}
    return _bare_chunk(job, model, epoch) | {"choices": [choice]}


def usage_chunk(job: JobView, model: str, output: ChatCompletionOutput) -> dict[str, Any]:
    """The last chunk, where the client asked for the usage."""
    return _bare_chunk(job, model, None) | {"choices": [], "usage": usage_of(output)}


def _bare_chunk(job: JobView, model: str, epoch: int | None) -> dict[str, Any]:
    return {
        "id": completion_id(job),
        "object": "chat.completion.chunk",
        "created": int(job.created_at.timestamp()),
        "model": model,
        "system_fingerprint": None if epoch is None else f"epoch_{epoch}",
    }


def completion_id(job: JobView) -> str:
    """The id of a completion names its job."""
    return f"chatcmpl-{job.id.hex}"


def usage_of(output: ChatCompletionOutput) -> dict[str, int] | None:
    """What the provider reported; None where it did not say."""
    if output.input_tokens is None or output.output_tokens is None:
        return None
    return {
        "prompt_tokens": output.input_tokens,
        "completion_tokens": output.output_tokens,
        "total_tokens": output.input_tokens + output.output_tokens,
    }
