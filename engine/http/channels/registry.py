"""Which channels an application takes events from: their secrets, and the function that makes a job of an event.

channels = channels_of(app)

@channels.on("telegram", project="acme", instance="support-bot", secret=os_secret)
def answer(event: ChannelEvent) -> CreateJobInput | None: ...
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import SecretStr

from engine.app import AiJobApp
from engine.errors import SettingsError
from engine.http.channels.event import ChannelEvent
from engine.http.channels.kinds import KINDS
from engine.http.errors import ChannelUnknown
from engine.intake.commands import CreateJobInput

#: Makes the job of an event; None takes the event and makes none.
Mapping = Callable[[ChannelEvent], "CreateJobInput | None"]
M = TypeVar("M", bound=Mapping)
#: Stands for every project or instance.
ANY = "*"


@dataclass(frozen=True, slots=True)
class Channel:
    """One configured channel. Several secrets: while one is replaced, both count."""

    kind: str
    project: str
    instance: str
    mapping: Mapping = field(repr=False)
    secrets: tuple[SecretStr, ...] = field(default=(), repr=False)
    allow_unsigned: bool = False


class Channels:
    """The channels of an application."""

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str, str], Channel] = {}

    def on(
        self,
        kind: str,
        *,
        project: str = ANY,
        instance: str = ANY,
        secret: SecretStr | str | Sequence[SecretStr | str] | None = None,
        allow_unsigned: bool = False,
    ) -> Callable[[M], M]:
        """Take events of ``kind`` and let the decorated function make jobs of them.

        Without a secret deliveries are refused, unless ``allow_unsigned`` says that anybody may send. The job's
        ``idempotency_key`` is set here. Raises :class:`SettingsError`.
        """
        if kind not in KINDS:
            raise SettingsError(f"channel {kind!r}: the kinds are {', '.join(KINDS)}")
        place = (kind, project, instance)
        if place in self._channels:
            raise SettingsError(f"channel {'/'.join(place)} is configured twice")

        def decorate(mapping: M) -> M:
            secrets = _secrets(secret)
            self._channels[place] = Channel(*place, mapping, secrets, allow_unsigned)
            return mapping

        return decorate

    def find(self, kind: str, project: str, instance: str) -> Channel:
        """The channel for a delivery: the most exact one. Raises :class:`ChannelUnknown`."""
        for place in ((project, instance), (project, ANY), (ANY, instance), (ANY, ANY)):
            channel = self._channels.get((kind, *place))
            if channel is not None:
                return channel
        raise ChannelUnknown


def _secrets(secret: SecretStr | str | Sequence[SecretStr | str] | None) -> tuple[SecretStr, ...]:
    if secret is None:
        return ()
    given = [secret] if isinstance(secret, str | SecretStr) else list(secret)
    found = tuple(SecretStr(s) if isinstance(s, str) else s for s in given)
    if not all(s.get_secret_value() for s in found):
        raise SettingsError("a channel's secret is empty")
    return found


_by_app: weakref.WeakKeyDictionary[AiJobApp, Channels] = weakref.WeakKeyDictionary()


def channels_of(app: AiJobApp) -> Channels:
    """The channels of ``app``; ``create_http_app`` and ``aijobs serve`` take events for them."""
    return _by_app.setdefault(app, Channels())
