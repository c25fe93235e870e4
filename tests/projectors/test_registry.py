"""The table of projectors refuses what could not be found or run later."""

from __future__ import annotations

from typing import Any

import pytest

from projectors import FunctionProjector, ProjectorRegistry, ResultProjector
from projectors.builtin import BUILT_IN
from projectors.errors import DuplicateProjectorError
from registry import JobDefinitionRegistry
from registry.catalog import BUILT_IN as DEFINITIONS
from registry.errors import (
    InvalidProjectorError,
    RegistryFrozenError,
    UnknownProjectorError,
)
from tests.projectors.samples import Words, a_job


def nothing(session: Any, job: Any, output: Any) -> None:
    return None


def test_a_registered_projector_is_found_by_its_key() -> None:
    projector = FunctionProjector("words", nothing)
    registry = ProjectorRegistry()

    assert registry.register(projector) is projector

    assert registry.get("words") is projector
    assert registry.keys() == {"words"}


def test_a_function_that_returns_nothing_made_no_artifacts() -> None:
    assert FunctionProjector("words", nothing).project(None, a_job(), Words(words=[])) == ()  # type: ignore[arg-type]


def test_a_second_projector_with_the_key_is_refused_and_the_first_stays() -> None:
    first = FunctionProjector("words", nothing)
    registry = ProjectorRegistry([first])

    with pytest.raises(DuplicateProjectorError) as refused:
        registry.register(FunctionProjector("words", nothing))

    assert (refused.value.code, refused.value.field) == ("PROJECTOR_DUPLICATE", "key")
    assert registry.get("words") is first


def test_an_unknown_key_is_refused_with_the_keys_that_exist() -> None:
    with pytest.raises(UnknownProjectorError, match=r"'cards' is not registered .*words"):
        ProjectorRegistry([FunctionProjector("words", nothing)]).get("cards")


@pytest.mark.parametrize("key", ["", "Words", "words-2", "1st", "w" * 65, None, 7])
def test_a_malformed_key_is_refused(key: Any) -> None:
    with pytest.raises(InvalidProjectorError) as refused:
        ProjectorRegistry([FunctionProjector(key, nothing)])

    assert refused.value.field == "key"


class KeyOnly:
    key = "words"


class Whole:
    key = "words"

    def project(self, session: Any, job: Any, output: Any) -> list[Any]:
        return []


@pytest.mark.parametrize("projector", [KeyOnly(), Whole])
def test_an_object_that_cannot_project_is_refused(projector: Any) -> None:
    with pytest.raises(InvalidProjectorError) as refused:
        ProjectorRegistry([projector])

    assert refused.value.field == "project"


def test_nothing_is_registered_after_the_start() -> None:
    registry = ProjectorRegistry()
    registry.freeze()

    with pytest.raises(RegistryFrozenError):
        registry.register(FunctionProjector("words", nothing))

    assert (registry.frozen, registry.keys()) == (True, frozenset())


def test_the_built_in_job_types_have_their_projectors() -> None:
    definitions = JobDefinitionRegistry()
    for definition in DEFINITIONS:
        definitions.register(definition)

    definitions.check_projectors(ProjectorRegistry(BUILT_IN).keys())

    assert all(isinstance(projector, ResultProjector) for projector in BUILT_IN)
