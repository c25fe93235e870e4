"""The house: which part may import which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.architecture.source import PACKAGES, Module, imports

#: From the top of the house to its ground. A module may import from its own floor and from lower ones.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"scripts"}),
    frozenset({"engine.cli"}),
    frozenset({"engine.http", "engine.console", "engine.worker", "engine.crashkit"}),
    # the package's own file hands out names of the composition root
    frozenset({"engine", "engine.app", "engine.config", "engine.defining"}),
    frozenset({"engine.intake", "engine.pipeline", "engine.upkeep", "engine.migrations"}),
    frozenset(
        {
            "engine.providers",
            "engine.resources",
            "engine.tools",
            "engine.waits",
            "engine.streams",
            "engine.usage",
            "engine.idempotency",
            "engine.observe",
        }
    ),
    frozenset({"engine.lifecycle"}),
    frozenset({"engine.errors"}),
    frozenset({"projectors"}),
    frozenset({"outbox"}),
    frozenset({"outbox.base"}),
    frozenset({"registry"}),
)


def part_of(name: str) -> str | None:
    """The part of the house that the dotted module name belongs to; None when it has no place yet."""
    parts = name.split(".")
    for length in (2, 1):
        part = ".".join(parts[:length])
        if any(part in floor for floor in FLOORS) and not (part == "engine" and len(parts) > 1):
            return part
    return None


def height(part: str) -> int:
    """0 is the ground."""
    return next(len(FLOORS) - 1 - i for i, floor in enumerate(FLOORS) if part in floor)


def floor_faults(module: Module) -> Iterator[str]:
    """Imports that go upwards, and modules without a place."""
    part = part_of(module.name)
    if part is None:
        yield f"{module.path}: {module.name} has no floor; give it one in tests/architecture/floors.py"
        return
    for name in imports(module):
        if name.partition(".")[0] not in PACKAGES:
            continue
        other = part_of(name)
        if other is None or height(other) > height(part):
            yield f"{module.path}: {part} imports {name}, which is above it"


def ring(modules: Iterable[Module]) -> list[str]:
    """The names of modules that import each other in a ring when they are loaded; empty when there is none."""
    arrows = {module.name: set(imports(module, everywhere=False)) for module in modules}
    done: set[str] = set()
    for name in arrows:
        found = _ring_from(name, arrows, done, [])
        if found:
            return found
    return []


def _ring_from(
    name: str, arrows: dict[str, set[str]], done: set[str], path: list[str]
) -> list[str]:
    if name in path:
        return [*path[path.index(name) :], name]
    if name in done:
        return []
    for target in sorted(arrows[name] & arrows.keys() - {name}):
        found = _ring_from(target, arrows, done, [*path, name])
        if found:
            return found
    done.add(name)
    return []
