"""Commits that a handler makes itself: once in the life of its job, fenced, with their rows or not at all (PC-5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine import CommitReceipt, JobContext
from engine.errors import (
    CommitConflict,
    CommitInvalid,
    CommitTransactionEnded,
    CommitVersionMoved,
    HandlerError,
    ProviderError,
)
from engine.lifecycle.lease import Claim, Lease
from engine.pipeline.commits import MAX_RESULT, Commits
from engine.pipeline.work import Aborted, Work
from outbox.base.canonical import canonical_bytes, sha256
from registry.job import StartReason
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.faults import refusing
from tests.support.proxy import TcpProxy
from tests.support.world import World

_ROW = sa.Table("published", sa.MetaData(), sa.Column("word", sa.String(40), primary_key=True))


@pytest.fixture
def rows(world: World) -> Iterator[Callable[[], list[str]]]:
    """A business table of a host, and its words."""
    _ROW.create(world.engine)
    yield lambda: sorted(world.app.uow.read(lambda conn: conn.execute(sa.select(_ROW.c.word)).scalars().all()))
    _ROW.drop(world.engine)


class Hand:
    """An attempt under a lease that it may have lost."""

    def __init__(self, world: World, lease: Lease, threads: ThreadPoolExecutor) -> None:
        app = world.app
        app.start()
        job = world.job(lease.job_id)
        self.work = Work(
            job=job, claim=Claim(lease, job.attempt_count, StartReason.FIRST), delivery=None,
            definition=app.registry.get(job.job_type), queue=app.registry.queue(job.queue_name), snapshot=None,
        )  # fmt: skip
        self.commits = Commits(
            work=self.work, uow=app.uow, lifecycle=app.lifecycle, receipts=app.receipts, threads=threads,
            telemetry=app.telemetry,
        )  # fmt: skip

    def commit(self, operation: str = "publish-1", word: str = "one", **options: Any) -> CommitReceipt:
        return asyncio.run(self.publish(operation, word, **options))

    async def publish(
        self, operation: str, word: str, *, change: Callable[[Session], Any] | None = None, **options: Any
    ) -> CommitReceipt:
        return await self.commits.commit(
            operation, change or (lambda session: write(session, word)), payload={"word": word}, **options
        )


Take = Callable[..., Hand]


@pytest.fixture
def take(world: World) -> Iterator[Take]:
    """Function (lease=None, world=...) -> a hand on that lease, or on a new job's."""
    with ThreadPoolExecutor(4) as threads:
        yield lambda lease=None, of=world: Hand(of, lease or of.claimed(), threads)


def write(session: Session, word: str) -> str:
    session.execute(sa.insert(_ROW).values(word=word))
    return word


def receipts(world: World) -> list[str]:
    return sorted(row["operation"] for row in world.rows("commit_receipt"))


# -- once ----------------------------------------------------------------------------------------


