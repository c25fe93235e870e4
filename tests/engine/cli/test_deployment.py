"""Tables, settings, types, keys and rights from the command line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from engine.migrations import runner
from tests.engine.cli.conftest import Run

# -- db ------------------------------------------------------------------------------------------


def test_tables_are_made_once_and_checked(aijobs: Run, database_url: str, folder: Path) -> None:
    options = ("--database-url", database_url, "--json")

    first, again = aijobs("db", "upgrade", *options), aijobs("db", "upgrade", *options)

    assert first.json == {"applied": first.json["applied"], "revision": runner.head()}
    assert first.json["applied"][-1] == runner.head()
    assert again.json["applied"] == []
    assert aijobs("db", "check", *options).json == {"problems": []}
    assert aijobs("db", "current", *options).json == {"revision": runner.head(), "head": runner.head()}


def test_tables_that_are_missing_are_told_with_the_exit_code_of_a_check(aijobs: Run, database_url: str) -> None:
    if database_url.startswith("sqlite"):
        Path(sa.make_url(database_url).database or "").touch()

    done = aijobs("db", "check", "--database-url", database_url)

    assert done.code == 7
    assert "aijobs db upgrade" in done.err


def test_the_statements_are_printed_without_connecting(aijobs: Run, folder: Path) -> None:
    for dialect in ("sqlite", "mysql", "postgresql"):
        assert "CREATE TABLE ai_job" in aijobs("db", "sql", "--dialect", dialect).out
    assert list(folder.iterdir()) == []


def test_a_revision_that_does_not_exist_is_told(aijobs: Run, database: str) -> None:
    assert aijobs("db", "upgrade", "--revision", "nosuch").code == 2
    assert aijobs("db", "sql", "--revision", "nosuch").code == 2


def test_a_database_of_a_later_release_is_told_so(aijobs: Run, database: str) -> None:
    engine = sa.create_engine(database)
    with engine.begin() as conn:
        conn.execute(sa.text("UPDATE aijobs_alembic_version SET version_num = '9999'"))
    engine.dispose()

    done = aijobs("db", "upgrade", "--json")

    assert done.error["code"] == "MIGRATION_REVISION_UNKNOWN"


# -- settings ------------------------------------------------------------------------------------


def test_every_setting_is_shown_with_where_it_came_from(
    aijobs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_DISPATCHER__BATCH", "7")

    found = aijobs("config", "show", "--origin", "--json", "--redis-url", "redis://h:1/0").json

    assert found["AIJOBS_DISPATCHER__BATCH"] == {"value": 7, "origin": "environment or code"}
    assert found["AIJOBS_REDIS_URL"] == {"value": "redis://h:1/0", "origin": "command line"}
    assert found["AIJOBS_DATABASE_URL"]["origin"] == "default"


def test_no_secret_is_shown(aijobs: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIJOBS_DATABASE_URL", "mysql://root:hunter2@h/db")
    monkeypatch.setenv("AIJOBS_REDIS_URL", "redis://u:hunter2@h/0")
    monkeypatch.setenv("AIJOBS_OPENAI_API_KEY", "sk-hunter2")
    monkeypatch.setenv("AIJOBS_CREDENTIAL_KEYS", "hunter2")

    for options in ([], ["--json"], ["--origin"]):
        done = aijobs("config", "show", *options)
        assert "hunter2" not in done.out + done.err
        assert "@h/" in done.out


# -- types ---------------------------------------------------------------------------------------


def test_a_type_is_shown_with_its_fields(aijobs: Run) -> None:
    done = aijobs("types", "show", "quiz_generation")

    assert "max_questions" in done.out
    assert json.loads(aijobs("types", "show", "quiz_generation", "--schema", "output").out)["properties"]["questions"]


def test_a_type_is_found_by_its_legacy_name_and_an_unknown_one_is_not(aijobs: Run) -> None:
    assert aijobs("types", "show", "active-recall").code == 0
    assert aijobs("types", "show", "nosuch").code == 3


# -- users' keys ---------------------------------------------------------------------------------


@pytest.fixture
def keys(aijobs: Run, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    key = aijobs("credentials", "new-key").out.strip()
    monkeypatch.setenv("AIJOBS_CREDENTIAL_KEYS", key)
    return key


def test_a_users_key_is_stored_listed_replaced_and_forgotten_and_never_shown(aijobs: Run, keys: str) -> None:
    added = aijobs("credentials", "add", "--user", "u1", "--label", "mine", stdin=b"sk-secret\n")
    which = added.out.strip()
    replaced = aijobs("credentials", "add", "--user", "u1", "--replace", which, stdin=b"sk-other\n")
    listed = aijobs("credentials", "list", "--user", "u1", "--json")
    others = aijobs("credentials", "list", "--user", "u2", "--json")

    assert [(c["id"], c["label"]) for c in listed.json["credentials"]] == [(which, "mine")]
    assert others.json["credentials"] == []
    assert "sk-" not in added.out + replaced.out + listed.out
    assert aijobs("credentials", "delete", which, "--user", "u2", "--yes").code == 3
    assert aijobs("credentials", "delete", which, "--user", "u1", "--yes").code == 0


def test_keys_are_rotated_and_one_that_does_not_open_is_told(
    aijobs: Run, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    aijobs("credentials", "add", "--user", "u1", stdin=b"sk-secret\n")
    new = aijobs("credentials", "new-key").out.strip()

    monkeypatch.setenv("AIJOBS_CREDENTIAL_KEYS", f"{new},{keys}")
    assert aijobs("credentials", "rotate", "--json").json == {"done": 1, "unreadable": 0}
    monkeypatch.setenv("AIJOBS_CREDENTIAL_KEYS", keys)
    done = aijobs("credentials", "rotate", "--json")
    assert (done.code, done.json) == (7, {"done": 0, "unreadable": 1})


def test_without_an_encryption_key_the_way_to_one_is_told(aijobs: Run, database: str) -> None:
    done = aijobs("credentials", "add", "--user", "u1", stdin=b"sk-secret\n")

    assert done.code == 2
    assert "aijobs credentials new-key" in done.err


@pytest.mark.parametrize("secret", [b"", b"two words\n", b"caf\xc3\xa9\n"])
def test_what_cannot_be_a_key_is_refused(aijobs: Run, keys: str, secret: bytes) -> None:
    done = aijobs("credentials", "add", "--user", "u1", "--json", stdin=secret)

    assert (done.code, done.error["code"]) == (2, "CREDENTIAL_INVALID")


# -- Redis's rights ------------------------------------------------------------------------------


def test_the_acl_line_holds_the_digest_of_the_password_and_the_prefix(
    aijobs: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_REDIS_PREFIX", "mine")

    done = aijobs("redis-acl", "--user", "jobs", stdin=b"hunter2\n")

    assert done.out.startswith(f"user jobs on #{hashlib.sha256(b'hunter2').hexdigest()} ~mine:* ")
    assert "hunter2" not in done.out + done.err


def test_a_generated_password_is_told_apart_from_the_line(aijobs: Run) -> None:
    done = aijobs("redis-acl", "--generate")

    password = done.err.split()[-1]
    assert hashlib.sha256(password.encode()).hexdigest() in done.out
    assert password not in done.out


@pytest.mark.parametrize("options", [["--user", "two words"], ["--user", ""], []])
def test_an_acl_line_without_name_or_password_is_refused(aijobs: Run, options: list[str]) -> None:
    assert aijobs("redis-acl", *options).code == 2


@pytest.mark.parametrize("words", [("types", "list"), ("config", "show")])
def test_a_variable_that_no_setting_reads_is_a_warning(
    aijobs: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("AIJOBS_REDDIS_URL", "redis://nowhere")

    done = aijobs(*words)

    assert done.code == 0
    [line] = done.err.splitlines()
    assert line.startswith("warning: AIJOBS_REDDIS_URL")
    assert line.endswith("did you mean AIJOBS_REDIS_URL?")
