"""The key that a call is made with, as it lives in a worker's memory and nowhere else.

A credential is made in RESOLVE, handed to the provider, and dropped with the attempt (X83): it has no
serialised form, and its repr shows neither the key nor who it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import SecretStr

#: The mode of jobs that run on the platform's own key, taken from the settings.
PLATFORM_KEY = "platform_key"
#: The mode of jobs that run on a key the user has stored.
USER_DEEPSEEK_KEY = "user_deepseek_key"
#: The mode of jobs that run without any model service.
OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Credential:
    """A key together with its mode; the mode alone decides which endpoint may ever see the key.

    ``base_url`` narrows the endpoint where the settings of a mode know more than one; it never widens it:
    a provider refuses a credential whose base URL is not its own.
    """

    mode: str
    secret: SecretStr | None = field(default=None, repr=False)
    base_url: str | None = None
