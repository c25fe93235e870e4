"""What is built is what is here, and what is installed runs with what the wheel asks for."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import PACKAGES, ROOT, imports, project
from tests.packaging.conftest import build
from tests.packaging.environment import Environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]

#: parts whose libraries are an extra's
EDGES = {
    "engine.http": "server",
    "engine.console": "server",
    "engine.observe.metrics": "server",
    "outbox.transports.conformance": "testing",
    "outbox.conformance": "testing",
    "engine.lifecycle.conformance": "testing",
}


def source_files() -> set[str]:
    """Every file of the four packages that git would keep, relative to the project."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return {line for line in listed.stdout.splitlines() if (ROOT / line).exists()}


def wheel_files(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


# -- archives ------------------------------------------------------------------------


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    assert wheel_files(wheel) == source_files()


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_typed_for_its_users(wheel: Path, package: str) -> None:
    assert f"{package}/py.typed" in wheel_files(wheel)


def test_wheel_without_the_source_archive_is_the_same(wheel: Path, tmp_path: Path) -> None:
    build(ROOT, tmp_path, "--wheel")
    (direct,) = tmp_path.glob("*.whl")

    assert wheel_files(direct) == wheel_files(wheel)


def test_source_archive_can_be_tested(archives: Path) -> None:
    (archive,) = archives.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}

    wanted = {"README.md", "LICENSE", "pyproject.toml", "scripts/test", "tests/conftest.py"}
    assert wanted <= names
    assert not any("__pycache__" in name for name in names)


def test_license_is_in_the_wheel(wheel: Path) -> None:
    text = zipfile.ZipFile(wheel).read(f"aijobs-{VERSION}.dist-info/licenses/LICENSE").decode()

    assert text.startswith("MIT License")


def test_changelog_knows_the_version() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] in ("Unreleased", VERSION)
    assert VERSION in headings or headings == ["Unreleased"]


# -- the installed wheel -------------------------------------------------------------


def test_packages_import_with_the_core_dependencies_alone(installed: Environment) -> None:
    files = "[m.__file__ for m in (registry, outbox, projectors, engine)]"
    code = f"import registry, outbox, projectors, engine; print(*{files}, sep='\\n')"
    done = installed.run("python", "-W", "error", "-c", code)

    assert done.returncode == 0, done.stderr
    places = done.stdout.splitlines()
    assert places == [str(installed.site / package / "__init__.py") for package in PACKAGES]


def test_no_module_but_those_of_an_extra_needs_more_than_the_core(installed: Environment) -> None:
    # env and versions are loaded by Alembic alone, with its context
    apart = (*EDGES, "engine.migrations.env", "engine.migrations.versions")
    names = [module.name for module in project() if not module.within(*apart)]
    code = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, repr(error))
"""

    done = installed.run("python", "-c", code, *names)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == []


def test_command_tells_its_version(installed: Environment) -> None:
    done = installed.run("aijobs", "--version")

    assert done.returncode == 0, done.stderr
    assert VERSION in done.stdout.split()


def test_command_needs_no_extra_for_its_help(installed: Environment) -> None:
    done = installed.run("aijobs", "--help")

    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout


# -- what is asked for ---------------------------------------------------------------


def declared(*extras: str) -> set[str]:
    """Names of the distributions the project asks for itself, with those of the extras."""
    texts = [*PROJECT["dependencies"]]
    for extra in extras:
        texts += PROJECT["optional-dependencies"][extra]
    return {canonicalize_name(Requirement(text).name) for text in texts}


def test_every_library_that_is_used_is_asked_for() -> None:
    """A library that only comes along with another one may go with it."""
    owners = packages_distributions()
    everything = declared("postgresql", "async", "server", "testing", "otel")
    used = {
        (name.partition(".")[0], module.path)
        for module in project()
        for name in imports(module)
        if name.partition(".")[0] in owners and name.partition(".")[0] not in PACKAGES
    }

    undeclared = {
        (library, path)
        for library, path in used
        if not {canonicalize_name(owner) for owner in owners[library]} & everything
    }

    assert undeclared == set()
