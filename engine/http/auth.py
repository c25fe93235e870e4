"""Who is calling: one callable ``request -> Principal | None``, which a host may write itself.

Built in: signed bearer tokens (``tokens_signed_with``, ``tokens_signed_by``), static tokens from a file
(``tokens_of_file``), nobody but this machine (``loopback_only``), and ``first_of`` to put some together.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from starlette.requests import HTTPConnection

USER: Final = "user"
ADMIN: Final = "admin"
APPROVER: Final = "approver"
SUPER_ADMIN: Final = "SUPER_ADMIN"
METRICS: Final = "metrics"

Scope: TypeAlias = Literal["user", "admin", "approver", "SUPER_ADMIN", "metrics"]

#: What a scope allows beside itself.
_IMPLIED: Final[dict[str, frozenset[str]]] = {
    SUPER_ADMIN: frozenset({ADMIN, APPROVER, USER, METRICS}),
    ADMIN: frozenset({USER, METRICS}),
}
#: Longest subject: it becomes a job's user id.
MAX_SUBJECT: Final = 128


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. ``subject`` is the user id of the jobs it makes and may see."""

    subject: str = field(repr=False)
    scopes: frozenset[str] = frozenset({USER})

    def may(self, scope: str) -> bool:
        """Whether this caller has ``scope``, directly or by a greater one."""
        return scope in self.scopes or any(
            scope in _IMPLIED.get(own, frozenset()) for own in self.scopes
        )


#: The host's one callable. It never raises for bad credentials: it answers None.
Authenticator: TypeAlias = Callable[
    [HTTPConnection], "Principal | Awaitable[Principal | None] | None"
]


def valid_subject(subject: object) -> bool:
    """Whether ``subject`` can be a user id: visible text of 1 to 128 characters."""
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT:
        return False
    return subject.isprintable() and subject == subject.strip()


def bearer(connection: HTTPConnection) -> str | None:
    """The bearer token of a request, where it has exactly one."""
    values = connection.headers.getlist("authorization")
    if len(values) != 1:
        return None
    kind, _, token = values[0].partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def first_of(*authenticators: Authenticator) -> Authenticator:
    """The first of ``authenticators`` that knows the caller."""

    async def ask(connection: HTTPConnection) -> Principal | None:
        for authenticator in authenticators:
            principal = await authenticate(authenticator, connection)
            if principal is not None:
                return principal
        return None

    return ask


async def authenticate(
    authenticator: Authenticator, connection: HTTPConnection
) -> Principal | None:
    """Ask ``authenticator``, which may be plain or a coroutine function."""
    answer = authenticator(connection)
    return await answer if isinstance(answer, Awaitable) else answer


# ------------------------------------------------------------------ this machine only


class LoopbackOnly:
    """No credentials, and so only for this machine: everybody on it may do everything.

    A browser on this machine is not trusted with it: requests that another site caused, and host names that are
    not this machine's (DNS rebinding), are turned away.
    """

    def __init__(self, subject: str = "local") -> None:
        self._principal = Principal(subject, frozenset({SUPER_ADMIN}))

    def __call__(self, connection: HTTPConnection) -> Principal | None:
        """The local principal for a request from this machine, else None."""
        client = connection.client
        if client is None or not is_loopback(client.host):
            return None
        if not is_loopback(_host_name(connection.headers.get("host", ""))):
            return None
        return None if _from_another_site(connection) else self._principal


def loopback_only(subject: str = "local") -> Authenticator:
    """Nobody but this machine, without credentials."""
    return LoopbackOnly(subject)


def is_loopback(host: str) -> bool:
    """Whether ``host`` names this machine only: 127.0.0.0/8, ::1 or localhost."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def _from_another_site(connection: HTTPConnection) -> bool:
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = connection.headers.get("origin")
    if origin is None:
        return False
    return origin.partition("://")[2].lower() != connection.headers.get("host", "").lower()
