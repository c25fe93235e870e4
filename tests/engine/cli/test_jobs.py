"""Jobs from the command line: created through the outbox, looked into, waited for, ended, repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from engine import JobContext
from engine.app import AiJobApp
from engine.config import Settings
from engine.lifecycle.audit import AuditRepository
from outbox.base.tables import METADATA
from registry.job import LifecycleStatus, StartReason, WaitKind
from tests.engine.cli.conftest import Run
from tests.engine.pipeline.samples import Answer, Ask
from tests.support.world import World

HELLO = ("--input", '{"value": "hello"}')


@pytest.fixture
def here(database: str) -> Iterator[World]:
    """The same database as a `World`, to let things happen in it."""
    with World(database, "memory://") as world:
        yield world


def create(aijobs: Run, *options: object) -> str:
    done = aijobs("jobs", "create", "synthetic", *(options or HELLO))
    assert done.code == 0, done.err
    return done.out.strip()


def rows(url: str) -> int:
    app = AiJobApp(settings=Settings(database_url=url))
    try:
        with app.database.connect() as conn:
            tables = ("ai_job", "ai_job_snapshot", "outbox_event")
            return sum(
                conn.execute(sa.select(sa.func.count()).select_from(METADATA.tables[name])).scalar_one()
                for name in tables
            )
    finally:
        app.close()


# -- create --------------------------------------------------------------------------------------


def test_a_created_job_is_printed_by_its_id_and_written_with_its_event(
    aijobs: Run, database: str, here: World
) -> None:
    done = aijobs("jobs", "create", "synthetic", *HELLO)

    [job] = here.open_jobs()
    assert done.out == f"{job.id}\n"
    assert str(job.id) in done.err
    assert len(here.deliveries(job.id)) == 1


def test_json_answers_have_the_names_of_the_http_api(aijobs: Run, database: str) -> None:
    done = aijobs("jobs", "create", "synthetic", *HELLO, "--user", "u1", "--target", "doc:9", "--json")

    assert done.json["created"] is True
    job = done.json["job"]
    assert {"jobId", "jobType", "lifecycleStatus", "queueName", "priority", "progress", "createdAt"} <= set(job)
    assert (job["userId"], job["targetType"], job["targetId"]) == ("u1", "doc", "9")
    assert job["createdAt"].endswith("Z")
    assert "startedAt" not in job


def test_the_input_comes_from_a_file_or_from_standard_input(aijobs: Run, database: str, folder: Path) -> None:
    (folder / "in.json").write_text('{"value": 1}')

    assert aijobs("jobs", "create", "synthetic", "--input", "@in.json").code == 0
    assert aijobs("jobs", "create", "synthetic", "--input", "-", stdin=b'{"value": 2}').code == 0


def test_the_same_key_finds_the_first_job(aijobs: Run, database: str) -> None:
    first = create(aijobs, *HELLO, "--key", "k1")

    again = aijobs("jobs", "create", "synthetic", *HELLO, "--key", "k1", "--json")

    assert again.json["created"] is False
    assert again.json["job"]["jobId"] == first


def test_the_same_key_with_another_input_is_refused_with_its_own_exit_code(aijobs: Run, database: str) -> None:
    create(aijobs, *HELLO, "--key", "k1")

    done = aijobs("jobs", "create", "synthetic", "--input", '{"value": 2}', "--key", "k1", "--json")

    assert (done.code, done.error["code"]) == (4, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["nosuch", *HELLO], 3, "types list"),
        (["synthetic"], 2, "--input is missing"),
        (["synthetic", "--input", "{bad"], 2, "line 1, column 2"),
        (["synthetic", "--input", "[1]"], 2, "an array"),
        (["synthetic", "--input", '{"sleep_ms": -1}'], 2, "payload.sleep_ms"),
        (["synthetic", "--input", '{"valeu": 1}'], 2, "payload.valeu"),
        (["synthetic", "--input", "@nowhere.json"], 2, "No such file"),
        (["synthetic", *HELLO, "--priority", "101"], 2, "priority"),
        (["synthetic", *HELLO, "--priority", "high"], 2, "--priority"),
        (["synthetic", *HELLO, "--user", ""], 2, "user_id"),
        (["synthetic", *HELLO, "--key", "k" * 256], 2, "256 characters"),
        (["synthetic", *HELLO, "--key", " "], 2, "must not be empty"),
        (["synthetic", *HELLO, "--target", "doc"], 2, "TYPE:ID"),
        (["synthetic", *HELLO, "--at", "2026-05-01T09:00:00"], 2, "no time zone"),
        (["synthetic", *HELLO, "--at", "-1h", "--in", "5m"], 2, "do not go together"),
        (["synthetic", *HELLO, "--in", "soon"], 2, "not a duration"),
        (["synthetic", *HELLO, "--credential-mode", "user_deepseek_key"], 2, "credential_mode"),
        (["synthetic", "--input", '{"value": "' + "x" * 1_100_000 + '"}'], 2, "PAYLOAD_LIMIT_BYTES"),
        (["synthetic", *HELLO, "--batch", "x.jsonl"], 2, "do not go together"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_one_line_and_writes_nothing(
    aijobs: Run, database: str, options: list[str], code: int, says: str
) -> None:
    done = aijobs("jobs", "create", *options)

    assert (done.code, done.out) == (code, "")
    [line] = done.err.splitlines()
    assert says in line
    assert rows(database) == 0


def test_a_delayed_job_waits_for_its_time(aijobs: Run, database: str) -> None:
    job_id = create(aijobs, *HELLO, "--in", "5m")

    why = aijobs("jobs", "explain", job_id, "--json").json

    assert why["code"] == "DELAYED"
    assert why["at"].endswith("Z")


def test_a_file_of_inputs_makes_a_job_for_each_line(aijobs: Run, database: str, folder: Path) -> None:
    (folder / "in.jsonl").write_text("".join(f'{{"value": {n}}}\n' for n in range(250)))

    done = aijobs("jobs", "create", "synthetic", "--batch", "in.jsonl")

    assert len(set(done.out.split())) == 250
    assert aijobs("jobs", "list", "--count").out == "250\n"


def test_one_wrong_line_of_a_file_creates_no_job(aijobs: Run, database: str, folder: Path) -> None:
    good = [f'{{"value": {n}}}' for n in range(150)]
    (folder / "in.jsonl").write_text("\n".join([*good, '{"sleep_ms": "long"}', "{}"]))

    done = aijobs("jobs", "create", "synthetic", "--batch", "in.jsonl")

    assert done.code == 2
    assert "in.jsonl:151" in done.err
    assert rows(database) == 0


# -- list, show, explain -------------------------------------------------------------------------


def test_the_list_is_tab_separated_in_a_pipe_with_whole_ids(aijobs: Run, database: str) -> None:
    job_id = create(aijobs)

    lines = [line.split("\t") for line in aijobs("jobs", "list").out.splitlines()]

    assert lines[0][:3] == ["STATUS", "ID", "TYPE"]
    assert lines[1][:4] == ["queued", job_id, "synthetic", "cli:manual"]


def test_the_list_tells_what_a_running_job_waits_for_that_nobody_holds(
    aijobs: Run, database: str, here: World
) -> None:
    held, back, parked = (here.claim(here.create().id) for _ in range(3))
    here.run(lambda conn: here.app.lifecycle.release(conn, back, look_after_ms=60_000))
    here.run(
        lambda conn: here.app.lifecycle.park(
            conn, parked, WaitKind.RETRY, delay_ms=60_000, reason=StartReason.RETRY, look_after_ms=60_000
        )
    )

    rows = [line.split("\t") for line in aijobs("jobs", "list").out.splitlines()[1:]]

    assert {row[1]: (row[0], row[-1]) for row in rows} == {
        str(held.job_id): ("running", ""),
        str(back.job_id): ("running", "a worker"),
        str(parked.job_id): ("running", "retry"),
    }


def test_a_refused_retry_says_each_thing_once(aijobs: Run, database: str) -> None:
    done = aijobs("jobs", "retry", create(aijobs))

    assert done.code == 4
    assert done.err.count("retried") == 1


def test_the_list_is_filtered_by_every_option(aijobs: Run, database: str, here: World) -> None:
    wanted = create(aijobs, *HELLO, "--user", "u1", "--target", "doc:1")
    create(aijobs, *HELLO, "--user", "u2", "--target", "doc:2")
    ended = here.create()
    here.app.jobs.request_cancel(ended.id)

    def ids(*options: str) -> set[str]:
        return {job["jobId"] for job in aijobs("jobs", "list", "--json", *options).json["jobs"]}

    assert ids("--user", "u1") == {wanted}
    assert ids("--target", "doc:1") == {wanted}
    assert ids("--status", "cancelled") == {str(ended.id)}
    assert ids("--status", "cancelled", "--status", "queued") == ids()
    assert ids("--type", "synthetic") == ids()
    assert ids("--type", "quiz-generation") == set()
    assert ids("--queue", "ai-interactive") == set()
    assert ids("--error", "TIMEOUT") == set()
    assert ids("--since", "-1h") == ids()
    assert ids("--until", "-1h") == set()


def test_pages_follow_each_other_without_gap_or_repetition(aijobs: Run, database: str, here: World) -> None:
    made = [str(here.create().id) for _ in range(7)]
    seen: list[str] = []
    options: list[str] = []
    while True:
        page = [job["jobId"] for job in aijobs("jobs", "list", "--json", "--limit", "3", *options).json["jobs"]]
        seen += page
        if len(page) < 3:
            break
        options = ["--before", page[-1]]

    assert seen == sorted(made, reverse=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("jobs", "list", "--status", "suceeded"), "did you mean 'succeeded'?"),
        (("jobs", "list", "--type", "quizz_generation"), "did you mean 'quiz_generation'?"),
        (("jobs", "list", "--queue", "ai-backgroud"), "did you mean 'ai-background'?"),
        (("jobs", "create", "sinthetic", "--input", "{}"), "did you mean 'synthetic'?"),
        (("types", "show", "flashcards_generation"), "did you mean 'flashcard_generation'?"),
        (("outbox", "list", "--status", "dread"), "did you mean 'dead'?"),
        (("outbox", "list", "--queue", "@event"), "did you mean '@events'?"),
        (("queues", "pause", "ai-interaktive", "--reason", "x"), "did you mean 'ai-interactive'?"),
    ],
)
def test_a_slip_in_a_name_is_answered_with_the_right_one(
    aijobs: Run, database: str, words: tuple[str, ...], says: str
) -> None:
    assert says in aijobs(*words).err.splitlines()[0]


@pytest.mark.parametrize("options", [["--status", "done"], ["--since", "2026-05-01"], ["--target", "x"]])
def test_a_wrong_filter_is_told(aijobs: Run, database: str, options: list[str]) -> None:
    assert aijobs("jobs", "list", *options).code == 2


def test_show_tells_everything_and_content_only_when_asked(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs, "--input", '{"value": "SECRET"}')
    here.settle()

    plain, full = aijobs("jobs", "show", job_id), aijobs("jobs", "show", job_id, "--input", "--output", "--json")

    assert "SECRET" not in plain.out + plain.err
    for word in ("SUCCEEDED", "attempts", "timeline", "published", "claimed"):
        assert word in plain.out
    assert full.json["input"]["value"] == "SECRET"
    assert full.json["output"] == {"value": "SECRET"}
    assert full.json["why"]["code"] == "SUCCEEDED"
    assert [m["what"] for m in full.json["timeline"]] == ["created", "published", "claimed", "succeeded"]


def test_show_lists_what_the_handler_committed_and_nothing_of_its_content(
    aijobs: Run, database: str, here: World
) -> None:

    @here.app.job("book", input=Ask, output=Answer)
    async def book(ctx: JobContext[Ask]) -> Answer:
        for chapter in (1, 2):
            await ctx.commit(f"publish-{chapter}", lambda session: "SECRET", payload={"text": "SECRET"})
        return Answer()

    job_id = here.create(job_type="book", payload={}).id
    here.settle()

    plain, full = aijobs("jobs", "show", job_id), aijobs("jobs", "show", job_id, "--json")

    made = full.json["commits"]
    assert [(c["operation"], c["version"], c["attemptNo"]) for c in made] == [("publish-1", 1, 1), ("publish-2", 2, 1)]
    assert all(set(c) == {"operation", "version", "attemptNo", "committedAt"} for c in made)
    assert made[0]["committedAt"] >= full.json["job"]["startedAt"]
    headed = plain.out.splitlines()
    first = headed.index("commits") + 1
    assert headed[first].split("\t") == ["OPERATION", "VERSION", "ATTEMPT", "COMMITTED"]
    assert [line.split("\t")[:3] for line in headed[first + 1 : first + 3]] == [
        ["publish-1", "1", "1"], ["publish-2", "2", "1"],
    ]  # fmt: skip
    assert "SECRET" not in plain.out + full.out


def test_explain_says_why_and_what_to_do(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)
    here.change("outbox_event", {"status": "pending"}, available_at=here.job(here.open_jobs()[0].id).created_at)
    here.dispatch()

    done = aijobs("jobs", "explain", job_id)

    # With the default settings Redis is inside another process and cannot be asked from here.
    assert done.out.splitlines()[0] == f"synthetic {job_id}: queued"
    assert "DELIVERED" in done.out


@pytest.mark.parametrize("verb", ["show", "explain", "wait", "follow", "cancel", "retry"])
def test_a_job_that_does_not_exist_is_not_found(aijobs: Run, database: str, verb: str) -> None:
    done = aijobs("jobs", verb, "00000000-0000-0000-0000-000000000001", "--json")

    assert (done.code, done.error["code"]) == (3, "JOB_NOT_FOUND")


# -- wait ----------------------------------------------------------------------------------------


def test_waiting_prints_the_output_of_a_job_that_succeeded(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)
    here.settle()

    done = aijobs("jobs", "wait", job_id)

    assert done.code == 0
    assert json.loads(done.out) == {"value": "hello"}


def test_waiting_for_a_job_that_failed_has_its_own_exit_code(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs, "--input", '{"fail_times": 9, "error": "content_safety"}')
    here.settle()

    done = aijobs("jobs", "wait", job_id)

    assert (done.code, done.out) == (5, "")
    assert "CONTENT_SAFETY_SYNTHETIC" in done.err


def test_waiting_ends_when_the_time_is_up_and_the_job_goes_on(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)

    done = aijobs("jobs", "wait", job_id, "--timeout", "10ms")

    assert done.code == 6
    assert here.open_jobs()[0].lifecycle_status is LifecycleStatus.QUEUED


def test_the_first_of_several_ends_the_wait_when_asked(aijobs: Run, database: str, here: World) -> None:
    ended = create(aijobs)
    here.settle()
    waiting = create(aijobs)

    assert aijobs("jobs", "wait", waiting, ended, "--any").code == 0
    assert aijobs("jobs", "wait", waiting, ended, "--timeout", "10ms").code == 6


def test_waiting_in_a_pipe_says_once_why_nothing_moves_and_nothing_else(
    aijobs: Run, database: str, here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.progress.STILL_S", 0.2)
    job_ids = [create(aijobs), create(aijobs)]
    for job_id in job_ids:
        event = here.deliveries(UUID(job_id))[0]
        here.change("outbox_event", {"id": event.id}, available_at=event.available_at - timedelta(minutes=1))

    done = aijobs("jobs", "wait", *job_ids, "--timeout", "1s")

    told, over = done.err.splitlines()
    assert "no dispatcher is running" in told
    assert "(and 1 more)" in told
    assert over.startswith("time is up; 2 of 2 jobs go on")


def test_waiting_for_a_job_that_runs_says_nothing_in_a_pipe(
    aijobs: Run, database: str, here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.progress.STILL_S", 0.0)
    job_id = create(aijobs)
    here.claim(UUID(job_id))

    done = aijobs("jobs", "wait", job_id, "--timeout", "200ms")

    [over] = done.err.splitlines()
    assert over.startswith("time is up")


# -- follow ---------------------------------------------------------------------------------------


def test_following_prints_each_change_once_until_the_end(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)
    here.settle()

    done = aijobs("jobs", "follow", job_id)

    assert (done.code, done.err) == (0, "")
    [line] = done.out.splitlines()
    assert line.startswith("+")
    assert line.endswith(" succeeded")


def test_followed_changes_are_a_json_document_a_line(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)
    lease = here.claim(UUID(job_id))
    here.run(lambda conn: here.app.lifecycle.report_progress(conn, lease, 40, "reading"))

    done = aijobs("jobs", "follow", job_id, "--json", "--timeout", "50ms")

    assert done.code == 6
    [told] = [json.loads(line) for line in done.out.splitlines()]
    assert (told["jobId"], told["lifecycleStatus"]) == (job_id, "running")
    assert (told["progress"], told["progressNote"]) == (40, "reading")


def test_following_a_job_that_failed_has_its_own_exit_code(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs, "--input", '{"fail_times": 9, "error": "content_safety"}')
    here.settle()

    done = aijobs("jobs", "follow", job_id)

    assert done.code == 5
    assert done.out.rstrip().endswith("failed CONTENT_SAFETY_SYNTHETIC")


# -- cancel and retry ----------------------------------------------------------------------------


def test_a_queued_job_is_cancelled_and_again_is_refused(aijobs: Run, database: str) -> None:
    job_id = create(aijobs)

    first, again = aijobs("jobs", "cancel", job_id), aijobs("jobs", "cancel", job_id, "--json")

    assert (first.code, "cancelled" in first.out) == (0, True)
    assert (again.code, again.error["code"]) == (4, "JOB_ALREADY_CANCELLED")


def test_acts_stand_in_the_audit_with_who_did_them_and_so_do_refusals(
    aijobs: Run, database: str, here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    job_id = create(aijobs)
    for verb in ("cancel", "cancel", "retry"):
        aijobs("jobs", verb, job_id)

    audit = AuditRepository(here.app.clock)
    rows = list(reversed(here.app.uow.read(lambda conn: audit.page(conn, object_type="job"))))
    assert [(row.verb, row.result, row.object_id) for row in rows] == [
        ("job.cancel", "done", job_id),
        ("job.cancel", "JOB_ALREADY_CANCELLED", job_id),
        ("job.retry", "done", job_id),
    ]
    assert {(row.actor, row.edge) for row in rows} == {("ada", "cli")}
    assert rows[0].detail == {"lifecycleStatus": "cancelled"}
    assert rows[2].detail == {"newJobId": str(here.open_jobs()[0].id)}


def test_a_running_job_is_asked_to_stop(aijobs: Run, database: str, here: World) -> None:
    lease = here.claimed()

    done = aijobs("jobs", "cancel", lease.job_id)

    assert "asked to stop" in done.out
    assert here.job(lease.job_id).cancel_requested_at is not None


def test_a_cancelled_job_is_repeated_as_a_new_one(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)
    aijobs("jobs", "cancel", job_id)

    done = aijobs("jobs", "retry", job_id, "--json")

    [row] = done.json["jobs"]
    assert (row["jobId"], row["done"]) == (job_id, True)
    again = here.open_jobs()[0]
    assert (str(again.id), str(again.retry_of_job_id)) == (row["result"], job_id)


def test_a_job_that_succeeded_is_not_repeated(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)
    here.settle()

    done = aijobs("jobs", "retry", job_id, "--json")

    assert (done.code, done.error["code"]) == (4, "JOB_NOT_RETRYABLE")


def test_all_that_match_are_taken_only_after_a_yes(aijobs: Run, database: str, here: World) -> None:
    for _ in range(3):
        create(aijobs)

    asked = aijobs("jobs", "cancel", "--type", "synthetic")
    assert asked.code == 2
    assert "--yes" in asked.err
    assert len(here.open_jobs()) == 3

    done = aijobs("jobs", "cancel", "--type", "synthetic", "--yes")
    assert done.code == 0
    assert "3 jobs, 3 done, 0 skipped" in done.err
    assert here.open_jobs() == []


def test_a_dry_run_shows_what_it_would_be_and_does_nothing(aijobs: Run, database: str, here: World) -> None:
    job_id = create(aijobs)

    done = aijobs("jobs", "cancel", "--status", "queued", "--dry-run")

    assert done.code == 0
    assert job_id in done.out
    assert len(here.open_jobs()) == 1


def test_several_ids_are_each_tried_and_one_in_the_way_is_told(aijobs: Run, database: str) -> None:
    first, second = create(aijobs), create(aijobs)
    aijobs("jobs", "cancel", first)

    done = aijobs("jobs", "cancel", first, second)

    assert done.code == 4
    assert "JOB_ALREADY_CANCELLED" in done.out
    assert "2 jobs, 1 done, 1 skipped" in done.err


@pytest.mark.parametrize("options", [[], ["01a2296a6f9d75c181e936abf5ce691c", "--status", "failed"]])
def test_jobs_are_named_or_chosen_never_both_and_never_neither(
    aijobs: Run, database: str, options: list[str]
) -> None:
    assert aijobs("jobs", "retry", *options).code == 2


# -- the database is not there -------------------------------------------------------------------


def test_missing_tables_are_told_in_one_sentence_wherever_they_are_missed(aijobs: Run, folder: Path) -> None:
    (folder / "empty.db").touch()
    create = ("jobs", "create", "synthetic", "--input", "{}")
    words = [("jobs", "list"), ("outbox", "stats"), ("db", "check"), ("run",), create]
    places = ["sqlite:///empty.db", "sqlite:///nowhere.db"]

    told = [aijobs(*command, "--database-url", url, "--json").error for command in words for url in places]

    beginning = "the database does not have the tables of this release: "
    assert {error["code"] for error in told} == {"SCHEMA_BEHIND"}
    assert all(error["message"].startswith(beginning) for error in told)
    assert {error["fix"] for error in told} == {"run `aijobs db upgrade`"}


def test_without_a_database_file_none_is_made_by_looking(aijobs: Run, folder: Path) -> None:
    done = aijobs("jobs", "list")

    assert done.code == 7
    assert "aijobs db upgrade" in done.err
    assert list(folder.iterdir()) == []


def test_an_empty_database_is_told_by_the_upgrade_it_needs(aijobs: Run, folder: Path) -> None:
    (folder / "empty.db").touch()

    done = aijobs("jobs", "list", "--database-url", "sqlite:///empty.db", "--json")

    assert (done.code, done.error["code"]) == (7, "SCHEMA_BEHIND")
    assert "aijobs db upgrade" in done.error["fix"]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("nonsense", 2),
        ("oracle://x/y", 2),
        ("sqlite://", 2),
        ("postgresql://nobody@127.0.0.1:1/x", 8),
        ("mysql://nobody@127.0.0.1:1/x", 8),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line_with_the_setting(aijobs: Run, url: str, code: int) -> None:
    done = aijobs("jobs", "list", "--database-url", url)

    assert (done.code, done.out) == (code, "")
    [line] = done.err.splitlines()
    assert "AIJOBS_DATABASE_URL" in line


def test_a_file_that_is_no_database_is_told(aijobs: Run, folder: Path) -> None:
    (folder / "notes.db").write_text("these are my notes, and they are longer than a header\n" * 9)

    done = aijobs("jobs", "list", "--database-url", "sqlite:///notes.db")

    assert done.code == 2
    assert "not a database" in done.err


def test_jobs_are_read_and_created_with_redis_out_of_reach(aijobs: Run, database: str) -> None:
    redis = ("--redis-url", "redis://127.0.0.1:1/0")

    job_id = aijobs("jobs", "create", "synthetic", *HELLO, *redis).out.strip()

    assert aijobs("jobs", "list", *redis).code == 0
    assert aijobs("jobs", "explain", job_id, "--json", *redis).json["code"] == "REDIS_DOWN"
    assert aijobs("jobs", "cancel", job_id, *redis).code == 0
