"""Cut a batch into short script calls, and put the answers back in the order of the batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Part(NamedTuple):
    """Items of one queue, few enough for one call, with their places in the batch."""

    queue: str
    places: Sequence[int]
    items: Sequence[Any]


def cut(items: Sequence[T], queue_of: Callable[[T], str], size: int) -> list[Part]:
    """Return the batch by queue, in parts of at most ``size`` items; the order in a queue is kept."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        places[queue_of(item)].append(place)
    return [
        Part(queue, few, [items[place] for place in few])
        for queue, all_of_queue in places.items()
        for few in chunks(all_of_queue, size)
    ]


def in_order(parts: Iterable[Part], answers: Iterable[Sequence[Any]], count: int) -> list[Any]:
    """Return the answers, one per item, in the order of the batch."""
    ordered: list[Any] = [None] * count
    for part, results in zip(parts, answers, strict=True):
        for place, result in zip(part.places, results, strict=True):
            ordered[place] = result
    return ordered


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in runs of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
