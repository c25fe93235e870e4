"""Result, artifacts, usage, state and event are one transaction, at most once (promise 4, PC-1 to PC-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from engine import JobContext
from engine.lifecycle.lease import Lease
from outbox.base.tables import METADATA
from projectors import ArtifactRef
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.faults import refusing
from tests.support.mapped import essay_on
from tests.support.migrated import engine_for
from tests.support.proxy import TcpProxy
from tests.support.world import World

_ROW = sa.Table(
    "business_row",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job", sa.String(32)),
    sa.Column("slug", sa.String(40), unique=True),
)


@pytest.fixture
def rows(world: World) -> Iterator[Callable[[], list[str]]]:
    """A business table of a host, and its slugs."""
    _ROW.create(world.engine)
    yield lambda: sorted(
        world.app.uow.read(lambda conn: conn.execute(sa.select(_ROW.c.slug)).scalars().all())
    )
    _ROW.drop(world.engine)


class Projector:
    """Writes one row for each word of the output; fails as often as it is told to."""

    key = "words"

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.runs = 0

    def project(self, session: Session, job: Any, output: Answer) -> list[ArtifactRef]:
        self.runs += 1
        refs = []
        for number, word in enumerate(output.value):
            session.execute(sa.insert(_ROW).values(job=job.id.hex, slug=word))
            refs.append(ArtifactRef("word", word, number))
        if self.failures:
            raise self.failures.pop(0)
        return refs


def register(world: World, projector: Projector, **policies: Any) -> list[int]:
    calls: list[int] = []
    world.app.add_projector(projector)

    @world.app.job("words", input=Ask, output=Answer, projector="words", **({"backoff_ms": 1} | policies))
    async def words(ctx: JobContext[Ask]) -> Answer:
        calls.append(ctx.attempt_no)
        return Answer(value=ctx.input.value)

    return calls


def run(world: World, words: list[str], **wanted: Any) -> Any:
    job = world.create(job_type="words", payload={"value": words}, **wanted)
    world.dispatch()
    world.work()
    return world.job(job.id)


def test_rows_artifacts_output_state_and_event_commit_together(world: World, rows: Callable[[], list[str]]) -> None:
    """Promise 4."""
    register(world, Projector())

    job = run(world, ["one", "two"])

    assert job.lifecycle_status == "succeeded"
    assert rows() == ["one", "two"]
    assert world.artifacts(job.id) == [ArtifactRef("word", "one"), ArtifactRef("word", "two", 1)]
    assert [(e.event_type, e.status) for e in world.endings(job.id)] == [("ai.job.completed", "published")]


@pytest.mark.parametrize("metadata", [METADATA, sa.MetaData()], ids=["ours", "its own"])
def test_a_host_adds_objects_of_its_own_mapped_classes(world: World, metadata: sa.MetaData) -> None:
    """No table of ours is mapped; whoever maps theirs gets a whole Session."""
    with essay_on(metadata) as essay:
        table = essay.__table__
        table.create(world.engine)

        @world.app.projector("essays")
        def save(session: Session, job: Any, output: Answer) -> list[ArtifactRef]:
            session.add(row := essay(title=output.value))
            session.flush()
            return [ArtifactRef("essay", str(row.id))]

        @world.app.job("essay", input=Ask, output=Answer, projector="essays")
        async def write(ctx: JobContext[Ask]) -> Answer:
            return Answer(value=ctx.input.value)

        job = world.create(job_type="essay", payload={"value": "On frogs"})
        world.dispatch()
        world.work()

        with Session(world.engine) as session:
            [stored] = session.scalars(sa.select(essay))
            assert world.artifacts(job.id) == [ArtifactRef("essay", str(stored.id))]
            assert stored.title == "On frogs"
        table.drop(world.engine)


def test_a_projector_that_raises_leaves_nothing_and_is_tried_again(
    world: World, rows: Callable[[], list[str]]
) -> None:
    """S1 6: rolled back, then the retry flow; its first rows are gone."""
    projector = Projector(ValueError("my secret diary"))
    calls = register(world, projector)

    job = run(world, ["one"])

    assert (job.lifecycle_status, calls, projector.runs) == ("succeeded", [1, 2], 2)
    assert rows() == ["one"]
    [first, _] = world.claims(job.id)
    assert first.error_code == "PROJECTION_FAILED"


def test_a_projector_that_always_raises_ends_the_job_with_nothing_stored(
    world: World, rows: Callable[[], list[str]]
) -> None:
    register(world, Projector(*[ValueError("my secret diary")] * 9), max_retries=1)

    job = run(world, ["one"])

    assert (job.lifecycle_status, job.error_code, job.attempt_count) == ("failed", "PROJECTION_FAILED", 2)
    assert rows() == []
    assert world.artifacts(job.id) == []
    assert world.output(job.id) is None
    assert "diary" not in str(job.internal_error_message)


def test_a_duplicate_business_row_is_a_conflict_and_poisons_nothing(
    world: World, rows: Callable[[], list[str]]
) -> None:
    """PC-2, X78. On PostgreSQL the transaction is dead after it; all of it is rolled back everywhere."""
    register(world, Projector(), max_retries=0)
    first = run(world, ["same"])

    second = run(world, ["other", "same"])

    assert first.lifecycle_status == "succeeded"
    assert (second.lifecycle_status, second.error_code) == ("failed", "PROJECTION_CONFLICT")
    assert rows() == ["same"]
    assert world.artifacts(second.id) == []


def test_jobs_with_equal_outputs_have_their_own_artifacts(world: World) -> None:
    """PC-4. An equal hash, of another user or the same, never skips a projection."""

    @world.app.projector("one_each")
    def project(session: Any, job: Any, output: Any) -> list[ArtifactRef]:
        return [ArtifactRef("answer", job.id.hex)]

    world.app.job("equal", input=Ask, output=Answer, projector="one_each")(lambda ctx: Answer(value="yes"))

    made = [world.create(job_type="equal", payload={}, user_id=user) for user in ("a", "b", "a")]
    world.settle()

    assert len({world.job(job.id).output_hash for job in made}) == 1
    assert [world.artifacts(job.id) for job in made] == [[ArtifactRef("answer", job.id.hex)] for job in made]


@pytest.mark.parametrize("write", ["INTO ai_job_output", "INTO outbox_event", "UPDATE ai_job_claim"])
def test_a_final_transaction_that_fails_anywhere_leaves_nothing_and_comes_again(
    world: World, rows: Callable[[], list[str]], write: str
) -> None:
    """Promise 4, CI-8. Whatever statement the database refuses."""
    projector = Projector()
    register(world, projector)
    job = world.create(job_type="words", payload={"value": ["one"]})
    world.dispatch()
    with refusing(world.engine, write) as refused:
        world.work()

    assert refused
    assert world.job(job.id).lifecycle_status == "succeeded"
    assert rows() == ["one"]
    assert len(world.endings(job.id)) == 1
    assert len(world.rows("ai_job_output")) == 1


def test_a_worker_that_was_taken_over_projects_nothing(world: World, rows: Callable[[], list[str]]) -> None:
    """Promise 3, WL-1. The fence is in the final transaction: business rows are refused with it."""
    register(world, Projector())
    lease = world.claimed(job_type="words", payload={"value": ["one"]})

    @world.app.projector("thief")
    def unused(session: Any, job: Any, output: Any) -> list[ArtifactRef]:
        return []

    world.advance(61)
    world.upkeep()
    late = Late(world, lease)

    assert late.commit() == "fenced"
    assert rows() == []
    assert world.rows("ai_job_output") == []
    world.dispatch()
    world.work()
    assert rows() == ["one"]
    assert late.commit() == "fenced"
    assert len(world.endings(lease.job_id)) == 1


def test_a_result_without_a_projector_commits_in_a_batch_and_a_bad_neighbour_costs_nobody(world: World) -> None:
    """Design 14. On any trouble in a shared transaction each job is run alone."""
    together = asyncio.Barrier(12)

    @world.app.job("batched", input=Ask, output=Answer)
    async def batched(ctx: JobContext[Ask]) -> Answer:
        await together.wait()
        return Answer(value=ctx.input.value)

    made = [world.create(job_type="batched", payload={"value": n}) for n in range(12)]
    world.dispatch()
    with refusing(world.engine, "INTO ai_job_output") as refused:
        world.work(concurrency=12)

    assert refused
    assert world.count("finish.batch_split")
    assert {world.job(job.id).attempt_count for job in made} == {1}
    assert [world.job(job.id).lifecycle_status for job in made] == ["succeeded"] * 12
    assert [world.output(job.id) for job in made] == [{"value": n} for n in range(12)]


def test_a_batch_with_a_lost_job_commits_the_others(world: World) -> None:
    """Design 14, WL-1. One claim of the batch was taken over meanwhile."""
    leases = [world.claimed() for _ in range(4)]
    world.run(lambda conn: world.app.lifecycle.release(conn, leases[1], look_after_ms=1))
    world.run(lambda conn: world.app.lifecycle.request_cancel(conn, leases[2].job_id))

    endings = Late(world, *leases).commit_many()

    assert [str(ending) for ending in endings] == ["succeeded", "fenced", "cancelled", "succeeded"]
    assert [world.job(x.job_id).lifecycle_status for x in leases] == ["succeeded", "running", "cancelled", "succeeded"]
    assert len(world.rows("ai_job_output")) == 2


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.databases("mariadb", "postgresql")
def test_a_final_commit_without_an_answer_is_found_and_not_repeated(
    request: pytest.FixtureRequest, world: World, rows: Callable[[], list[str]], database_kind: str,
    tables_url: str, tcp_proxy: Callable[[str, int], TcpProxy], projected: bool,
) -> None:  # fmt: skip
    """CI-9, PC-2, promise 4. The second run finds that this claim has ended the job already."""
    server = request.getfixturevalue({"mariadb": "mariadb_server", "postgresql": "postgres_server"}[database_kind])
    proxy = tcp_proxy(server.host, server.port)
    with World(proxy.url(tables_url)) as far:
        projector = Projector()
        if projected:
            register(far, projector)
        lease = far.claimed(**({"job_type": "words", "payload": {"value": ["one"]}} if projected else {}))
        fault = proxy.drop_answers_once(b"COMMIT")

        ending = Late(far, lease, job_type="words" if projected else "synthetic").commit()

        fault.wait()
        assert ending == "succeeded"
    assert world.job(lease.job_id).lifecycle_status == "succeeded"
    assert rows() == (["one"] if projected else [])
    assert len(world.endings(lease.job_id)) == 1
    assert len(world.rows("ai_job_output")) == 1
    assert projector.runs == (1 if projected else 0)


@pytest.mark.databases("mariadb", "postgresql")
def test_a_batch_whose_connection_was_gone_is_not_taken_apart(
    world: World, database_kind: str, tables_url: str
) -> None:
    """DB-10. Its first word to the server may be its COMMIT, so a quiet night looks like a lost answer."""
    whoami, end = {
        "mariadb": ("SELECT CONNECTION_ID()", "KILL {}"),
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
    }[database_kind]
    leases = [world.claimed() for _ in range(3)]
    late = Late(world, *leases)
    victim = world.app.uow.read(lambda conn: conn.exec_driver_sql(whoami).scalar_one())
    with engine_for(tables_url) as other, other.connect() as killer:
        killer.exec_driver_sql(end.format(victim))

    assert [str(ending) for ending in late.commit_many()] == ["succeeded"] * 3

    assert not world.count("finish.batch_split")
    assert len(world.rows("ai_job_output")) == 3


@pytest.mark.databases("mariadb", "postgresql")
def test_a_batch_whose_commit_got_no_answer_is_found_stored(
    request: pytest.FixtureRequest, world: World, database_kind: str, tables_url: str,
    tcp_proxy: Callable[[str, int], TcpProxy],
) -> None:  # fmt: skip
    """CI-9, promise 4."""
    server = request.getfixturevalue({"mariadb": "mariadb_server", "postgresql": "postgres_server"}[database_kind])
    proxy = tcp_proxy(server.host, server.port)
    with World(proxy.url(tables_url)) as far:
        leases = [far.claimed() for _ in range(3)]
        late = Late(far, *leases)
        fault = proxy.drop_answers_once(b"COMMIT")

        endings = late.commit_many()

        fault.wait()
    assert [str(ending) for ending in endings] == ["succeeded"] * 3
    assert [len(world.endings(lease.job_id)) for lease in leases] == [1, 1, 1]
    assert len(world.rows("ai_job_output")) == 3


class Late:
    """The last stage of a worker that holds leases it may have lost."""

    def __init__(self, world: World, *leases: Lease, job_type: str | None = None) -> None:
        from engine.lifecycle.lease import Claim
        from engine.lifecycle.outputs import Output
        from engine.pipeline.project import Projection
        from engine.pipeline.work import Produced, Work
        from outbox.base.canonical import canonical_bytes, sha256
        from registry.job import StartReason

        app = world.app
        app.start()
        self.projection = Projection(
            uow=app.uow, lifecycle=app.lifecycle, outputs=app.outputs, endings=app.endings,
            projectors=app.projectors, clock=app.clock, telemetry=app.telemetry,
        )  # fmt: skip
        self.produced = []
        for lease in leases:
            job = world.job(lease.job_id)
            definition = app.registry.get(job_type or job.job_type)
            work = Work(
                job=job, claim=Claim(lease, 1, StartReason.FIRST), delivery=None, definition=definition,
                queue=app.registry.queue(job.queue_name), snapshot=None,
            )  # fmt: skip
            value = Answer(value=["one"])
            content = canonical_bytes({"value": ["one"]})
            self.produced.append(Produced(work, value, Output(content, sha256(content), "1", "1", 90)))

    def commit(self) -> str:
        return str(self.projection.commit(self.produced[0]))

    def commit_many(self) -> list[Any]:
        return self.projection.commit_many(self.produced)
