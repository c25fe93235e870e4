"""Which provider answers for which credential mode.

Each mode is bound to one provider and so to one endpoint (design 10): there is no fallback from one mode to another,
because a fallback would carry a user's text, or bill, to somebody else.
"""

from __future__ import annotations

import asyncio

from engine.errors import CredentialMissing
from engine.providers.base import AiProvider, GenerateRequest, GenerateResult
from engine.resources.credentials import OFFLINE, PLATFORM_KEY, USER_DEEPSEEK_KEY, Credential


def answering(provider: AiProvider, mode: str) -> str:
    """The name of the provider that answers calls for ``mode``, also where a router stands in front of it."""
    return provider.name_for(mode) if isinstance(provider, ProviderRouter) else provider.name


class ProviderRouter:
    """A provider that hands each call to the provider of its credential's mode."""

    name = "router"

    def __init__(
        self,
        *,
        platform: AiProvider | None = None,
        user_deepseek: AiProvider | None = None,
        offline: AiProvider | None = None,
    ) -> None:
        """Take the provider of each mode.

        Without a ``platform`` provider the offline one, where given, answers platform jobs: an installation
        without a key works, with less. Jobs on a user's own key are never answered by anything else.
        """
        platform = platform if platform is not None else offline
        bound = {PLATFORM_KEY: platform, USER_DEEPSEEK_KEY: user_deepseek, OFFLINE: offline}
        self._providers = {
            mode: provider for mode, provider in bound.items() if provider is not None
        }

    @property
    def modes(self) -> frozenset[str]:
        """The credential modes that have a provider."""
        return frozenset(self._providers)

    def for_mode(self, mode: str) -> AiProvider:
        """The provider of a mode. Raises :class:`CredentialMissing` where none is configured."""
        provider = self._providers.get(mode)
        if provider is None:
            raise CredentialMissing(
                f"No provider is configured for credential mode {mode!r}.", mode=mode
            )
        return provider

    def name_for(self, mode: str) -> str:
        """The name of who answers for ``mode``; this router's own where nobody does."""
        return self._providers[mode].name if mode in self._providers else self.name

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        """Answer with the provider of ``credential.mode``; see :class:`engine.providers.base.AiProvider`."""
        provider = self.for_mode(credential.mode)
        return await provider.generate(request, credential=credential, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Close every provider once, also when one of them fails to."""
        # A provider may serve two modes.
        unique = {id(provider): provider for provider in self._providers.values()}
        await asyncio.gather(*(p.aclose() for p in unique.values()), return_exceptions=True)
