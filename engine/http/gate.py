"""The gate every request passes: who is it, how often does it come, and may it do this?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from engine.http.auth import Authenticator, LoopbackOnly, Principal, authenticate
from engine.http.errors import Forbidden, Unauthenticated
from engine.http.limits import RateLimiter

_CACHE: Final = "aijobs.principal"
_BEARER: Final = HTTPBearer(auto_error=False, scheme_name="bearer", description="A bearer token.")

Needed = Callable[..., Awaitable[Principal]]


class Gate:
    """Identifies callers once per request and counts their requests. One for an application."""

    def __init__(self, authenticator: Authenticator, *, per_minute: int | None = None) -> None:
        """``per_minute`` is how many requests one caller may send; None sets no limit."""
        self._authenticator = authenticator
        self._limiter = None if per_minute is None else RateLimiter(per_minute)

    @property
    def open_to_this_machine(self) -> bool:
        """Whether nobody needs credentials, because only this machine is let in."""
        return isinstance(self._authenticator, LoopbackOnly)

    async def identify(self, connection: HTTPConnection) -> Principal:
        """The caller. Raises ``Unauthenticated`` or ``RateLimited``; asks and counts once per request."""
        cached = connection.scope.get(_CACHE)
        if cached is not None and cached[0] is self:
            principal: Principal = cached[1]
            return principal
        found = await authenticate(self._authenticator, connection)
        if found is None:
            raise Unauthenticated
        if self._limiter is not None:
            self._limiter.take(found.subject)
        connection.scope[_CACHE] = (self, found)
        return found

    async def permit(self, connection: HTTPConnection, *scopes: str) -> Principal:
        """The caller, when it has one of ``scopes``. Raises ``Forbidden`` as well."""
        principal = await self.identify(connection)
        if not any(principal.may(scope) for scope in scopes):
            raise Forbidden
        return principal

    def need(self, *scopes: str) -> Any:
        """The FastAPI dependency that gives the caller, where it has one of ``scopes``."""

        async def documented(
            request: Request,
            _token: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        ) -> Principal:
            return await self.permit(request, *scopes)

        async def plain(request: Request) -> Principal:
            return await self.permit(request, *scopes)

        return Depends(plain if self.open_to_this_machine else documented)
