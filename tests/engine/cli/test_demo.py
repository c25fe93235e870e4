"""The demo: the whole path on texts of one's own, with nothing but one process."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engine.cli.conftest import _PROGRAM, Run, Start
from tests.support.fake_openai import FakeOpenAI, answer, by_prompt, silent, status
from tests.support.processes import ROOT
from tests.support.programs import clean_environment
from tests.support.world import World

START_S = 60.0

ADA = """Ada Lovelace was an English mathematician. She was born in London in 1815. Charles Babbage designed the
Analytical Engine in 1837. The Analytical Engine was a mechanical computer. It used punched cards, which were invented
by Joseph Marie Jacquard in 1804."""
LI = "李白是唐代著名的诗人。他出生于公元701年。杜甫被称为“诗圣”。长江是中国最长的河流,全长约6300公里。"

CARDS = json.dumps({"cards": [{"front": "Who was Ada?", "back": "A mathematician"}]})
QUIZ = json.dumps({"questions": [{"question": "Who?", "options": ["Ada", "Bob"], "correct_index": 0}]})


@pytest.fixture
def ada(folder: Path) -> str:
    (folder / "ada.md").write_text(ADA)
    return "ada.md"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[FakeOpenAI]:
    """A chat completions server that the environment names, with right answers."""
    with FakeOpenAI() as server:
        server.default = by_prompt(lambda text: answer(CARDS if "of cards" in text else QUIZ))
        monkeypatch.setenv("AIJOBS_OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("AIJOBS_OPENAI_API_KEY", "sk-demo")
        monkeypatch.setenv("AIJOBS_MODEL", "fake-1")
        yield server


def jobs_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [job for file in document["files"] for job in file["jobs"]]


# -- texts ---------------------------------------------------------------------------------------


def test_without_a_file_a_text_that_comes_along_is_used(aijobs: Run, folder: Path) -> None:
    done = aijobs("demo", "--json")

    assert done.code == 0, done.err
    cards, quiz = jobs_of(done.json)
    assert (cards["jobType"], quiz["jobType"]) == ("flashcard_generation", "quiz_generation")
    assert len(cards["output"]["cards"]) == 10
    assert len(quiz["output"]["questions"]) == 5
    for job in (cards, quiz):
        assert [m["what"] for m in job["timeline"]] == [
            "created", "published", "claimed", "called", "answered", "succeeded",
        ]  # fmt: skip
        answered = job["timeline"][4]
        assert answered["inputTokens"] > 100
        assert answered["outputTokens"] > 10


def test_the_rows_are_kept_where_the_demo_says(aijobs: Run, ada: str, folder: Path) -> None:
    done = aijobs("demo", ada, "--json")

    assert done.json["database"] == "sqlite:///.aijobs/demo.db"
    listed = aijobs("jobs", "list", "--database-url", done.json["database"], "--json").json["jobs"]
    assert {job["jobId"] for job in listed} == {job["jobId"] for job in jobs_of(done.json)}
    with World(f"sqlite:///{folder}/.aijobs/demo.db") as here:
        assert len(here.rows("flashcard")) == len(jobs_of(done.json)[0]["output"]["cards"])
        assert len(here.rows("quiz_question")) == len(jobs_of(done.json)[1]["output"]["questions"])


def test_cards_quiz_and_timeline_are_printed_and_talk_is_apart(aijobs: Run, ada: str) -> None:
    done = aijobs("demo", ada)

    assert done.code == 0
    for text in ("Flashcards: ada.md", "Quiz: ada.md", "Timeline of job", "published", "tokens in", "1815"):
        assert text in done.out
    assert re.search(r"^    \* [A-F]\. ", done.out, re.MULTILINE), "the right answer is marked"
    assert "Flashcards: ada.md: succeeded" in done.err
    assert "\x1b" not in done.out + done.err


def test_several_texts_of_any_language_are_worked_on(aijobs: Run, ada: str, folder: Path) -> None:
    (folder / "李.txt").write_text(LI)

    done = aijobs("demo", ada, "李.txt", ada, "--cards", "3", "--questions", "2", "--json")

    assert [file["file"] for file in done.json["files"]] == ["ada.md", "李.txt"]
    assert {job["lifecycleStatus"] for job in jobs_of(done.json)} == {"succeeded"}
    assert all(len(job["output"].get("cards", [])) <= 3 for job in jobs_of(done.json))


def test_a_text_may_come_by_standard_input(aijobs: Run, folder: Path) -> None:
    done = aijobs("demo", "-", "--json", stdin=ADA.encode())

    assert done.json["files"][0]["file"] == "standard input"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"\0\1", "is binary"),
        (b"caf\xe9", "is not UTF-8"),
        (b"x" * 200_001, "has more than 200,000 characters; split it into chapters"),
        (b"x" * 2_000_000, "has more than 200,000 characters; split it into chapters"),
    ],
)
def test_one_text_that_cannot_be_used_stops_the_demo_before_anything_is_written(
    aijobs: Run, ada: str, folder: Path, content: bytes | None, says: str
) -> None:
    if content is not None:
        (folder / "wrong.md").write_bytes(content)

    done = aijobs("demo", ada, "wrong.md")

    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    assert "wrong.md" in line
    assert says in line
    assert not (folder / ".aijobs").exists()


# -- servers -------------------------------------------------------------------------------------


def test_the_demo_does_not_touch_the_servers_of_a_deployment(
    aijobs: Run, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/x")
    monkeypatch.setenv("AIJOBS_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("AIJOBS_APP", "nowhere:app")

    assert aijobs("demo", ada).code == 0


def test_a_database_that_is_asked_for_is_used(
    aijobs: Run, ada: str, tables_url: str, redis_url: str, folder: Path
) -> None:
    done = aijobs("demo", ada, "--database-url", tables_url, "--redis-url", redis_url, "--json")

    assert done.code == 0
    assert {job["lifecycleStatus"] for job in jobs_of(done.json)} == {"succeeded"}
    assert not (folder / ".aijobs").exists()


def test_a_database_that_is_asked_for_is_not_migrated_by_a_demo(aijobs: Run, ada: str, folder: Path) -> None:
    (folder / "theirs.db").touch()

    done = aijobs("demo", ada, "--database-url", "sqlite:///theirs.db")

    assert done.code == 7
    assert "aijobs db upgrade" in done.err


def test_where_the_folder_takes_no_file_a_temporary_one_is_used(aijobs: Run, ada: str, folder: Path) -> None:
    (folder / ".aijobs").write_text("a file where the folder would be")

    done = aijobs("demo", ada, "--json")

    assert done.code == 0
    assert done.json["database"] is None


# -- a model -------------------------------------------------------------------------------------


def test_a_model_answers_when_one_is_configured(aijobs: Run, ada: str, model: FakeOpenAI) -> None:
    done = aijobs("demo", ada)

    assert done.code == 0, done.err
    assert "A mathematician" in done.out
    assert "fake-1" in done.out
    assert {request.key for request in model.requests} == {"sk-demo"}
    assert "sk-demo" not in done.out + done.err


def test_a_model_that_refuses_is_told_by_its_error_and_the_exit_code(
    aijobs: Run, ada: str, model: FakeOpenAI
) -> None:
    model.default = status(401)

    done = aijobs("demo", ada)

    assert done.code == 5
    assert "CREDENTIAL_INVALID" in done.out
    assert "Timeline of job" in done.out


# -- terminals and signals -----------------------------------------------------------------------


def run_on_terminal(folder: Path, *words: str, columns: int) -> tuple[int, str, str]:
    """Exit code, standard output and what the terminal of that width showed."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    environment = clean_environment() | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    shown = b""
    # Linux answers with EIO when the other end is closed
    with suppress(OSError):
        while chunk := os.read(master, 65_536):
            shown += chunk
    os.close(master)
    out, _ = process.communicate(timeout=START_S)
    return process.returncode, out.decode(), shown.decode()


