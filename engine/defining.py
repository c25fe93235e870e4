"""The type of ``@app.job(...)``: a type checker sees when a handler does not fit its models."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pydantic import BaseModel

if TYPE_CHECKING:
    from engine.pipeline.context import JobContext

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)


class HandlerDecorator(Generic[In, Out]):
    """Takes ``async def`` and plain handlers from ``JobContext[In]`` to ``Out``, and returns them unchanged."""

    def __init__(self, register: Callable[[Callable[..., Any]], None]) -> None:
        self._register = register

    @overload
    def __call__(
        self, handler: Callable[[JobContext[In]], Coroutine[Any, Any, Out]]
    ) -> Callable[[JobContext[In]], Coroutine[Any, Any, Out]]: ...

    @overload
    def __call__(self, handler: Callable[[JobContext[In]], Out]) -> Callable[[JobContext[In]], Out]: ...

    def __call__(self, handler: Any) -> Any:
        self._register(handler)
        return handler
