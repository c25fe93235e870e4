"""The application whose jobs are measured; workers load it as ``scripts.benchmarks.jobs:app``."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from engine import AiJobApp, JobContext, Settings
from scripts.benchmarks.ticks import tick


class Order(BaseModel):
    """What a job is to do: nothing, or to wait as if for a model."""

    began: float = 0.0
    sleep_s: float = 0.0
    filler: str = ""


class Done(BaseModel):
    """What it produced."""

    ok: bool


app = AiJobApp(settings=Settings())


@app.job("bench", input=Order, output=Done, queue="ai-background", timeout_ms=60_000)
async def bench(ctx: JobContext[Any]) -> Done:
    """Wait if told so, and leave a tick."""
    order: Order = ctx.input
    if order.sleep_s:
        await asyncio.sleep(order.sleep_s)
    tick(order.began)
    return Done(ok=True)
