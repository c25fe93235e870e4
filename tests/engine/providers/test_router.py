"""Each credential mode has its own endpoint, and no other."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from engine.errors import CredentialMissing
from engine.providers.base import AiProvider, GenerateRequest, GenerateResult, Message, Usage
from engine.providers.openai_compatible import OpenAICompatibleProvider
from engine.providers.router import ProviderRouter, answering
from engine.resources.credentials import OFFLINE, PLATFORM_KEY, USER_DEEPSEEK_KEY, Credential
from tests.support.fake_openai import FakeOpenAI

REQUEST = GenerateRequest(task="t", messages=(Message("user", "hi"),))


class Recorder:
    """A provider that notes what it was asked."""

    def __init__(self, name: str, *, broken: bool = False) -> None:
        self.name = name
        self.broken = broken
        self.closed = 0

    async def generate(
        self, request: GenerateRequest, *, credential: Credential, timeout_s: float
    ) -> GenerateResult:
        return GenerateResult(f"{self.name} {timeout_s}", None, Usage(), "stop")

    async def aclose(self) -> None:
        self.closed += 1
        if self.broken:
            raise RuntimeError


async def asked(router: ProviderRouter, mode: str) -> str:
    result = await router.generate(REQUEST, credential=Credential(mode), timeout_s=3)
    return result.text


async def test_every_mode_goes_to_its_own_provider() -> None:
    router = ProviderRouter(
        platform=Recorder("p"), user_deepseek=Recorder("d"), offline=Recorder("o")
    )
    assert await asked(router, PLATFORM_KEY) == "p 3"
    assert await asked(router, USER_DEEPSEEK_KEY) == "d 3"
    assert await asked(router, OFFLINE) == "o 3"
    assert router.modes == {PLATFORM_KEY, USER_DEEPSEEK_KEY, OFFLINE}


async def test_offline_stands_in_for_a_missing_platform_and_never_for_a_user() -> None:
    router = ProviderRouter(offline=Recorder("o"))
    assert await asked(router, PLATFORM_KEY) == "o 3"
    with pytest.raises(CredentialMissing):
        await asked(router, USER_DEEPSEEK_KEY)


def test_name_that_goes_on_record_is_that_of_who_answers() -> None:
    router = ProviderRouter(platform=Recorder("p"), user_deepseek=Recorder("d"))

    assert [answering(router, mode) for mode in (PLATFORM_KEY, USER_DEEPSEEK_KEY)] == ["p", "d"]
    assert answering(Recorder("alone"), PLATFORM_KEY) == "alone"
    # the call is refused; so is its record
    assert answering(router, OFFLINE) == "router"


@pytest.mark.parametrize("mode", [USER_DEEPSEEK_KEY, OFFLINE, "", "PLATFORM_KEY"])
def test_mode_without_a_provider_is_refused(mode: str) -> None:
    with pytest.raises(CredentialMissing):
        ProviderRouter(platform=Recorder("p")).for_mode(mode)


async def test_every_provider_is_closed_once_also_when_one_fails_to() -> None:
    shared, broken = Recorder("s"), Recorder("b", broken=True)
    await ProviderRouter(user_deepseek=broken, offline=shared).aclose()
    assert (shared.closed, broken.closed) == (1, 1)


async def test_users_key_reaches_its_own_endpoint_and_no_other() -> None:
    with FakeOpenAI() as platform, FakeOpenAI() as deepseek:

        def provider(server: FakeOpenAI) -> AiProvider:
            return OpenAICompatibleProvider(
                base_url=server.base_url, default_model="m", trust_env=False
            )

        router = ProviderRouter(platform=provider(platform), user_deepseek=provider(deepseek))
        for mode, key in ((USER_DEEPSEEK_KEY, "sk-user"), (PLATFORM_KEY, "sk-platform")):
            credential = Credential(mode, SecretStr(key))
            await router.generate(REQUEST, credential=credential, timeout_s=20)
        await router.aclose()
        assert [request.key for request in deepseek.requests] == ["sk-user"]
        assert [request.key for request in platform.requests] == ["sk-platform"]
