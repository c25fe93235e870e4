"""Who may call, from the settings; and the rule that nothing is served beyond this machine without it."""

from __future__ import annotations

from engine.config import HttpSettings
from engine.errors import SettingsError
from engine.http.auth import Authenticator, LoopbackOnly, first_of, is_loopback
from engine.http.gate import Gate
from engine.http.tokens import KeySetTokens, SharedSecretTokens, TokenFile


def authenticator_of(settings: HttpSettings) -> Authenticator:
    """What the settings say; this machine alone where they say nothing. Raises :class:`SettingsError`."""
    found: list[Authenticator] = []
    issuer, audience = settings.jwt_issuer, settings.jwt_audience
    if settings.token_file is not None:
        found.append(TokenFile(settings.token_file))
    if settings.jwt_secret is not None:
        found.append(SharedSecretTokens(settings.jwt_secret, issuer=issuer, audience=audience))
    if settings.jwks_url is not None:
        found.append(KeySetTokens(settings.jwks_url, issuer=issuer, audience=audience))
    if not found:
        return LoopbackOnly()
    return found[0] if len(found) == 1 else first_of(*found)


def refuse_exposure(gate: Gate, host: str) -> None:
    """Raise :class:`SettingsError` where ``host`` can be reached from elsewhere and nobody needs credentials."""
    if gate.open_to_this_machine and not is_loopback(host):
        raise SettingsError(
            f"refusing to listen on {host or 'every address'} without authentication; set "
            "AIJOBS_HTTP__TOKEN_FILE, AIJOBS_HTTP__JWT_SECRET or AIJOBS_HTTP__JWKS_URL, or listen on 127.0.0.1"
        )
