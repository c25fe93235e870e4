"""EXECUTE: the attempt itself, under a deadline, on the event loop.

    input safety -> handler (or prompt + gateway) -> validate -> output safety -> redact -> canonical bytes, hash

``async def`` handlers run as tasks that an abort cancels; plain ones in a thread of their own, which an abort
can only tell. Either way the engine decides when the time is up, not the handler (TR-8).
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.errors import HandlerError, JobTimeout, OutputInvalid, OutputNotStorable, OutputTooLarge
from engine.lifecycle.outputs import Output
from engine.pipeline.context import JobContext
from engine.pipeline.work import Abort, Aborted, Produced, Resolved
from engine.resources.safety import ContentSafety
from outbox.base.canonical import sha256
from outbox.base.documents import model_bytes
from outbox.base.errors import NotCanonicalError

#: How long a cancelled handler may take to clean up before it is left behind, in s.
CLEAN_UP_S = 2.0

MakeContext = Callable[[Resolved, float], JobContext[Any]]


class Executor:
    """Runs attempts; many at a time on one event loop."""

    def __init__(self, *, make_context: MakeContext, safety: ContentSafety, output_limit: int) -> None:
        self._make_context = make_context
        self._safety = safety
        self._output_limit = output_limit

    async def execute(self, resolved: Resolved) -> Produced:
        """Run one attempt to a validated output.

        Raises :class:`Aborted` when it was stopped from outside, :class:`JobTimeout` at the deadline, and
        whatever the handler raised.
        """
        limit_s = resolved.work.definition.execution.timeout_ms / 1000
        context = self._make_context(resolved, time.monotonic() + limit_s)
        return await _within(limit_s, resolved, self._attempt(resolved, context))

    async def _attempt(self, resolved: Resolved, context: JobContext[Any]) -> Produced:
        try:
            return await self._produced(resolved, context)
        except (Exception, Aborted, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - handlers, validators, checks and providers may raise anything
            # On the event loop SystemExit and its like would end the process, and every other job's attempt with it.
            raise HandlerError(f"the handler raised {type(error).__name__}") from None

    async def _produced(self, resolved: Resolved, context: JobContext[Any]) -> Produced:
        definition, work = resolved.work.definition, resolved.work
        checked = definition.security.content_safety_check
        if checked:
            await self._safety.check_input(resolved.input, job_type=definition.job_type)
        value = _validated(await _call(resolved, context), definition.output.model)
        if checked:
            await self._safety.check_output(value, job_type=definition.job_type)
        if definition.security.redact_output is not None:
            value = _validated(definition.security.redact_output(value), definition.output.model)
        content = self._stored(value)
        output = Output(
            content=content,
            digest=sha256(content),
            schema_version=work.job.output_schema_version,
            redaction_version=definition.security.redaction_version,
            retention_days=definition.retention.output_days,
        )
        return Produced(work, value, output)

    def _stored(self, value: BaseModel) -> bytes:
        try:
            content = model_bytes(value)
        except NotCanonicalError as error:
            raise OutputNotStorable(f"output: {error}") from None
        if len(content) > self._output_limit:
            raise OutputTooLarge(f"output: {len(content)} bytes, the limit is {self._output_limit}")
        return content


async def _within(limit_s: float, resolved: Resolved, attempt: Coroutine[Any, Any, Produced]) -> Produced:
    """Wait for the attempt, the deadline or an abort, whichever comes first."""
    loop = asyncio.get_running_loop()
    switch = resolved.work.switch
    task = loop.create_task(attempt)
    # One future for all three: asyncio.wait would cost more than a short attempt.
    over = switch.waiter()
    task.add_done_callback(lambda _task: None if over.done() else over.set_result(None))
    deadline = loop.call_later(limit_s, switch.trip, Abort.TIMEOUT)
    try:
        await over
        if task.done():
            return _result(task)
        reason = switch.reason or Abort.TIMEOUT
        task.cancel()
        # One that swallows the cancellation is left behind: its writes are fenced, its slot is not.
        await asyncio.wait({task}, timeout=CLEAN_UP_S)
        if reason is Abort.TIMEOUT:
            raise JobTimeout(f"the attempt took longer than {limit_s * 1000:.0f} ms")
        raise Aborted(reason)
    finally:
        deadline.cancel()
        if not task.done():
            task.add_done_callback(_forget)
        elif not task.cancelled():
            task.exception()


def _result(task: asyncio.Future[Any]) -> Produced:
    if task.cancelled():
        # Not by us: the handler has cancelled itself.
        raise HandlerError("the handler was cancelled from inside")
    try:
        produced: Produced = task.result()
    except (Exception, Aborted):
        raise
    except BaseException as error:  # noqa: BLE001 - GeneratorExit, which also ends a handler left behind
        raise HandlerError(f"the handler raised {type(error).__name__}") from None
    return produced


def _forget(task: asyncio.Future[Any]) -> None:
    """Take the result of an abandoned handler, so that nobody complains that it was never looked at."""
    if not task.cancelled():
        task.exception()


async def _call(resolved: Resolved, context: JobContext[Any]) -> Any:
    handler = resolved.work.definition.handler
    if handler is None:
        return await context.generate(schema=resolved.work.definition.output.model)
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        return await handler(context)
    return await _in_thread(handler, context)


async def _in_thread(handler: Callable[[Any], Any], context: JobContext[Any]) -> Any:
    """Run a plain handler in a daemon thread: one that never returns must not keep the process alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    inherited = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = inherited.run(handler, context)
        except BaseException as error:  # noqa: BLE001 - it is carried over to the loop
            failure = error if _can_cross(error) else HandlerError(f"the handler raised {type(error).__name__}")
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            # The loop is closed: the process has given this handler up.
            return

    threading.Thread(target=run, name=f"aijobs-{context.job.id.hex[-8:]}", daemon=True).start()
    result = await future
    return await result if inspect.isawaitable(result) else result


def _can_cross(error: BaseException) -> bool:
    """Whether a future may carry ``error``: StopIteration and the signals that end a loop may not."""
    return isinstance(error, Aborted) or (isinstance(error, Exception) and not isinstance(error, StopIteration))


def _validated(value: Any, model: type[BaseModel]) -> BaseModel:
    raw = value.model_dump(mode="python", warnings=False) if isinstance(value, BaseModel) else value
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, e['loc'])) or 'output'}: {e['msg']}"
            for e in error.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise OutputInvalid(f"output does not match {model.__name__}", errors=problems) from None
