"""The house stands as drawn: floors, no rings, and one place for each thing that must have one."""

from __future__ import annotations

import pytest

from tests.architecture import rules
from tests.architecture.floors import floor_faults, ring
from tests.architecture.source import PACKAGES, ROOT, modules_below, parse, project


def faults_of(rule: rules.Rule, name: str, text: str) -> list[str]:
    path = name.replace(".", "/") + ("/__init__.py" if rule is rules.folder_map else ".py")
    return list(rule(parse(name, text, path)))


# -- the project ---------------------------------------------------------------------


def test_imports_go_downwards_only() -> None:
    assert [fault for module in project() for fault in floor_faults(module)] == []


def test_no_modules_import_each_other_in_a_ring() -> None:
    assert ring(project()) == []


@pytest.mark.parametrize("rule", rules.PROJECT_RULES, ids=lambda rule: rule.__name__)
def test_project_keeps_the_rule(rule: rules.Rule) -> None:
    assert [fault for module in project() for fault in rule(module)] == []


@pytest.mark.parametrize("rule", rules.TEST_RULES, ids=lambda rule: rule.__name__)
def test_tests_keep_the_rule(rule: rules.Rule) -> None:
    assert [fault for module in modules_below("tests") for fault in rule(module)] == []


def test_scripts_stand_on_top_and_keep_the_clock_rule() -> None:
    for module in modules_below("scripts"):
        assert list(floor_faults(module)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_python_is_a_package(package: str) -> None:
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}

    # Alembic loads revisions by path
    missing = [
        str(folder.relative_to(ROOT))
        for folder in folders
        if not (folder / "__init__.py").exists() and folder.name != "versions"
    ]

    assert missing == []


def test_four_packages_are_found() -> None:
    assert {module.name.partition(".")[0] for module in project()} == set(PACKAGES)


# -- the rules can fail --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("registry.definition", "import outbox.events"),
        ("registry.definition", "def late():\n    from engine.errors import EngineError"),
        ("outbox.base.db", "from outbox import events"),
        ("outbox.dispatcher", "from projectors.protocol import ResultProjector"),
        ("projectors.flashcards", "from engine.lifecycle.repository import X"),
        ("engine.lifecycle.repository", "from engine.intake import service"),
        ("engine.pipeline.prepare", "from engine.app import AiJobApp"),
        ("engine.pipeline.prepare", "from engine import AiJobApp"),
        ("engine.pipeline.prepare", "from ..app import AiJobApp"),
        ("engine.app", "from engine.http.app import create"),
        ("engine.unheard_of.thing", ""),
    ],
)
def test_upward_import_is_found(name: str, text: str) -> None:
    assert len(list(floor_faults(parse(name, text)))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("engine.cli.main", "from engine.app import AiJobApp\nimport registry"),
        ("engine.providers.base", "from engine.resources.credentials import Credential"),
        ("outbox.dispatcher", "from outbox.base import clock\nfrom registry.job import JobView"),
        ("registry.definition", "import json\nfrom pydantic import BaseModel"),
        (
            "outbox.base.loop",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import engine.app",
        ),
    ],
)
def test_downward_import_is_fine(name: str, text: str) -> None:
    assert list(floor_faults(parse(name, text))) == []


def test_ring_is_found() -> None:
    a = parse("outbox.a", "import outbox.b")
    b = parse("outbox.b", "from outbox.a import x")
    c = parse("outbox.c", "def late():\n    import outbox.c2")
    c2 = parse("outbox.c2", "import outbox.c")

    assert ring([c, c2]) == []
    assert ring([a, b, c, c2]) == ["outbox.a", "outbox.b", "outbox.a"]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (rules.wall_clock, "import time\ntime.time()"),
        (rules.wall_clock, "from time import time_ns as now\nnow()"),
        (rules.wall_clock, "from datetime import UTC, datetime\ndatetime.now(UTC)"),
        (rules.wall_clock, "import datetime as dt\ndt.datetime.now(dt.UTC)"),
        (rules.environment, "import os\nos.environ['X']"),
        (rules.environment, "from os import getenv\ngetenv('X')"),
        (rules.broker_libraries, "import redis"),
        (rules.broker_libraries, "def late():\n    from rq.job import Job"),
        (rules.broker_libraries, "import fakeredis"),
        (rules.lifecycle_statements, "from engine.lifecycle import statements"),
        (rules.lifecycle_statements, "from engine.lifecycle.statements import CLAIM"),
        (rules.status_writers, "job.lifecycle_status = 'failed'"),
        (rules.status_writers, "table.update().values(lifecycle_status='failed')"),
        (rules.status_writers, "table.update().values({'lifecycle_status': 'failed'})"),
        (rules.status_writers, "session.execute(sql, [{'lifecycle_status': 'failed'}])"),
        (rules.status_writers, "setattr(job, 'lifecycle_status', 'failed')"),
        (rules.status_writers, "text('UPDATE ai_job SET x = 1')"),
        (rules.length, "x = 1\n" * (rules.MAX_LINES + 1)),
        (rules.folder_map, "x = 1"),
        (rules.mocks, "from unittest.mock import patch"),
        (rules.mocks, "import unittest.mock"),
        (rules.sleeps, "from time import sleep\nsleep(1)"),
        (rules.clocks, "monkeypatch.setattr('outbox.subscribers.time.monotonic', f)"),
        (rules.clocks, "monkeypatch.setattr(time, 'monotonic', f)"),
    ],
)
def test_broken_rule_is_found(rule: rules.Rule, text: str) -> None:
    assert len(faults_of(rule, "engine.pipeline.sample", text)) == 1


def test_foreign_table_is_found() -> None:
    text = "from engine.lifecycle.models import AI_JOB"

    assert len(faults_of(rules.table_owners, "engine.upkeep.reaper", text)) == 1
    assert faults_of(rules.table_owners, "engine.lifecycle.views", text) == []


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (rules.wall_clock, "outbox.base.clock", "import time\ntime.time()"),
        (rules.wall_clock, "outbox.base.loop", "import time\ntime.monotonic()"),
        (rules.environment, "engine.config", "import os\nos.environ['X']"),
        (rules.broker_libraries, "outbox.transports.rq.transport", "import redis, rq"),
        (rules.lifecycle_statements, "engine.lifecycle.repository", "from engine.lifecycle import statements"),
        (rules.status_writers, "engine.lifecycle.views", "JobView(lifecycle_status=row.status)"),
        (rules.status_writers, "engine.http.jobs", "show({'lifecycle_status': job.status})"),
        (rules.length, "outbox.sample", "x = 1\n" * rules.MAX_LINES),
    ],
)
def test_kept_rule_is_not_reported(rule: rules.Rule, name: str, text: str) -> None:
    assert faults_of(rule, name, text) == []
