"""What docs/http_api.md shows is run as it stands there, and its tables name what is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from engine.app import AiJobApp
from engine.http.problem import STATUS
from engine.intake.commands import CreateJobInput
from tests.engine.http.conftest import TLS, MakeWorld, settings_for, token_of
from tests.engine.http.senders import sample
from tests.support.daemons import Daemons
from tests.support.fake_openai import FakeOpenAI

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "http_api.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


class Session:
    """A host's own idea of who is calling."""

    def __init__(self, user_id: str) -> None:
        self.id = user_id


async def my_session(request: Any) -> Session | None:
    name = request.headers.get("x-user")
    return Session(name) if name else None


def quiz_of(document_id: int, *, user_id: str, idempotency_key: str | None) -> CreateJobInput:
    return CreateJobInput(
        user_id=user_id, job_type="synthetic", target_type="document", target_id=str(document_id),
        payload={"value": document_id}, idempotency_key=idempotency_key,
    )  # fmt: skip


def test_hosts_routes_work_as_shown(make_world: MakeWorld, migrated_sqlite: str) -> None:
    names: dict[str, Any] = {"my_session": my_session, "quiz_of": quiz_of}

    def build(app: AiJobApp) -> Any:
        names["app"] = app
        exec(BLOCKS[0], names)
        exec(BLOCKS[1], names)
        names["host"].state.edge = names["edge"]
        return names["host"]

    world = make_world(migrated_sqlite, build=build)
    headers = {"x-user": "ada", "idempotency-key": "k"}
    with httpx2.Client(base_url=world.server.url, verify=TLS) as client:
        made = [client.post("/documents/7/quiz", headers=headers) for _ in range(2)]
        job = client.get(made[0].headers["location"], headers={"x-user": "ada"})
        nobody = client.post("/documents/7/quiz")

    assert [answer.status_code for answer in made] == [202, 202]
    assert made[1].headers["idempotency-replayed"] == "true"
    assert job.json()["jobId"] == made[1].json()["jobId"]
    assert nobody.status_code == 401
    assert names["api"].state.edge.app is names["app"]


def test_openai_client_works_as_shown(make_world: MakeWorld, migrated_sqlite: str) -> None:
    with FakeOpenAI() as provider:
        settings = settings_for(migrated_sqlite).model_copy(
            update={"openai_base_url": provider.base_url}
        )
        app = AiJobApp(settings=settings)
        world = make_world(migrated_sqlite, app=app)
        block = BLOCKS[2].replace("http://127.0.0.1:8321", world.server.url)
        with Daemons(app):
            exec(block, {"openai": openai, "token": token_of("u1")})

        assert len(provider.requests) == 1


def test_channel_works_as_shown(make_world: MakeWorld, migrated_sqlite: str) -> None:
    def prepare(app: AiJobApp) -> None:
        exec(BLOCKS[3], {"app": app, "CreateJobInput": CreateJobInput, "telegram_secret": "s3cret"})

    world = make_world(migrated_sqlite, prepare=prepare)
    answers = [
        httpx2.post(
            f"{world.server.url}/channels/telegram/acme/support-bot",
            json=body,
            headers={"X-Telegram-Bot-Api-Secret-Token": "s3cret"},
        ).json()
        for body in (sample("telegram"), sample("telegram"), {"update_id": 1})
    ]

    assert answers[1]["runId"] == answers[0]["runId"]
    assert answers[1]["code"] == "E-IDEMPOTENT-001"
    assert answers[2] == {"runs": [], "ignored": 1}


def test_page_has_no_example_that_is_not_run() -> None:
    assert len(BLOCKS) == 4


@pytest.mark.parametrize("code", sorted(STATUS))
def test_status_of_every_public_code_is_the_one_in_the_table(code: str) -> None:
    hidden = {
        "JOB_STATE", "WAIT_TIMEOUT", "IDEMPOTENCY_CLAIM_LOST", "JOB_TYPE_UNKNOWN", "QUEUE_UNKNOWN",
        "PROVIDER_RATE_LIMITED",
    }  # fmt: skip
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE, re.MULTILINE)
    told = {name: int(status) for status, text in rows for name in re.findall(r"`([A-Z_]+)`", text)}
    if code in hidden:
        assert code not in told
    else:
        assert told[code] == STATUS[code]
