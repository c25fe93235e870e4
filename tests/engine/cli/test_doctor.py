"""The doctor finds what is wrong with servers, tables and application, and names the fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.engine.cli.conftest import Done, Run
from tests.support.servers import RedisServer
from tests.support.world import QUEUE, World


def checks(done: Done, level: str) -> dict[str, dict[str, Any]]:
    return {check["check"]: check for check in done.json["checks"] if check["level"] == level}


@pytest.fixture
def doctor(aijobs: Run, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> Run:
    """`aijobs doctor --json` on the given database and a Redis that is well."""

    def run(url: str, redis: str = redis_url, *options: str) -> Done:
        return aijobs("doctor", "--json", "--database-url", url, "--redis-url", redis, *options)

    return run


def test_a_sound_deployment_is_sound_on_every_database(doctor: Run, tables_url: str, redis_url: str) -> None:
    with World(tables_url, redis_url) as here:
        for queue in ("ai-interactive", QUEUE):
            here.transport.register_worker(f"w-{queue}", [queue])
        here.transport.register_dispatcher("d-1")

        done = doctor(tables_url)

    assert (done.code, done.json["ok"]) == (0, True)
    assert checks(done, "failed") == {}
    assert checks(done, "warning") == {}
    assert set(checks(done, "ok")) == {
        "application", "provider", "database", "schema", "outbox", "redis", "dispatcher", "workers",
    }  # fmt: skip


def test_every_failed_or_doubtful_finding_names_its_fix(doctor: Run, sqlite_url: str) -> None:
    Path(sa.make_url(sqlite_url).database or "").touch()

    done = doctor(sqlite_url, "redis://127.0.0.1:1/0")

    assert done.code == 7
    found = checks(done, "failed") | checks(done, "warning")
    assert {"schema", "redis"} <= set(found)
    assert all(check["fix"] for check in found.values())
    assert not any("aijobs doctor" in check["fix"] for check in found.values()), "one who asked it is sent to it"


def test_missing_tables_are_mended_by_an_upgrade(doctor: Run, database_url: str) -> None:
    if database_url.startswith("sqlite"):
        Path(sa.make_url(database_url).database or "").touch()

    done = doctor(database_url)

    assert done.code == 7
    assert checks(done, "failed")["schema"]["fix"] == "run `aijobs db upgrade`"


def test_a_changed_table_is_found(doctor: Run, tables_url: str) -> None:
    engine = sa.create_engine(tables_url)
    with engine.begin() as conn:
        conn.execute(sa.text("ALTER TABLE stream_chunk RENAME TO stream_chunk_gone"))
    try:
        done = doctor(tables_url)
    finally:
        with engine.begin() as conn:
            conn.execute(sa.text("ALTER TABLE stream_chunk_gone RENAME TO stream_chunk"))
        engine.dispose()

    assert "stream_chunk" in checks(done, "failed")["schema"]["text"]


def test_a_database_of_a_later_release_is_a_warning(doctor: Run, database: str) -> None:
    engine = sa.create_engine(database)
    with engine.begin() as conn:
        conn.execute(sa.text("UPDATE aijobs_alembic_version SET version_num = '9999'"))
    engine.dispose()

    done = doctor(database)

    assert done.code == 0
    assert "newer" in checks(done, "warning")["schema"]["text"]


def test_a_file_that_left_wal_mode_is_switched_back_by_looking(doctor: Run, database: str) -> None:
    engine = sa.create_engine(database)
    with engine.connect() as conn:
        conn.exec_driver_sql("PRAGMA journal_mode = DELETE")
    engine.dispose()

    # The rule is set on each connection
    assert doctor(database).code == 0


def test_a_redis_that_may_throw_tickets_away_is_found(doctor: Run, database: str) -> None:
    with RedisServer(options={"maxmemory": "64mb", "maxmemory-policy": "allkeys-lru"}) as server:
        done = doctor(database, server.url)

    assert done.code == 7
    assert "noeviction" in checks(done, "failed")["redis"]["text"]


def test_a_redis_inside_a_process_is_only_a_warning(doctor: Run, database: str) -> None:
    done = doctor(database, "fakeredis://aijobs")

    assert done.code == 0
    assert "AIJOBS_REDIS_URL" in checks(done, "warning")["redis"]["fix"]


def test_a_queue_without_workers_is_told_with_the_command(doctor: Run, database: str) -> None:
    done = doctor(database)

    commands = {check["fix"] for check in done.json["checks"] if check["check"] == "workers"}
    assert commands == {"start: aijobs worker ai-interactive", "start: aijobs worker ai-background"}


def test_that_no_dispatcher_runs_is_told_before_anything_waits_for_one(
    doctor: Run, database: str, redis_url: str
) -> None:
    missing = checks(doctor(database), "warning")["dispatcher"]
    assert missing["fix"] == "start: aijobs dispatcher"
    # a creator puts the first ticket itself where nothing waits (ADR 15)
    assert "new jobs of an idle queue start" in missing["text"]

    with World(database, redis_url) as here:
        here.transport.register_dispatcher("d-1")

        assert "d-1" in checks(doctor(database), "ok")["dispatcher"]["text"]


def test_a_variable_that_no_setting_reads_is_a_finding(
    doctor: Run, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_REDDIS_URL", "redis://nowhere")

    done = doctor(database)

    assert "did you mean AIJOBS_REDIS_URL?" in checks(done, "warning")["settings"]["text"]
    assert done.err == ""


def test_dead_events_and_events_that_nobody_takes_are_told(doctor: Run, database: str, redis_url: str) -> None:
    with World(database, redis_url) as here:
        job, other = here.create(), here.create()
        here.change("outbox_event", {"id": here.deliveries(job.id)[0].id}, status="dead")
        event = here.deliveries(other.id)[0]
        here.change(
            "outbox_event", {"id": event.id}, available_at=event.available_at.replace(year=event.available_at.year - 1)
        )

        found = [check for check in doctor(database).json["checks"] if check["check"] == "outbox"]

    assert "--status dead" in found[0]["fix"]
    assert "aijobs dispatcher" in found[1]["fix"]


def test_an_application_that_cannot_be_loaded_does_not_hide_the_servers(
    doctor: Run, database: str, redis_url: str
) -> None:
    done = doctor(database, redis_url, "--app", "nowhere:app")

    assert done.code == 7
    assert "nowhere" in checks(done, "failed")["application"]["text"]
    assert {"database", "redis"} <= set(checks(done, "ok"))


def test_types_that_do_not_fit_together_are_found(
    doctor: Run, database: str, folder: Path, redis_url: str
) -> None:
    (folder / "unfit_jobs.py").write_text(
        "from pydantic import BaseModel\nfrom engine import AiJobApp\n"
        "class M(BaseModel):\n    x: int = 0\n"
        "app = AiJobApp()\n"
        "@app.job('one', input=M, output=M, projector='nowhere')\ndef one(ctx): ...\n"
    )

    done = doctor(database, redis_url, "--app", "unfit_jobs:app")

    assert "nowhere" in checks(done, "failed")["application"]["text"]


def test_a_key_set_that_cannot_be_read_is_found(
    doctor: Run, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_CREDENTIAL_KEYS", "not-a-key")

    done = doctor(database)

    assert "application" in checks(done, "failed")
    assert "not-a-key" not in done.out + done.err


def test_no_password_is_shown(doctor: Run, aijobs: Run) -> None:
    done = doctor("postgresql://me:hunter2@127.0.0.1:1/x", "redis://me:hunter2@127.0.0.1:1/0")

    assert done.code == 7
    assert "hunter2" not in done.out + done.err


def test_in_a_pipe_findings_are_a_table(aijobs: Run, database: str) -> None:
    lines = [line.split("\t") for line in aijobs("doctor").out.splitlines()]

    assert lines[0] == ["RESULT", "CHECK", "FINDING", "FIX"]
    assert {len(line) for line in lines} == {4}
