"""Finding one's way: help is fast, complete, and every mistake in a name is answered with the right one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from engine.cli.tree import COMMANDS, load
from tests.engine.cli.conftest import Run
from tests.support.processes import ROOT
from tests.support.programs import clean_environment


def commands() -> list[tuple[str, ...]]:
    """Every command there is, as its words."""
    found: list[tuple[str, ...]] = []
    for name, entry in COMMANDS.items():
        command: Any = load(name, entry)
        verbs = getattr(command, "commands", None)
        found += [(name, verb) for verb in verbs] if verbs else [(name,)]
    return found


#: Libraries that only some commands use, and parts of ours that run jobs.
HEAVY = (
    "alembic", "cryptography", "fakeredis", "fastapi", "httpx", "httpx2", "jinja2", "lupa", "mako", "openai",
    "opentelemetry", "prometheus_client", "psycopg", "pymysql", "redis", "rich", "rq", "starlette", "uvicorn",
    "engine.http", "engine.migrations.scope", "engine.pipeline", "engine.upkeep.upkeep", "engine.worker",
    "engine.providers.offline", "engine.providers.openai_compatible",
)  # fmt: skip


def loaded(*words: str, names: Sequence[str], env: Mapping[str, str] | None = None, folder: Path = ROOT) -> list[str]:
    """Those of the modules ``names`` that a command has loaded in a process of its own."""
    code = f"""
import sys
from engine.cli.main import main
assert main({list(words)!r}) == 0
print(*({set(names)!r} & set(sys.modules)), sep=",", file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=60, check=True,
        env=clean_environment() | {"PYTHONPATH": str(ROOT)} | dict(env or {}),
    )  # fmt: skip
    return sorted(filter(None, done.stderr.splitlines()[-1].split(",")))


def test_help_loads_neither_database_nor_redis_nor_model_libraries() -> None:
    assert loaded("--help", names=[*HEAVY, "sqlalchemy", "pydantic", "engine.app"]) == []


@pytest.mark.parametrize(
    "words", [("jobs", "list"), ("jobs", "list", "--json"), ("outbox", "stats"), ("types", "list")], ids=" ".join
)
def test_a_command_that_reads_loads_nothing_that_runs_jobs(database: str, words: tuple[str, ...]) -> None:
    assert loaded(*words, names=HEAVY, env={"AIJOBS_DATABASE_URL": database}) == []


def test_a_daemon_that_answers_probes_loads_nothing_that_it_will_not_use(database: str, redis_url: str) -> None:
    """It would keep it for its life: Alembic alone is as much memory as a hundred jobs."""
    idle = (
        "alembic", "engine.providers.offline", "fakeredis", "fastapi", "jinja2", "lupa", "mako", "openai", "psycopg",
        "pygments", "rich", "rq", "sqlalchemy.dialects.postgresql", "sqlalchemy.orm",
    )  # fmt: skip
    words = ("worker", "ai-background", "--burst")

    env = {"AIJOBS_DATABASE_URL": database, "AIJOBS_REDIS_URL": redis_url}
    assert loaded(*words, "--probe-port", "0", names=idle, env=env) == []
    assert loaded(*words, names=["engine.observe.probe", "http.server"], env=env) == []


def test_an_upgrade_loads_alembic_and_nothing_that_runs_jobs(folder: Path) -> None:
    needed = {"alembic", "mako", "engine.migrations.scope", "cryptography"}

    assert set(loaded("db", "upgrade", names=HEAVY, folder=folder)) <= needed


def test_without_a_command_the_overview_is_shown(aijobs: Run) -> None:
    done = aijobs()

    assert done.code == 0
    assert all(f"  {name} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_explains_itself_with_an_example(aijobs: Run, words: tuple[str, ...]) -> None:
    done = aijobs(*words, "--help")

    assert done.code == 0
    assert f"Usage: aijobs {' '.join(words)}" in done.out
    example = " ".join(done.out.partition("Example:")[2].split())
    assert f"aijobs {' '.join(words)}" in example


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_overview_is_a_typer_app(name: str) -> None:
    assert get_command(import_module(COMMANDS[name].module).command) is not None


def test_a_noun_without_a_verb_shows_its_verbs(aijobs: Run) -> None:
    done = aijobs("jobs")

    assert done.code == 2
    assert "explain" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("job",), "No such command 'job'. Did you mean 'jobs'?"),
        (("jobs", "lst"), "Did you mean 'list'?"),
        (("jobs", "list", "--statsu", "failed"), "--statsu"),
        (("jobs", "explain"), "ID"),
        (("jobs", "list", "--limit", "0"), "--limit"),
    ],
)
def test_a_slip_is_answered_in_one_line_with_the_way_to_help(
    aijobs: Run, words: tuple[str, ...], says: str
) -> None:
    done = aijobs(*words)

    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    assert says in line
    assert "--help" in line


@pytest.mark.parametrize("words", [("--json", "version"), ("version", "--json")])
def test_shared_options_stand_before_or_after_the_verb(aijobs: Run, words: tuple[str, ...]) -> None:
    assert aijobs(*words).json["aijobs"]


def test_an_option_before_the_verb_is_not_undone_after_it(aijobs: Run, database: str) -> None:
    done = aijobs("--database-url", "sqlite:///elsewhere.db", "jobs", "list")

    assert "elsewhere.db" in done.err


def test_errors_are_json_too_when_asked(aijobs: Run) -> None:
    done = aijobs("jobs", "explain", "nonsense", "--json")

    assert (done.code, done.out) == (2, "")
    assert done.error["code"] == "USAGE"
    assert "nonsense" in done.error["message"]
    assert done.error["exit"] == 2


def test_a_slip_among_the_options_is_json_too_when_asked(aijobs: Run) -> None:
    assert aijobs("jobs", "list", "--statsu", "failed", "--json").error["code"] == "USAGE"


def test_the_version_is_that_of_the_package(aijobs: Run) -> None:
    done = aijobs("--version")

    assert done.out == f"aijobs {aijobs('version', '--json').json['aijobs']}\n"


def test_a_command_whose_library_is_not_installed_says_which_extra_it_needs(
    aijobs: Run, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "engine.http.server", raising=False)

    done = aijobs("serve")

    assert done.code == 2
    assert "needs uvicorn" in done.err
    assert "pip install" in done.err