def test_an_operation_again_gives_the_first_receipt_and_another_content_is_refused(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    """PC-5. X, X again, Y: X stays."""
    hand = take()

    first = hand.commit(word="X")
    again = hand.commit(word="X")
    with pytest.raises(CommitConflict):
        hand.commit(word="Y")

    assert first == CommitReceipt("publish-1", 1, sha256(canonical_bytes({"word": "X"})), 1, 1, "X")
    assert again == replace(first, replayed=True)
    assert rows() == ["X"]
    assert hand.commit(word="X") == again


def test_a_receipt_holds_no_payload(world: World, rows: Callable[[], list[str]], take: Take) -> None:
    """Promise 7 begins with what is kept: a hash is enough to know a repetition."""
    hand = take()

    hand.commit(word="my-secret-diary", change=lambda session: None)

    [row] = world.rows("commit_receipt")
    assert row["payload_hash"] == sha256(canonical_bytes({"word": "my-secret-diary"}))
    assert "diary" not in str(row)


def test_operations_of_two_jobs_never_meet(world: World, rows: Callable[[], list[str]], take: Take) -> None:
    first, second = take(), take()

    assert [first.commit(word="one").replayed, second.commit(word="two").replayed] == [False, False]
    assert rows() == ["one", "two"]


def test_two_at_once_make_one_change(world: World, rows: Callable[[], list[str]], take: Take) -> None:
    hand = take()

    async def both() -> list[CommitReceipt]:
        return await asyncio.gather(*(hand.publish("publish-1", "one") for _ in range(4)))

    made = asyncio.run(both())

    assert sorted(receipt.replayed for receipt in made) == [False, True, True, True]
    assert {receipt.version for receipt in made} == {1}
    assert rows() == ["one"]


def test_a_new_operation_is_refused_when_the_job_is_not_where_it_was_expected(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    hand = take()
    assert hand.commit("a", "one", expected_version=0).version == 1

    with pytest.raises(CommitVersionMoved) as refused:
        hand.commit("b", "two", expected_version=0)

    assert refused.value.details == {"operation": "b", "version": 1}
    assert rows() == ["one"]
    assert hand.commit("a", "one", expected_version=0).replayed
    assert hand.commit("b", "two", expected_version=1).version == 2


# -- the fence -----------------------------------------------------------------------------------


def test_a_takeover_replays_and_the_worker_before_commits_nothing(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    """Promise 3, WL-1."""
    late = take()
    first = late.commit()
    world.advance(61)
    world.upkeep()
    late_before_the_claim = aborted(lambda: late.commit("publish-2", "two"))

    present = take(world.claim(late.work.job.id))

    assert present.commit() == replace(first, replayed=True)
    assert (first.epoch, first.attempt_no) == (1, 1)
    assert late_before_the_claim == "fenced"
    assert aborted(lambda: late.commit("publish-2", "two")) == "fenced"
    assert aborted(lambda: late.commit()) == "fenced"
    assert late.work.switch.reason is None, "the next attempt may share it"
    assert rows() == ["one"]
    assert present.commit("publish-2", "two").epoch == present.work.lease.epoch


def test_a_job_that_has_ended_commits_nothing(world: World, rows: Callable[[], list[str]], take: Take) -> None:
    hand = take()
    world.run(lambda conn: world.app.lifecycle.mark_succeeded(conn, [hand.work.lease]))

    assert aborted(hand.commit) == "fenced"
    assert (rows(), receipts(world)) == ([], [])


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_cancel_that_was_asked_stops_the_attempt_before_it_commits(
    world: World, rows: Callable[[], list[str]], kind: str
) -> None:
    """WL-8. The column decides, whether or not a hint has come."""
    went_on: list[bool] = []

    async def cancelled(ctx: JobContext[Ask]) -> Answer:
        world.run(lambda conn: world.app.lifecycle.request_cancel(conn, ctx.job.id))
        await ctx.commit("publish", lambda session: write(session, "one"), payload=None)
        went_on.append(True)
        return Answer()

    def cancelled_plainly(ctx: JobContext[Ask]) -> Answer:
        world.run(lambda conn: world.app.lifecycle.request_cancel(conn, ctx.job.id))
        ctx.commit_sync("publish", lambda session: write(session, "one"), payload=None)
        went_on.append(True)
        return Answer()

    handler: Any = cancelled if kind == "async" else cancelled_plainly
    world.app.job("cancelled", input=Ask, output=Answer)(handler)

    job = world.create(job_type="cancelled", payload={})
    world.dispatch()
    world.work()

    assert world.job(job.id).lifecycle_status == "cancelled"
    assert (rows(), receipts(world), went_on) == ([], [], [])


def aborted(act: Callable[[], object]) -> str:
    with pytest.raises(Aborted) as stopped:
        act()
    return stopped.value.reason.value


# -- together or not at all ------------------------------------------------------------------------


def test_a_change_that_raises_leaves_nothing_and_may_come_again(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    hand = take()

    def change(session: Session) -> None:
        write(session, "one")
        raise KeyError("no")

    with pytest.raises(KeyError):
        hand.commit(change=change)
    assert (rows(), receipts(world)) == ([], [])
    with pytest.raises(sa.exc.IntegrityError):
        hand.commit(change=lambda session: [write(session, "one"), write(session, "one")])
    assert (rows(), receipts(world)) == ([], [])

    assert not hand.commit().replayed


def test_a_receipt_that_the_database_refuses_takes_the_rows_with_it(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    hand = take()

    with refusing(world.engine, "INTO commit_receipt") as refused, pytest.raises(sa.exc.DBAPIError):
        hand.commit()

    assert refused
    assert (rows(), receipts(world)) == ([], [])
    assert not hand.commit().replayed


@pytest.mark.databases("mariadb", "postgresql")
def test_a_commit_without_an_answer_is_found_and_not_repeated(
    request: pytest.FixtureRequest, world: World, rows: Callable[[], list[str]], take: Take, database_kind: str,
    tables_url: str, tcp_proxy: Callable[[str, int], TcpProxy],
) -> None:  # fmt: skip
    """CI-9. And it is the caller's own, no repetition."""
    server = request.getfixturevalue({"mariadb": "mariadb_server", "postgresql": "postgres_server"}[database_kind])
    proxy = tcp_proxy(server.host, server.port)
    with World(proxy.url(tables_url)) as far:
        hand = take(of=far)
        runs: list[int] = []
        fault = proxy.drop_answers_once(b"COMMIT")

        receipt = hand.commit(change=lambda session: runs.append(1) or write(session, "one"))

        fault.wait()
    assert (receipt.version, receipt.result, receipt.replayed) == (1, "one", False)
    assert (rows(), receipts(world), runs) == (["one"], ["publish-1"], [1])


@pytest.mark.parametrize(
    "end",
    [
        lambda session: session.execute(sa.text("COMMIT")),
        lambda session: session.connection().commit(),
        lambda session: session.rollback(),
        lambda session: session.execute(sa.text("ROLLBACK")),
    ],
    ids=["COMMIT", "commit", "rollback", "ROLLBACK"],
)
def test_a_change_may_not_end_the_transaction(
    world: World, rows: Callable[[], list[str]], take: Take, end: Callable[[Session], Any]
) -> None:
    hand = take()

    def change(session: Session) -> None:
        write(session, "one")
        end(session)

    with pytest.raises(CommitTransactionEnded, match="operation 'publish-1'"):
        hand.commit(change=change)

    assert (rows(), receipts(world)) == ([], [])
    assert not hand.commit().replayed


def test_a_sessions_commit_in_a_change_waits_for_the_receipt(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    """As in a projector: business code that commits its session commits nothing by that."""
    hand = take()

    def change(session: Session) -> None:
        write(session, "one")
        session.commit()
        raise KeyError("no")

    with pytest.raises(KeyError):
        hand.commit(change=change)

    assert (rows(), receipts(world)) == ([], [])


def test_a_change_may_create_jobs_and_they_come_with_the_receipt(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    """Promise 1. Each of its runs but the last leaves no job behind."""
    hand = take()

    def change(session: Session) -> str:
        return str(world.create(session=session).id)

    with refusing(world.engine, "INTO ai_job_snapshot"), pytest.raises(sa.exc.DBAPIError):
        hand.commit(change=change)
    assert len(world.rows("ai_job")) == 1

    first, again = hand.commit(change=change), hand.commit(change=change)

    assert first.result == again.result
    assert sorted(str(row["id"]) for row in world.rows("ai_job")) == sorted([str(hand.work.job.id), first.result])
    assert len(world.rows("outbox_event")) == 2


def test_a_change_that_outlasts_its_attempt_is_the_next_ones_receipt(
    world: World, rows: Callable[[], list[str]]
) -> None:
    """The abort leaves the thread behind; the next attempt's claim waits for the row that it holds."""
    aborted = threading.Event()
    seen: list[tuple[int, bool]] = []

    def slow(session: Session) -> None:
        write(session, "one")
        assert aborted.wait(20)

    @world.app.job("outlasts", input=Ask, output=Answer, timeout_ms=1_000, abort_strategy="retry", backoff_ms=1)
    async def outlasts(ctx: JobContext[Ask]) -> Answer:
        try:
            receipt = await ctx.commit("publish", slow, payload=None)
        except asyncio.CancelledError:
            aborted.set()
            raise
        seen.append((ctx.attempt_no, receipt.replayed))
        return Answer()

    job = world.create(job_type="outlasts", payload={})
    world.dispatch()
    world.work()

    assert world.job(job.id).lifecycle_status == "succeeded"
    assert seen == [(2, True)]
    assert rows() == ["one"]


@pytest.mark.parametrize("error", [StopIteration, SystemExit, asyncio.CancelledError])
def test_what_no_future_may_carry_is_a_handlers_error(world: World, take: Take, error: type[BaseException]) -> None:
    def change(_session: Session) -> None:
        raise error

    with pytest.raises(HandlerError, match=error.__name__):
        take().commit(change=change)

    assert receipts(world) == []


def test_a_result_that_cannot_be_kept_takes_the_rows_with_it(
    world: World, rows: Callable[[], list[str]], take: Take
) -> None:
    hand = take()

    async def later(_session: Session) -> None: ...

    for number, result in enumerate([object(), float("nan"), "x" * MAX_RESULT, later]):

        def change(session: Session, result: Any = result, word: str = f"word-{number}") -> Any:
            write(session, word)
            return result(session) if result is later else result

        with pytest.raises(CommitInvalid, match="operation 'publish-1'"):
            hand.commit(change=change)

    assert (rows(), receipts(world)) == ([], [])
    assert hand.commit(change=lambda session: (1, Answer(value=2).value)).result == [1, 2]


# -- judged before anything is written ----------------------------------------------------------------


class Untouched:
    """Stands for everything that a refused call must not come to."""

    def check(self) -> None: ...

    @property
    def switch(self) -> Untouched:
        return self


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        *(({"operation": name}, "1 to 64") for name in ("", "x" * 65, "a b", "ä", "-a", "a\n", None, 3)),
        ({"payload": float("nan")}, "payload of operation 'a'"),
        ({"payload": "\x00"}, "payload of operation 'a'"),
        ({"payload": object()}, "payload of operation 'a'"),
        *(({"expected_version": value}, "expected_version") for value in (-1, True, "1")),
        ({"change": "no function"}, "plain function"),
        ({"change": asyncio.sleep}, "plain function"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_written(wrong: dict[str, Any], names: str) -> None:
    nothing: Any = Untouched()
    commits = Commits(
        work=nothing, uow=nothing, lifecycle=nothing, receipts=nothing, threads=nothing, telemetry=nothing
    )
    call: dict[str, Any] = {"operation": "a", "change": lambda session: None, "payload": None} | wrong

    with pytest.raises(CommitInvalid, match=names):
        asyncio.run(commits.commit(**call))


# -- in a worker ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_retry_gets_the_receipts_of_the_attempt_before(
    world: World, rows: Callable[[], list[str]], kind: str
) -> None:
    seen: list[tuple[int, bool, Any]] = []

    def note(ctx: JobContext[Ask], receipt: CommitReceipt) -> Answer:
        seen.append((ctx.attempt_no, receipt.replayed, receipt.result))
        if ctx.attempt_no == 1:
            raise ProviderError("500")
        return Answer(value=receipt.version)

    async def committing(ctx: JobContext[Ask]) -> Answer:
        return note(ctx, await ctx.commit("publish", lambda session: write(session, "one"), payload=ctx.input))

    def plain(ctx: JobContext[Ask]) -> Answer:
        return note(ctx, ctx.commit_sync("publish", lambda session: write(session, "one"), payload=ctx.input))

    world.app.job("commits", input=Ask, output=Answer, backoff_ms=1)(committing if kind == "async" else plain)
    job = world.create(job_type="commits", payload={"value": 1})
    world.dispatch()
    world.work()

    assert world.job(job.id).lifecycle_status == "succeeded"
    assert seen == [(1, False, "one"), (2, True, "one")]
    assert rows() == ["one"]


def test_a_refused_commit_ends_the_job_at_once(world: World, rows: Callable[[], list[str]]) -> None:
    """The same handler with the same input would be refused again."""

    @world.app.job("conflicts", input=Ask, output=Answer, backoff_ms=1)
    async def conflicts(ctx: JobContext[Ask]) -> Answer:
        for word in ("one", "two"):
            await ctx.commit("publish", lambda session, word=word: write(session, word), payload=word)
        return Answer()

    job = world.create(job_type="conflicts", payload={})
    world.dispatch()
    world.work()

    ended = world.job(job.id)
    assert (ended.lifecycle_status, ended.error_code, ended.attempt_count) == ("failed", "COMMIT_CONFLICT", 1)
    assert rows() == ["one"]
