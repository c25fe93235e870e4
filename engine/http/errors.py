"""What the HTTP edge itself refuses. Each error knows its status; errors of other floors are mapped in ``problem``."""

from __future__ import annotations

from typing import Any, ClassVar

from registry.errors import AiJobsError


class HttpError(AiJobsError):
    """The request was refused at the edge."""

    code = "REQUEST_REFUSED"
    status: ClassVar[int] = 400
    public_message = "The request was refused."

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after_s: int | None = None,
        detail: str | None = None,
        **details: Any,
    ) -> None:
        """Take when to try again, and a text for the client where it says more than the class does."""
        super().__init__(message or detail, **details)
        self.retry_after_s = retry_after_s
        self.detail = detail or self.public_message


class Unauthenticated(HttpError):
    """No valid credentials came with the request."""

    code = "UNAUTHENTICATED"
    status = 401
    public_message = "Valid credentials are needed."


class Forbidden(HttpError):
    """The caller's scopes do not allow this."""

    code = "FORBIDDEN"
    status = 403
    public_message = "Your credentials do not allow this."


class NotFound(HttpError):
    """There is nothing here."""

    code = "NOT_FOUND"
    status = 404
    public_message = "There is nothing here."


class MethodNotAllowed(HttpError):
    """This resource does not take this method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405
    public_message = "This resource does not take this method."


class RequestMalformed(HttpError):
    """The request's body cannot be read as what it says it is."""

    code = "REQUEST_MALFORMED"
    status = 400
    public_message = "The request's body cannot be read."


class RequestInvalid(HttpError):
    """A parameter or the body does not match what this resource takes."""

    code = "REQUEST_INVALID"
    status = 422
    public_message = "A part of the request is not valid."


class RequestTooLarge(HttpError):
    """The request's body is larger than the limit."""

    code = "REQUEST_TOO_LARGE"
    status = 413
    public_message = "The request's body is too large."


class RequestTooSlow(HttpError):
    """The request's body did not come in time."""

    code = "REQUEST_TOO_SLOW"
    status = 408
    public_message = "The request's body did not come in time."


class RateLimited(HttpError):
    """The caller sends more requests than allowed."""

    code = "RATE_LIMITED"
    status = 429
    retryable = True
    public_message = "Too many requests. Try again later."


class OutputNotStored(HttpError):
    """This job has no output, yet or any more."""

    code = "OUTPUT_NOT_STORED"
    status = 404
    public_message = "This job has no output, yet or any more."


class NothingMore(HttpError):
    """The reader of a stream has had everything."""

    code = "NOTHING_MORE"
    status = 204


class QueueNotFound(HttpError):
    """No queue of this name is configured."""

    code = "QUEUE_NOT_FOUND"
    status = 404
    public_message = "There is no such queue."


class QueueNotPaused(HttpError):
    """The queue is not paused."""

    code = "QUEUE_NOT_PAUSED"
    status = 409
    public_message = "This queue is not paused."


class ChannelUnknown(HttpError):
    """No channel is configured under this name, project and instance."""

    code = "CHANNEL_UNKNOWN"
    status = 404
    public_message = "There is no such channel."


class ChannelNotSecured(HttpError):
    """The channel has no secret, and taking unsigned events was not allowed."""

    code = "CHANNEL_NOT_SECURED"
    status = 403
    public_message = "This channel has no secret configured and takes no events."


class SignatureInvalid(HttpError):
    """The event's signature or secret is missing or wrong."""

    code = "SIGNATURE_INVALID"
    status = 401
    public_message = "The signature or secret of this event is missing or wrong."


class ProviderEventIdMissing(HttpError):
    """The event has no usable provider event id, so a repeat could not be recognised."""

    code = "EVENT_ID_MISSING"
    status = 400
    public_message = "This event has no usable id."


class EventRefused(HttpError):
    """The application makes no job of this event."""

    code = "EVENT_REFUSED"
    status = 422
    public_message = "This event cannot be made into a job."
