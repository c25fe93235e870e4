"""A provider whose library is loaded with its first call: many processes are configured for one and never call it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.providers.base import AiProvider, GenerateRequest, GenerateResult
from engine.resources.credentials import Credential


class LateProvider:
    """Stands for a provider that is made when it is needed."""

    def __init__(self, name: str, load: Callable[[], Callable[[], AiProvider]]) -> None:
        """``load`` imports what is needed and returns what makes the provider; it runs on a thread of its own."""
        self.name = name
        self._load = load
        #: None or one.
        self._made: list[AiProvider] = []

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        """See :class:`engine.providers.base.AiProvider`."""
        if not self._made:
            # A second of imports must not hold up the loop's other jobs.
            make = await asyncio.to_thread(self._load)
            # Another call may have been faster.
            if not self._made:
                self._made.append(make())
        return await self._made[0].generate(request, credential=credential, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Close the provider, if there is one."""
        for provider in self._made:
            await provider.aclose()
