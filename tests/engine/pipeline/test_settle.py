"""Endings of an attempt other than success, when the answer to their COMMIT is lost (CI-9, DB-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.lifecycle.lease import Claim, Lease
from engine.lifecycle.values import Failure
from engine.pipeline.project import Ending
from engine.pipeline.retry import Fail, Park, RetryInPlace
from engine.pipeline.settle import Settler
from engine.pipeline.work import Work
from registry.job import StartReason, WaitKind
from tests.support.proxy import TcpProxy
from tests.support.world import World

FAILURE = Failure("PROVIDER_ERROR", "p", "i", ("e",))
DECISIONS: dict[str, Any] = {
    "retry_in_place": RetryInPlace(1, FAILURE),
    "park": Park(WaitKind.RETRY, StartReason.RETRY, 60_000, FAILURE),
    "fail": Fail(FAILURE),
    "release": None,
    "cancel": None,
}


@pytest.fixture
def wire(
    request: pytest.FixtureRequest, database_kind: str, tables_url: str, tcp_proxy: Callable[[str, int], TcpProxy]
) -> Iterator[tuple[TcpProxy, World]]:
    """A world whose database can be reached through a wire that loses things."""
    server = request.getfixturevalue({"mariadb": "mariadb_server", "postgresql": "postgres_server"}[database_kind])
    proxy = tcp_proxy(server.host, server.port)
    with World(proxy.url(tables_url)) as world:
        yield proxy, world


@pytest.mark.databases("mariadb", "postgresql")
@pytest.mark.parametrize("loss", ["answer", "request"])
@pytest.mark.parametrize("name", DECISIONS)
def test_an_ending_whose_commit_is_lost_is_written_once(
    wire: tuple[TcpProxy, World], name: str, loss: str
) -> None:
    """CI-9. The job is where the decision put it, with one delivery or one end, and the worker knows it."""
    proxy, world = wire
    lease = world.claimed()
    if name == "cancel":
        world.app.jobs.request_cancel(lease.job_id)
    fault = (proxy.drop_answers_once if loss == "answer" else proxy.drop_requests_once)(b"COMMIT")

    answer = _settle(world, lease, name)

    fault.wait()
    job, row = world.job(lease.job_id), world.row(lease.job_id)
    if name == "retry_in_place":
        assert answer == Claim(Lease(lease.job_id, 2), 2, StartReason.RETRY)
        assert (row["epoch"], row["attempt_count"]) == (2, 2)
        assert [c.error_code for c in world.claims(lease.job_id)] == ["PROVIDER_ERROR", None]
    elif name in ("park", "release"):
        # "Fenced" is also right where the answer was lost: the claim is over, and nothing more is written.
        assert answer in (Ending.LEFT, Ending.FENCED)
        assert (job.lifecycle_status, job.lock_until, row["delivery_no"]) == ("running", None, 2)
        assert [e.delivery_no for e in world.deliveries(lease.job_id)] == [1, 2]
    else:
        assert answer is (Ending.FAILED if name == "fail" else Ending.CANCELLED)
        assert len(world.endings(lease.job_id)) == 1
        assert job.lifecycle_status == answer.value


def _settle(world: World, lease: Lease, name: str) -> Any:
    app = world.app
    app.start()
    settler = Settler(
        uow=app.uow, lifecycle=app.lifecycle, outbox=app.outbox, endings=app.endings, worker="worker-a",
        look_after_ms=60_000,
    )  # fmt: skip
    job = world.job(lease.job_id)
    work = Work(
        job=job, claim=Claim(lease, 1, StartReason.FIRST), delivery=None,
        definition=app.registry.get(job.job_type), queue=app.registry.queue(job.queue_name), snapshot=None,
    )  # fmt: skip
    decision = DECISIONS[name]
    act = getattr(settler, name)
    return act(work) if decision is None else act(work, decision)
