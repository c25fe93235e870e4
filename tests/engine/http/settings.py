"""Settings and tokens of an edge, for tests and for the servers they start: light, since each of those loads it."""

from __future__ import annotations

import itertools
from typing import Any

import jwt

from engine.config import DispatcherSettings, HttpSettings, Settings

SECRET = "a-secret-of-thirty-two-bytes-or-more"
FAR = 4_102_444_800
_numbers = itertools.count()


def token_of(subject: str, *scopes: str) -> str:
    """A bearer token that the edge of these tests accepts."""
    claims = {"sub": subject, "exp": FAR, "scope": " ".join(scopes or ("user",))}
    return jwt.encode(claims, SECRET, algorithm="HS256")


def settings_for(url: str, **http: Any) -> Settings:
    """Settings of an app whose edge takes the tokens of :func:`token_of`."""
    return Settings(
        database_url=url,
        redis_url=f"memory://{next(_numbers)}",
        # A test takes one step at a time.
        dispatcher=DispatcherSettings(early=False),
        http=HttpSettings(**{"jwt_secret": SECRET} | http),
    )
