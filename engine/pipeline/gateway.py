"""The metered way to a model: the intent is stored before bytes leave, the settlement after (promise 5).

A call whose intent cannot be stored is not made. An operation id stays the same when the same call is made
by a later claim whose predecessor may have reached the provider, so that a provider which knows it bills
once (WL-11).
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from engine.pipeline.batcher import Batcher
from engine.pipeline.outages import persist
from engine.pipeline.retry import UNKNOWN_OUTCOMES
from engine.pipeline.work import Abort, Aborted, Work
from engine.providers.base import AiProvider, GenerateRequest, GenerateResult, Message, Usage
from engine.providers.router import answering
from engine.resources.credentials import Credential
from engine.usage.repository import Intent, Settlement
from outbox.base.points import Point, point
from outbox.base.telemetry import Telemetry
from registry.errors import AiJobsError

#: Endings of a claim after which the same call keeps its operation id.
_SAME_OPERATION = UNKNOWN_OUTCOMES | {"LEASE_LOST", "PROVIDER_UNAVAILABLE", "PROVIDER_RATE_LIMITED", "TIMEOUT"}


class Gateway:
    """Makes the calls of one attempt; lives on the event loop."""

    def __init__(
        self,
        *,
        work: Work,
        credential: Credential,
        provider: AiProvider,
        intents: Batcher[Intent, bool],
        settlements: Batcher[Settlement, bool],
        deadline: float,
        telemetry: Telemetry,
    ) -> None:
        self._work = work
        self._credential = credential
        self._provider = provider
        self._intents = intents
        self._settlements = settlements
        self._deadline = deadline
        self._telemetry = telemetry
        self._calls = 0

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        schema: type[BaseModel] | None,
        values: Mapping[str, Any],
        model: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        on_delta: Callable[[str], None] | None = None,
        accept_cut: bool = False,
    ) -> GenerateResult:
        """One call. Raises what :class:`AiProvider` raises; a lost lease aborts the attempt before any call."""
        self._work.switch.check()
        self._calls += 1
        request = GenerateRequest(
            task=self._work.job.job_type,
            messages=tuple(messages),
            schema=schema,
            input=values,
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            operation_id=self._operation_id(),
            on_delta=on_delta,
            accept_cut=accept_cut,
        )
        await self._intend(request)
        point(Point.WORKER_BEFORE_CALL)
        return await self._call(request, self._calls)

    def _operation_id(self) -> str:
        tries = sum(1 for code in self._work.history.error_codes if code not in _SAME_OPERATION)
        return f"{self._work.job.id.hex}-{tries}-{self._calls}"

    async def _intend(self, request: GenerateRequest) -> None:
        intent = Intent(
            lease=self._work.lease,
            call_no=self._calls,
            attempt_no=self._work.claim.attempt_no,
            operation_id=request.operation_id,
            credential_mode=self._credential.mode,
            provider=answering(self._provider, self._credential.mode),
            model=request.model,
        )
        tries = itertools.count()

        def submit() -> asyncio.Future[bool]:
            return self._intents.submit(replace(intent, again=next(tries) > 0))

        if not await persist(submit, self._telemetry):
            # The switch is left alone: the attempt that is told may be one left behind, and the switch is the next's.
            raise Aborted(Abort.FENCED, lease=self._work.lease)

    async def _call(self, request: GenerateRequest, call_no: int) -> GenerateResult:
        began = time.monotonic()
        switch = self._work.switch
        switch.calls_in_flight += 1
        # Were we stopped in between, the call stays counted and its intent open: the outcome is unknown.
        try:
            result = await self._provider.generate(
                request, credential=self._credential, timeout_s=max(0.001, self._deadline - began)
            )
        except AiJobsError as error:
            switch.calls_in_flight -= 1
            await self._settle(call_no, began, error.details.get("usage"), error_code=error.code)
            raise
        switch.calls_in_flight -= 1
        point(Point.WORKER_AFTER_CALL)
        await self._settle(call_no, began, result.usage, result=result)
        self._work.switch.check()
        return result

    async def _settle(
        self, call_no: int, began: float, usage: Usage | None, *,
        result: GenerateResult | None = None, error_code: str | None = None,
    ) -> None:  # fmt: skip
        if error_code in UNKNOWN_OUTCOMES and usage is None:
            # Left as an open intent: unsettled means unknown (design 5).
            return
        used = usage or Usage()
        settlement = Settlement(
            lease=self._work.lease,
            call_no=call_no,
            latency_ms=round((time.monotonic() - began) * 1000),
            error_code=error_code,
            model=used.model,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cost_usd=used.cost_usd,
            finish_reason=result.finish_reason if result else None,
            provider_request_id=result.provider_request_id if result else None,
        )
        try:
            settled = await persist(lambda: self._settlements.submit(settlement), self._telemetry)
        except Exception as error:  # noqa: BLE001 - bookkeeping must not cost an answer that was paid for (PC-1)
            # Without its settlement the call stays unknown, which is true of what is on record.
            self._telemetry.emit("usage.settle_failed", job_id=str(self._work.job.id), error=type(error).__name__)
            return
        if not settled:
            self._telemetry.emit("usage.fenced", job_id=str(self._work.job.id))
            raise Aborted(Abort.FENCED, lease=self._work.lease)
        self._telemetry.emit(
            "usage.settled", model=used.model, input_tokens=used.input_tokens, output_tokens=used.output_tokens
        )


