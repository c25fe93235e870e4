"""The archives as a user gets them, and an environment with the wheel and its core dependencies alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.environment import Environment, make_environment
from tests.support.processes import ROOT
from tests.support.programs import clean_environment


def build(source: Path, target: Path, *kinds: str) -> None:
    """Build archives of `kinds` ("--wheel", "--sdist") with the installed hatchling: no network."""
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(target)]
    done = subprocess.run(
        [*command, str(source)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel made from it, as `python -m build` does it."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="session")
def wheel(archives: Path) -> Path:
    """The wheel."""
    (found,) = archives.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment after `pip install aijobs`: the wheel and its core dependencies, no extras."""
    return make_environment(tmp_path_factory.mktemp("installed"), wheel)
