"""The address of a model server, in one spelling."""

from __future__ import annotations

from urllib.parse import urlsplit

from engine.errors import SettingsError


def normal_base_url(url: str) -> str:
    """One spelling for each endpoint, so that endpoints can be compared. Raises :class:`SettingsError`."""
    parts = urlsplit(url.strip())
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            "A provider's base URL must begin with http:// or https:// and name a host."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError("A provider's base URL holds no user, password, query or fragment.")
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
