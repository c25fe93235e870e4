"""What senders of events send, and the channels of an application that takes it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from engine.app import AiJobApp
from engine.http.channels.event import ChannelEvent
from engine.http.channels.registry import channels_of
from engine.intake.commands import CreateJobInput

SAMPLES = Path(__file__).resolve().parents[3] / "docs" / "channel_samples"
SECRET = "the-channels-secret"
KINDS = ("telegram", "alertmanager", "gitea", "line", "api")


def sample(kind: str) -> dict[str, Any]:
    """A delivery of this kind, as its provider documents it."""
    return json.loads((SAMPLES / f"{kind}.json").read_text())  # type: ignore[no-any-return]


def signed(kind: str, body: bytes, secret: str = SECRET, event_id: str = "d-1") -> dict[str, str]:
    """The headers that a sender of this kind puts on a delivery."""
    mac = hmac.digest(secret.encode(), body, hashlib.sha256)
    return {
        "telegram": {"X-Telegram-Bot-Api-Secret-Token": secret},
        "alertmanager": {"Authorization": f"Bearer {secret}"},
        "gitea": {
            "X-Gitea-Signature": mac.hex(),
            "X-Gitea-Delivery": event_id,
            "X-Gitea-Event": "push",
        },
        "line": {"X-Line-Signature": base64.b64encode(mac).decode()},
        "api": {"Authorization": f"Bearer {secret}", "Idempotency-Key": event_id},
    }[kind]


def to_job(event: ChannelEvent) -> CreateJobInput | None:
    """The mapping of these tests: everything becomes a synthetic job, but for what says that it is to be ignored."""
    if event.data.get("ignore"):
        return None
    if event.data.get("broken"):
        raise KeyError("chapter")
    return CreateJobInput(
        user_id=f"{event.project}/{event.instance}",
        job_type="synthetic",
        target_type=event.channel,
        target_id=event.id[:255],
        payload=event.data.get("payload")
        or {"value": {"kind": event.kind, "data": dict(event.data)}},
    )


def configure(app: AiJobApp) -> None:
    channels = channels_of(app)
    for kind in KINDS:
        channels.on(kind, project="acme", secret=SECRET)(to_job)
    channels.on("api", project="rotating", secret=["new-secret", "old-secret"])(to_job)
    channels.on("api", project="unsecured")(to_job)
    channels.on("api", project="open", allow_unsigned=True)(to_job)
    channels.on("telegram", project="other", secret=SECRET)(to_job)
