"""The OpenAPI description is true: schemathesis sends what it allows and what it forbids, and finds no fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from engine.app import AiJobApp
from engine.http.app import create_http_app
from engine.http.server import EdgeServer
from tests.engine.http.conftest import World, settings_for, token_of
from tests.engine.http.senders import configure
from tests.support.daemons import Daemons
from tests.support.databases import Databases
from tests.support.fake_openai import FakeOpenAI
from tests.support.migrated import MIGRATED, migrate
from tests.support.web import WebServer


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for all operations, with a worker and a provider, so that a chat request is answered."""
    url = f"sqlite:///{tmp_path_factory.mktemp('openapi')}/jobs.db"
    migrate(url)
    with FakeOpenAI() as provider:
        given_settings = settings_for(url, requests_per_minute=0, chat_wait_ms=20_000)
        changed = given_settings.model_copy(update={"openai_base_url": provider.base_url})
        app = AiJobApp(settings=changed)
        configure(app)
        api = create_http_app(app)
        edge = api.state.edge
        with Daemons(app), WebServer(api, lambda config: EdgeServer(config, edge)) as server:
            world = World(app, edge, server)
            for _ in range(3):
                world.create("root")
            yield world
        app.close()


@pytest.fixture(scope="module")
def api_schema(running: World) -> Any:
    loaded = schemathesis.openapi.from_url(f"{running.server.url}/openapi.json")
    # An open stream of events has no end to compare with.
    return loaded.exclude(path_regex=r"/events$", method="GET")


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_operation_does_what_its_description_says(
    api_schema: Any, mode: GenerationMode
) -> None:
    """With what it allows and with what it forbids: statuses, types, bodies, and refusals of wrong input."""
    headers = {"Authorization": f"Bearer {token_of('root', 'SUPER_ADMIN')}"}
    tried = []
    for found in api_schema.get_all_operations():
        operation = found.ok()
        tried.append(operation.label)

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=8, deadline=None, derandomize=True, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def conforms(case: schemathesis.Case) -> None:
            case.call_and_validate(headers=headers, timeout=30)

        try:
            conforms()
        except Unsatisfiable:
            # An operation without parameters takes nothing wrong.
            continue
    assert len(tried) >= 25


def test_description_names_every_route_and_asks_for_a_token_where_one_is_needed(
    running: World,
) -> None:
    described = httpx2.get(f"{running.server.url}/openapi.json").json()
    open_to_all = {"/livez", "/readyz", "/channels/{channel}/{project}/{instance}"}

    assert "/api/ai/jobs/{job_id}/events" in described["paths"]
    for path, operations in described["paths"].items():
        for operation in operations.values():
            assert ("security" in operation) is (path not in open_to_all), path


def test_description_can_be_switched_off(
    make_world: Callable[..., World], databases: Callable[[str], Databases]
) -> None:
    pool = databases("sqlite")
    url = pool.prepared(MIGRATED, migrate)
    world = make_world(url, docs=False)
    with world.client() as client:
        assert client.get("/openapi.json").status_code == 404
        assert client.get("/docs").status_code == 404
    pool.give_back(MIGRATED, url)
