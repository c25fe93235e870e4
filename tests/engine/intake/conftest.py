from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.intake.samples import register
from tests.support.world import World
from tests.support.worlds import *  # noqa: F403 - the fixtures of this folder


@pytest.fixture
def typed(shared_world: World) -> World:
    """The module's world, with the job types of this folder."""
    if shared_world.app.registry.find("anything") is None:
        register(shared_world.app)
    return shared_world


@pytest.fixture
def make_typed(make_world: Callable[..., World]) -> Callable[..., World]:
    """Function -> a world of this test with the job types of this folder."""

    def make(*arguments: Any, **settings: Any) -> World:
        world = make_world(*arguments, **settings)
        register(world.app)
        return world

    return make
