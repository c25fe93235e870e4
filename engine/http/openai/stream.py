"""The answer as chunks, while it is being made: from the preview first, from the committed output at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi.sse import format_sse_event

from engine.http.edge import Edge
from engine.http.errors import OutputNotStored
from engine.http.openai.answer import chunk, usage_chunk
from engine.http.openai.failure import StillRunning, error_event, failure_of
from engine.http.openai.transcript import Diverged, Transcript
from engine.http.problem import Answerable, describe
from engine.http.watch import PERIOD_S, Watcher, news_of
from registry.catalog.chat_completion import ChatCompletionOutput
from registry.job import JobView, LifecycleStatus

#: A comment is sent after this much silence, so that nobody between us and the client hangs up; in seconds.
KEEP_ALIVE_S: Final = 10.0

_DONE: Final = b"data: [DONE]\n\n"
_PING: Final = b": waiting\n\n"
_RESTARTED: Final = Answerable(
    502,
    "STREAM_RESTARTED",
    "The answer was begun anew and differs from what was sent; repeat the request to read it from its start.",
)


class ChunkStream:
    """One client's stream of one job."""

    def __init__(
        self, edge: Edge, job: JobView, model: str, *, wants_usage: bool, patience_s: float
    ) -> None:
        """``patience_s``: the stream ends with an error when nothing at all has happened for so long."""
        self._edge = edge
        self._job = job
        self._model = model
        self._wants_usage = wants_usage
        self._patience_s = patience_s
        self._transcript = Transcript()
        self._place = (0, 0)
        self._last = b""
        self._news_at = self._sent_at = _now()

    @property
    def job(self) -> JobView:
        """The job as it was last seen."""
        return self._job

    @property
    def last(self) -> bytes:
        """The event after which a client reads no further; there once :meth:`chunks` is through."""
        return self._last

    async def chunks(self) -> AsyncIterator[bytes]:
        """The stream, but for its :attr:`last` event."""
        yield self._chunk(delta={"role": "assistant", "content": ""})
        try:
            async with self._edge.watch.watch(self._job.id, within_s=PERIOD_S) as watcher:
                async for data in self._until_ended(watcher):
                    self._sent_at = _now()
                    yield data
            if self._job.lifecycle_status is not LifecycleStatus.SUCCEEDED:
                self._last = _event(error_event(self._why_not()))
                return
            async for data in self._ending():
                yield data
            self._last = _DONE
        except OutputNotStored as error:
            self._last = _event(error_event(describe(error)))
        except Diverged:
            self._last = _event(error_event(_RESTARTED))

    async def _until_ended(self, watcher: Watcher) -> AsyncIterator[bytes]:
        while not self._job.is_final and self._patient():
            before = self._job
            self._job = await watcher.next(before, PERIOD_S)
            text = await self._preview()
            if text or news_of(self._job) != news_of(before):
                self._news_at = _now()
            if text:
                yield self._chunk(delta={"content": text})
            elif _now() - self._sent_at > KEEP_ALIVE_S:
                yield _PING

    def _patient(self) -> bool:
        return not self._edge.watch.closing and _now() - self._news_at < self._patience_s

    async def _preview(self) -> str:
        if self._job.lifecycle_status is not LifecycleStatus.RUNNING:
            return ""
        epoch, seq = self._place
        pieces = await self._edge.read(
            lambda conn: self._edge.streams.after(conn, self._job.id, epoch, seq)
        )
        if pieces:
            self._place = (pieces[-1].epoch, pieces[-1].seq)
        return "".join(self._transcript.take(piece) for piece in pieces)

    def _why_not(self) -> Answerable:
        return (
            failure_of(self._job)
            if self._job.is_final
            else describe(StillRunning(job_id=self._job.id))
        )

    async def _ending(self) -> AsyncIterator[bytes]:
        output = await output_of(self._edge, self._job)
        rest = self._transcript.finish(output.content)
        if rest:
            yield self._chunk(delta={"content": rest})
        yield self._chunk(finish_reason=output.finish_reason)
        if self._wants_usage:
            yield _event(usage_chunk(self._job, self._model, output))

    def _chunk(self, **what: Any) -> bytes:
        return _event(chunk(self._job, self._model, epoch=self._transcript.epoch or None, **what))


async def output_of(edge: Edge, job: JobView) -> ChatCompletionOutput:
    """The committed answer of a succeeded job. Raises :class:`OutputNotStored` where its time is over."""
    stored = await edge.thread(lambda: edge.app.jobs.output(job.id))
    if stored is None:
        raise OutputNotStored
    return ChatCompletionOutput.model_validate(stored)


def _event(body: dict[str, Any]) -> bytes:
    return format_sse_event(data_str=json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def _now() -> float:
    return asyncio.get_running_loop().time()
