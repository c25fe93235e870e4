"""JobContext: all that a handler sees of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from engine.errors import DefinitionRefusesJob
from engine.lifecycle.receipts import CommitReceipt
from engine.pipeline.commits import Commits
from engine.pipeline.gateway import Gateway
from engine.pipeline.progress import short_note, whole_percent
from engine.pipeline.work import Aborted, Resolved
from engine.providers.base import GenerateResult, Message
from registry.job import JobView

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)
T = TypeVar("T")

#: Takes (percent, note); writes them when it is convenient.
ReportProgress = Callable[[int, str | None], None]


class JobContext(Generic[In]):
    """One attempt of one job, as its handler sees it.

    An ``async def`` handler awaits :meth:`generate` and :meth:`commit`; a plain one runs in a thread of its own,
    where :meth:`generate_sync` and :meth:`commit_sync` wait for the same calls.
    """

    def __init__(
        self, resolved: Resolved, *, gateway: Gateway, commits: Commits, progress: ReportProgress,
        loop: asyncio.AbstractEventLoop, show: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._resolved = resolved
        self._gateway = gateway
        self._commits = commits
        self._progress = progress
        self._loop = loop
        self._show = show

    @property
    def input(self) -> In:
        """The validated input, as it was frozen when the job was created."""
        return self._resolved.input  # type: ignore[return-value]

    @property
    def job(self) -> JobView:
        """The job's row as it was claimed."""
        return self._resolved.work.job

    @property
    def attempt_no(self) -> int:
        """1 for the first attempt; resumes and rate-limit waits do not count."""
        return self._resolved.work.claim.attempt_no

    @property
    def previous_errors(self) -> tuple[str, ...]:
        """What was wrong with the output of the attempt before, a sentence each (X28)."""
        return self._resolved.work.history.errors

    def progress(self, percent: float, note: str | None = None) -> None:
        """Report progress, 0 to 100; it never goes back within an attempt. Never waits.

        A number beyond these bounds counts as the nearer one, a part of a percent is left out, and of ``note``
        255 characters are kept. Raises :class:`~engine.errors.ProgressInvalid` where ``percent`` is no finite
        number or ``note`` no text; that a report cannot be stored fails no attempt.
        """
        self._progress(whole_percent(percent), short_note(note))

    def check_cancelled(self) -> None:
        """Stop here when this attempt was cancelled, timed out or lost its lease.

        Raises a control signal that ``except Exception`` does not swallow; let it pass.
        """
        self._resolved.work.switch.check()

    async def generate(
        self,
        prompt: str | Sequence[Message] | None = None,
        *,
        schema: type[Out] | None = None,
        system: str | None = None,
        model: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        on_delta: Callable[[str], None] | None = None,
    ) -> Any:
        """Ask the model; metered, aborted with the attempt.

        ``prompt`` is the user's text or whole messages; None renders the definition's prompt template with
        the input. With ``schema`` the answer is a validated instance of it, without it is text. Raises the
        ``PROVIDER_*`` and ``VALIDATION_*`` errors of ``engine.errors``; leave them to the engine.
        """
        result = await self._gateway.generate(
            self._messages(prompt, system),
            schema=schema,
            values=self.input.model_dump(mode="json"),
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            on_delta=on_delta,
        )
        return result.text if schema is None else result.parsed

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        on_delta: Callable[[str], None] | None = None,
        accept_cut: bool = False,
    ) -> GenerateResult:
        """Ask the model with whole messages, and get its answer with usage and finish reason.

        With ``accept_cut`` an answer that ``max_output_tokens`` cut off is one, too. Otherwise as :meth:`generate`.
        """
        return await self._gateway.generate(
            list(messages),
            schema=None,
            values=self.input.model_dump(mode="json"),
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            on_delta=on_delta,
            accept_cut=accept_cut,
        )

    def emit(self, text: str) -> None:
        """Show a piece of the answer to whoever follows this job: a preview, marked with this claim's epoch.

        Never waits and never raises. Shows nothing where the definition checks or redacts its output: what was
        not checked yet must not be seen.
        """
        security = self._resolved.work.definition.security
        if not security.content_safety_check and security.redact_output is None:
            self._show(text)

    async def commit(
        self, operation: str, change: Callable[[Session], Any], *, payload: Any, expected_version: int | None = None
    ) -> CommitReceipt:
        """Commit business rows of your own now, in the middle of the attempt, once in the life of this job.

        ``change(session)`` writes them in a transaction of the engine's, together with a receipt for
        ``operation``: 1 to 64 letters, digits and ``. _ : / -`` that name this commit within the job. It runs on
        a database thread, holds the job's row while it runs, and may run again from its start where the database
        asks for that: keep it short, keep nothing outside the session, and let database errors pass. What it
        returns, at most 16 KiB of JSON, is the receipt's ``result``. It may not end the transaction.

        A later call with this operation, after a retry or by another worker, gets the first receipt with
        ``replayed`` set and does not run its change. ``payload`` is what the operation is about: a JSON value or
        a model, of which only a hash is stored; with another payload than the first the call is refused. With
        ``expected_version`` a new operation is refused unless the job has made exactly so many commits before.

        Raises ``COMMIT_*`` errors, which end the job unless the handler catches them, and whatever ``change``
        raises; nothing is written then. Where the lease is lost or a cancel was asked the attempt stops here, as
        in :meth:`check_cancelled`, and nothing is written either.
        """
        return await self._commits.commit(operation, change, payload=payload, expected_version=expected_version)

    def commit_sync(self, operation: str, change: Callable[[Session], Any], **options: Any) -> CommitReceipt:
        """:meth:`commit` for plain ``def`` handlers: waits in the handler's own thread."""
        return self._wait(self.commit(operation, change, **options))

    def generate_sync(self, prompt: str | Sequence[Message] | None = None, **options: Any) -> Any:
        """:meth:`generate` for plain ``def`` handlers: waits in the handler's own thread."""
        return self._wait(self.generate(prompt, **options))

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except asyncio.CancelledError:
            reason = self._resolved.work.switch.reason
            if reason is None:
                raise
            raise Aborted(reason) from None

    def _messages(self, prompt: str | Sequence[Message] | None, system: str | None) -> list[Message]:
        if prompt is None:
            return self._from_template()
        if not isinstance(prompt, str):
            return list(prompt)
        opening = [Message("system", system)] if system else []
        return [*opening, Message("user", prompt)]

    def _from_template(self) -> list[Message]:
        template = self._resolved.prompt
        if template is None:
            raise DefinitionRefusesJob("this job type has no prompt; give one to generate()")
        rendered = template.render(self._resolved.input)
        messages = [Message("system", rendered.system)] if rendered.system else []
        messages.append(Message("user", rendered.user))
        if self.previous_errors:
            problems = "\n".join(f"- {text}" for text in self.previous_errors)
            messages.append(Message("user", f"Your previous answer was not usable:\n{problems}\nCorrect that."))
        return messages
