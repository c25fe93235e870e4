"""Which error a failed call is. The only code that reads a server's error body.

Servers repeat keys and prompts in their error texts, so of a body only its type and code are kept, and of these
only what looks like a name (promise 7).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import openai

from engine.errors import (
    ContentFiltered,
    CredentialInvalid,
    CredentialQuotaExhausted,
    JobError,
    ProviderError,
    ProviderOutcomeUnknown,
    ProviderRateLimited,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)

#: The longest that a provider can make us wait, in ms (WL-12).
MAX_RETRY_AFTER_MS: Final = 3_600_000

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z_.]{0,59}")
_NO_QUOTA: Final = frozenset(
    {
        "insufficient_quota",
        "insufficient_balance",
        "billing_hard_limit_reached",
        "billing_not_active",
    }
)
_FILTER: Final = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "data_inspection_failed",
    }
)
#: DeepSeek names its filter in the text only.
_FILTER_TEXT: Final = "content exists risk"
#: The server, or one between us and it, gave up waiting for the model.
_TIMED_OUT: Final = frozenset({408, 504, 524})
#: Refusals that are about the present moment, not about the request.
_PASSING: Final = frozenset({409, 425})


def from_sdk(error: openai.OpenAIError, *, sent: bool) -> JobError:
    """The error for one of the SDK's; ``sent`` says whether the request may have reached the provider."""
    if isinstance(error, openai.APIStatusError):
        return from_status(error.status_code, error.response.headers, Refusal.of(error))
    if isinstance(error, openai.APITimeoutError):
        return timed_out(sent=sent)
    if isinstance(error, openai.APIConnectionError):
        return _lost(error, sent=sent)
    if isinstance(error, openai.APIError):
        # A stream that reports an error as one of its events.
        return _from_names(Refusal.of(error)) or ProviderError(**Refusal.of(error).details())
    return ProviderError("The provider's answer could not be read.", reason=type(error).__name__)


def timed_out(*, sent: bool) -> JobError:
    """The call took longer than the attempt has time."""
    if sent:
        return ProviderTimeout()
    return ProviderUnavailable("The provider did not take the connection in time.")


def _lost(error: BaseException, *, sent: bool) -> JobError:
    reason = type(error.__cause__ or error).__name__
    return ProviderOutcomeUnknown(reason=reason) if sent else ProviderUnavailable(reason=reason)


class Refusal:
    """The type and code of an error body, and its text for decisions that are made at once."""

    def __init__(self, kind: str | None, code: str | None, text: str | None) -> None:
        """Take the body's fields as they came."""
        self.kind = _name(kind)
        self.code = _name(code)
        #: In lower case; never stored, logged or raised. None where the body has none.
        self.text = text.lower() if text else None

    @classmethod
    def of(cls, error: openai.APIError) -> Refusal:
        """Read the body of an SDK error."""
        body = error.body
        inner = body.get("error", body) if isinstance(body, Mapping) else {}
        fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {"message": inner}
        said = [fields.get("message"), fields.get("param"), fields.get("detail"), error.code]
        text = " ".join(str(part) for part in said if part)
        return cls(error.type or fields.get("type"), error.code or fields.get("code"), text)

    @property
    def names(self) -> frozenset[str]:
        """Type and code in lower case."""
        return frozenset(name.lower() for name in (self.kind, self.code) if name)

    def details(self, **more: Any) -> dict[str, Any]:
        """What an error may keep of this refusal."""
        return {"provider_type": self.kind, "provider_code": self.code, **more}


def from_status(status: int, headers: Mapping[str, str], refusal: Refusal) -> JobError:
    """The error for an HTTP status."""
    named = _from_names(refusal)
    if named is not None and status < 500:
        return named
    details = refusal.details(status=status)
    wait = retry_after_ms(headers)
    if status == 429 or (status in (503, 529) and wait is not None):
        # An overloaded server that says when to come back is a rate limit too (design 10).
        return ProviderRateLimited(retry_after_ms=wait, **details)
    return _by_status(status)(f"The provider answered with HTTP status {status}.", **details)


def _by_status(status: int) -> type[JobError]:
    if status in (401, 403):
        return CredentialInvalid
    if status == 402:
        return CredentialQuotaExhausted
    if status in _TIMED_OUT:
        return ProviderTimeout
    if status >= 500 or status in _PASSING:
        return ProviderError
    return ProviderRejected


def _from_names(refusal: Refusal) -> JobError | None:
    if refusal.names & _NO_QUOTA:
        return CredentialQuotaExhausted(**refusal.details())
    if refusal.names & _FILTER or _FILTER_TEXT in (refusal.text or ""):
        return ContentFiltered(**refusal.details())
    return None


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long to wait in ms, between 0 and an hour; None where the server did not say or wrote nonsense.

    Both forms of ``Retry-After`` count, seconds and date. A date is read against the answer's own ``Date``:
    the two come from one clock, and ours decides nothing (ground rule 3).
    """
    precise = _number(headers.get("retry-after-ms"))
    if precise is not None:
        return _bounded(precise)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return _bounded(seconds * 1000)
    return _until(value, headers.get("date"))


def _until(moment: str | None, now: str | None) -> int | None:
    if moment is None or now is None:
        return None
    try:
        left = parsedate_to_datetime(moment) - parsedate_to_datetime(now)
    except (TypeError, ValueError):
        # TypeError: only one of the two names a time zone.
        return None
    return _bounded(left.total_seconds() * 1000)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _bounded(ms: float) -> int:
    return round(min(max(ms, 0.0), MAX_RETRY_AFTER_MS))
