"""A virtual environment as after `pip install aijobs`, made without the network.

The core dependencies are links to what is installed already; everything else that the test environment has (extras,
test tools) is absent, so an import that needs an extra fails here as it would at a user's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.programs import clean_environment


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in `folder`."""

    folder: Path

    @property
    def site(self) -> Path:
        return _site(self.folder)

    def run(
        self, *command: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment's `bin`, outside the project, without its variables."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=clean_environment() | dict(env or {}),
            timeout=110,
            check=False,
        )


def make_environment(folder: Path, wheel: Path) -> Environment:
    """Make the environment in `folder` and install the wheel into it."""
    _call(sys.executable, "-m", "venv", "--without-pip", str(folder))
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    _call(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel))
    for dependency in core_dependencies():
        _link(dependency, _site(folder))
    return Environment(folder)


def core_dependencies() -> list[Distribution]:
    """The installed distributions that a plain `pip install aijobs` brings, directly or through others."""
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, frozenset[str]]] = set()
    waiting = [(requirement, frozenset[str]()) for requirement in _required("aijobs", frozenset())]
    while waiting:
        requirement, _ = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in asked:
            continue
        asked.add((name, extras))
        found[name] = distribution(name)
        waiting.extend((inner, extras) for inner in _required(name, extras))
    return list(found.values())


def _required(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield requirement


def _link(dependency: Distribution, site: Path) -> None:
    for file in dependency.files or ():
        top = file.parts[0]
        target = site / top
        if top in ("..", "__pycache__") or target.exists():
            continue
        os.symlink(Path(str(dependency.locate_file(top))), target)


def _site(folder: Path) -> Path:
    scheme = {"base": str(folder), "platbase": str(folder)}
    return Path(sysconfig.get_path("purelib", "venv", scheme))


def _call(*command: str) -> None:
    done = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
