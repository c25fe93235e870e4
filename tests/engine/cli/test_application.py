"""The application behind --app: found from the folder one stands in, refused with what is wrong with its name."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.cli.conftest import Run, Start

OWN = """
from pydantic import BaseModel
from engine import AiJobApp, Settings

class Name(BaseModel):
    name: str

app = AiJobApp({arguments})

@app.job("greeting", input=Name, output=Name)
def greet(ctx):
    return ctx.input

def factory():
    return app

nothing = 7
"""

_numbers = itertools.count()
Write = Callable[..., str]


@pytest.fixture
def module(folder: Path) -> Iterator[Write]:
    """Function (text) -> the name of a module with that text, in the test's folder."""
    before = set(sys.modules)

    def write(text: str = OWN, arguments: str = "") -> str:
        name = f"their_jobs_{next(_numbers)}"
        (folder / f"{name}.py").write_text(text.replace("{arguments}", arguments))
        return name

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("their_jobs"):
            del sys.modules[name]


def types(aijobs: Run, *options: str) -> set[str]:
    done = aijobs("types", "list", "--json", *options)
    assert done.code == 0, done.err
    return {one["jobType"] for one in done.json["types"]}


def test_without_a_name_there_are_the_built_in_types(aijobs: Run) -> None:
    assert {"flashcard_generation", "quiz_generation"} <= types(aijobs)


@pytest.mark.parametrize("attribute", ["app", "factory"])
def test_an_application_is_found_from_here(aijobs: Run, module: Write, attribute: str) -> None:
    assert "greeting" in types(aijobs, "--app", f"{module()}:{attribute}")


def test_an_application_is_named_by_the_environment(
    aijobs: Run, module: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_APP", f"{module()}:app")

    assert "greeting" in types(aijobs)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (":app", "module:attribute"),
        ("nowhere:", "did you mean --app nowhere:app?"),
        ("no_such_module:app", "no module 'no_such_module'"),
        ("{m}.sub:app", "no module"),
        ("{m}:ap", "has no 'ap'; it has {m}:app"),
        ("{m}:nothing", "is of type int, not an AiJobApp; it has {m}:app"),
        ("{m}:Name", "is a class, not an AiJobApp; it has {m}:app"),
        ("{m}.py", "did you mean --app {m}:app?"),
        ("./{m}.py", "did you mean --app {m}:app?"),
        ("their/jobs.py:main", "did you mean --app their.jobs:main?"),
        ("{m}", "did you mean --app {m}:app?"),
        ("{m}s:app", "did you mean '{m}'?"),
    ],
)
def test_a_name_that_leads_to_no_application_is_explained(
    aijobs: Run, module: Write, reference: str, says: str
) -> None:
    name = module()

    done = aijobs("types", "list", "--app", reference.replace("{m}", name))

    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    assert says.replace("{m}", name) in line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import not_installed_library", "No module named 'not_installed_library'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_an_application_that_cannot_be_imported_is_told_with_the_place(
    aijobs: Run, module: Write, text: str, says: str
) -> None:
    name = module(text)

    done = aijobs("types", "list", "--app", f"{name}:app")

    assert done.code == 2
    [line] = done.err.splitlines()
    assert says in line
    assert f"importing {name} failed" in line


def test_the_traceback_of_an_application_begins_in_the_application(
    folder: Path, program: Start
) -> None:
    (folder / "broken_jobs.py").write_text("def fail():\n    return 1 / 0\n\nfail()\n")

    told = program("types", "list", "--app", "broken_jobs:app", "-v")

    assert told.wait(60) == 2
    assert "ZeroDivisionError: division by zero" in told.output
    assert f"{folder}/broken_jobs.py:2" in told.output.splitlines()[-1]
    assert "importlib" not in told.output


def test_a_wrong_definition_is_told_by_its_field(aijobs: Run, module: Write) -> None:
    name = module(OWN.replace('"greeting",', '"Greeting",'))

    done = aijobs("types", "list", "--app", f"{name}:app")

    assert done.code == 2
    assert "job_type" in done.err


def test_addresses_of_the_command_line_replace_those_of_the_application(
    aijobs: Run, module: Write, database: str
) -> None:
    name = module(arguments="settings=Settings(database_url='sqlite:///elsewhere.db')")

    assert "elsewhere.db" in aijobs("jobs", "list", "--app", f"{name}:app").err
    assert aijobs("jobs", "list", "--app", f"{name}:app", "--database-url", database).code == 0


def test_an_application_that_opened_its_database_at_import_keeps_it(aijobs: Run, module: Write, database: str) -> None:
    name = module(OWN + "\napp.database\n", arguments="settings=Settings(database_url='sqlite:///elsewhere.db')")

    done = aijobs("jobs", "list", "--app", f"{name}:app", "--database-url", database)

    assert done.code == 4
    assert "AIJOBS_DATABASE_URL" in done.err


@pytest.mark.parametrize(
    ("name", "value"),
    [("AIJOBS_DISPATCHER__BATCH", "0"), ("AIJOBS_LOG_LEVEL", "loud"), ("AIJOBS_QUEUES", "[{}]")],
)
def test_a_wrong_setting_is_told_by_the_name_of_its_variable(
    aijobs: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    done = aijobs("types", "list")

    assert done.code == 2
    assert name in done.err
