"""Servers that are killed in mid-request: nothing is lost, nothing is billed twice, nobody is locked out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest

from engine.app import AiJobApp
from engine.lifecycle import views
from tests.engine.http.conftest import TLS, token_of
from tests.engine.http.hosts import serve_edge, settings_of
from tests.engine.http.senders import configure, sample, signed
from tests.engine.http.test_openai import HELLO, Hold
from tests.support.daemons import Daemons
from tests.support.fake_openai import FakeOpenAI, answer
from tests.support.processes import Child, Children
from tests.support.wait import eventually

pytestmark = pytest.mark.slow


class Server:
    """A child that serves."""

    def __init__(self, child: Child) -> None:
        self.child = child
        port = child.wait_for_output("port ", 60).split()[1]
        self.url = f"http://127.0.0.1:{port}"

    def client(self, **options: Any) -> openai.OpenAI:
        given: dict[str, Any] = {"max_retries": 0, "timeout": 60} | options
        given.setdefault("http_client", openai.DefaultHttpxClient(verify=TLS))
        return openai.OpenAI(api_key=token_of("u1"), base_url=f"{self.url}/v1", **given)

    def ask(self, *, stream: bool = False) -> str:
        """The text of the answer."""
        wanted: dict[str, Any] = {
            "model": "fake-1", "messages": HELLO, "extra_headers": {"Idempotency-Key": "k"}
        }  # fmt: skip
        with self.client() as client:
            got = client.chat.completions.create(**wanted, stream=stream)
            if not stream:
                return got.choices[0].message.content  # type: ignore[no-any-return]
            return "".join(c.choices[0].delta.content or "" for c in got if c.choices)


@pytest.fixture
def provider() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def app(migrated_url: str, redis_url: str, provider: FakeOpenAI) -> Iterator[AiJobApp]:
    made = AiJobApp(settings=settings_of(migrated_url, redis_url, provider.base_url))
    configure(made)
    yield made
    made.close()


@pytest.fixture
def worker(app: AiJobApp) -> Iterator[Daemons]:
    with Daemons(app) as daemons:
        yield daemons


MakeServers = Callable[[int], list[Server]]


@pytest.fixture
def servers(
    children: Children, migrated_url: str, redis_url: str, provider: FakeOpenAI
) -> MakeServers:
    def start(count: int) -> list[Server]:
        place = (migrated_url, redis_url, provider.base_url)
        started = [children.call(serve_edge, *place) for _ in range(count)]
        return [Server(child) for child in started]

    return start


def jobs(app: AiJobApp) -> int:
    return app.uow.read(lambda conn: views.count(conn, views.JobFilter()))


def until_not_busy(ask: Callable[[], Any]) -> Any:
    """What a patient client does: come again while it is told 409."""
    got: list[Any] = []

    def asked() -> bool:
        try:
            got.append(ask())
        except openai.ConflictError:
            return False
        return True

    eventually(asked, 30, interval=0.3)
    return got[-1]


@pytest.mark.parametrize("stream", [False, True])
def test_server_killed_in_mid_request_costs_one_bill_and_no_answer(
    servers: MakeServers, worker: Daemons, app: AiJobApp, provider: FakeOpenAI, stream: bool
) -> None:
    first, second = servers(2)
    hold = Hold()
    provider.script(hold.reply, answer("Another answer."))

    def doomed() -> None:
        with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
            first.ask(stream=stream)

    asking = threading.Thread(target=doomed)
    asking.start()
    assert hold.entered.wait(30)
    first.child.kill()
    asking.join(30)
    hold.gate.set()

    assert until_not_busy(lambda: second.ask(stream=stream)) == "Hello."
    assert len(provider.requests) == 1
    assert jobs(app) == 1


def test_fifty_at_once_over_three_servers_are_one_job_and_one_bill(
    servers: MakeServers, worker: Daemons, app: AiJobApp, provider: FakeOpenAI
) -> None:
    running = servers(3)
    hold = Hold()
    provider.script(hold.reply)

    def ask(number: int) -> str:
        try:
            return running[number % 3].ask()
        except openai.ConflictError as error:
            return f"409, again in {error.response.headers['retry-after']} s"

    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(ask, number) for number in range(50)]
        assert hold.entered.wait(30)
        hold.gate.set()
        answers = Counter(future.result() for future in asked)

    assert set(answers) <= {"Hello.", "409, again in 1 s"}
    assert answers["Hello."] >= 1
    assert [server.ask() for server in running] == ["Hello."] * 3
    assert len(provider.requests) == 1
    assert jobs(app) == 1


def test_killed_servers_never_leave_an_event_without_its_job(
    servers: MakeServers, app: AiJobApp
) -> None:
    """EW-1: whenever the sender saw 2xx, the job is there; killed in between, a repeat makes it."""
    first, second = servers(2)
    seen: dict[str, str] = {}
    stop = threading.Event()

    def send(server: Server, number: int) -> None:
        body = str(sample("api")).replace("'", '"').encode()
        headers = signed("api", body, event_id=f"e-{number}")
        answer_ = httpx2.post(
            f"{server.url}/channels/api/acme/main", content=body, headers=headers, timeout=30
        )
        assert answer_.status_code == 200
        seen[f"e-{number}"] = answer_.json()["runId"]

    def flood() -> None:
        for number in range(100_000):
            if stop.is_set():
                return
            try:
                send(first, number)
            except httpx2.TransportError:
                # This one is of unknown outcome to its sender, who will repeat it.
                send(second, number)
                return

    flooding = threading.Thread(target=flood)
    flooding.start()
    eventually(lambda: len(seen) > 20)
    first.child.kill()
    flooding.join(30)
    stop.set()

    stored = app.uow.read(lambda conn: views.page(conn, views.JobFilter(), limit=500))
    assert {str(job.id) for job in stored} >= set(list(seen.values())[-400:])
    assert jobs(app) == len(seen)
