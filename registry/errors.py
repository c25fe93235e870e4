"""The root of the error tree, and every way a job definition can be refused.

    AiJobsError
    ├── RegistryError ...... a definition, a queue or a look-up is wrong   (this module)
    ├── OutboxError ........ an event cannot be stored or moved on         (outbox.errors)
    ├── TransportError ..... Redis, or a ticket, is in the way             (outbox.errors)
    ├── ProjectionError .... an output cannot become business rows         (projectors.errors)
    └── EngineError ........ creating, running and ending jobs             (engine.errors)
"""

from __future__ import annotations

from typing import Any, ClassVar


class AiJobsError(Exception):
    """Something in aijobs went wrong."""

    #: Stable name for programs: it appears in rows, answers and exit messages.
    code: ClassVar[str] = "INTERNAL_UNCLASSIFIED"
    #: Whether the same act may succeed later without anybody changing anything.
    retryable: ClassVar[bool] = False
    #: What an end user may read; never a path, an address, a key or a stack.
    public_message: ClassVar[str] = "Something went wrong on our side."

    def __init__(self, message: str | None = None, **details: Any) -> None:
        """Take the text for engineers (default: the class's first sentence) and details for programs."""
        super().__init__(message or _first_line(type(self)))
        self.details: dict[str, Any] = details


def _first_line(cls: type) -> str:
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0]
