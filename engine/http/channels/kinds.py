"""Every kind of channel, by the name in its address."""

from __future__ import annotations

from typing import Final

from engine.http.channels.alertmanager import Alertmanager
from engine.http.channels.api import Api
from engine.http.channels.event import Kind
from engine.http.channels.gitea import Gitea
from engine.http.channels.line import Line
from engine.http.channels.telegram import Telegram

KINDS: Final[dict[str, Kind]] = {
    kind.name: kind for kind in (Telegram(), Alertmanager(), Gitea(), Line(), Api())
}