@pytest.mark.parametrize("columns", [20, 100])
def test_on_a_terminal_each_job_has_a_bar(folder: Path, ada: str, columns: int) -> None:
    code, out, shown = run_on_terminal(folder, "demo", ada, columns=columns)

    assert code == 0, shown
    assert "\x1b[2K" in shown, "lines are drawn over"
    assert "\x1b" not in out
    if columns >= 80:
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
        assert re.search(r"Flashcards: ada\.md ━+ succeeded", plain)
        assert re.search(r"Quiz: ada\.md +━+ succeeded", plain)


def test_an_interrupted_demo_ends_in_order(program: Start, ada: str, model: FakeOpenAI) -> None:
    model.default = silent()
    env = {name: os.environ[name] for name in ("AIJOBS_OPENAI_BASE_URL", "AIJOBS_OPENAI_API_KEY", "AIJOBS_MODEL")}
    demo = program("demo", ada, env=env)
    model.wait_for_requests(1, START_S)

    demo.signal(signal.SIGINT)

    assert demo.wait(START_S) == 130
    assert "Traceback" not in demo.output


def test_a_second_demo_in_the_folder_keeps_to_itself(aijobs: Run, ada: str, folder: Path) -> None:
    """Each has a Redis of its own inside: on one database they would take each other's jobs."""
    aijobs("demo", ada)
    first = os.open(folder / ".aijobs", os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)

    second = aijobs("demo", ada, "--json")
    os.close(first)
    third = aijobs("demo", ada, "--json")

    assert (second.code, second.json["database"]) == (0, None)
    assert third.json["database"] == "sqlite:///.aijobs/demo.db"
