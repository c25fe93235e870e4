"""The table of projectors: filled while the app is put together, frozen when it starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from projectors.errors import DuplicateProjectorError
from projectors.protocol import ResultProjector
from registry import limits
from registry.errors import (
    InvalidProjectorError,
    RegistryFrozenError,
    UnknownProjectorError,
)


class ProjectorRegistry:
    """Projectors by key. Registering is for one thread at start-up; look-ups are for all."""

    def __init__(self, projectors: Iterable[ResultProjector] = ()) -> None:
        self._projectors: dict[str, ResultProjector] = {}
        self._frozen = False
        for projector in projectors:
            self.register(projector)

    def register(self, projector: ResultProjector) -> ResultProjector:
        """Add a projector and return it.

        Raises ``RegistryFrozenError`` after the start, ``InvalidProjectorError`` for a malformed key or
        an object without ``project``, ``DuplicateProjectorError`` where the key is taken.
        """
        key = _checked_key(projector)
        if self._frozen:
            why = "comes too late: register every projector before the app starts"
            raise RegistryFrozenError(why, owner=_owner(key))
        if key in self._projectors:
            raise DuplicateProjectorError("is taken already", field="key", owner=_owner(key))
        self._projectors[key] = projector
        return projector

    def get(self, key: str) -> ResultProjector:
        """The projector of this key; raises ``UnknownProjectorError``."""
        try:
            return self._projectors[key]
        except KeyError:
            have = ", ".join(sorted(self._projectors)) or "none"
            raise UnknownProjectorError(
                f"{limits.shown(key)} is not registered (registered: {have})", field="projector"
            ) from None

    def keys(self) -> frozenset[str]:
        """Every registered key; what ``JobDefinitionRegistry.check_projectors`` asks for."""
        return frozenset(self._projectors)

    def freeze(self) -> None:
        """Refuse every later ``register``."""
        self._frozen = True

    @property
    def frozen(self) -> bool:
        """Whether the registry takes no more projectors."""
        return self._frozen


def _checked_key(projector: ResultProjector) -> str:
    key = getattr(projector, "key", None)
    if not (isinstance(key, str) and limits.PROJECTOR_KEY.fullmatch(key)):
        _refuse(key, "key", f"must be a lower-case snake_case name, not {limits.shown(key)}")
    if isinstance(projector, type):
        _refuse(key, "project", "belongs to a class; register an instance of it")
    if not callable(getattr(projector, "project", None)):
        _refuse(key, "project", "must be a method project(session, job, output)")
    return key


def _refuse(key: object, field: str, why: str) -> NoReturn:
    raise InvalidProjectorError(why, field=field, owner=_owner(key))


def _owner(key: object) -> str:
    return f"projector {limits.shown(key)}"
