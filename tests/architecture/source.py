"""The project's own source as data: modules, what they import, and names they use.

Rules are functions from a module to the sentences that say what is wrong, so that the tests can show each rule a
module that breaks it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("registry", "outbox", "projectors", "engine")


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file. `name` is dotted; a package's own file has the package's name."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    def within(self, *prefixes: str) -> bool:
        """Whether this is one of the named modules or lies in one of the named packages."""
        return any(self.name == prefix or self.name.startswith(prefix + ".") for prefix in prefixes)


def parse(name: str, text: str, path: str = "") -> Module:
    """A module from its text; for files and for samples."""
    return Module(name, path or name.replace(".", "/") + ".py", text, ast.parse(text))


def modules_below(*folders: str) -> tuple[Module, ...]:
    """Every module below the folders of the project; a folder that does not exist has none."""
    return tuple(
        _read(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))
    )


@cache
def project() -> tuple[Module, ...]:
    """Every module of the four packages."""
    return modules_below(*PACKAGES)


@cache
def names() -> frozenset[str]:
    """The dotted names of all modules of the four packages."""
    return frozenset(module.name for module in project())


def _read(path: Path) -> Module:
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return parse(".".join(parts), path.read_text(encoding="utf-8"), str(relative))


# -- imports -------------------------------------------------------------------------


def imports(module: Module, *, everywhere: bool = True) -> Iterator[str]:
    """Dotted names this module imports at run time, names imported from a package included when modules.

    Imports under `if TYPE_CHECKING` never run and are left out. With `everywhere=False` imports inside functions are
    left out too: what remains runs when the module is loaded.
    """
    for node in _running_nodes(module.tree, everywhere):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield inner if inner in names() else origin


def _running_nodes(root: ast.AST, everywhere: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(root):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from (inner for part in node.orelse for inner in _with_inner(part, everywhere))
            continue
        yield from _with_inner(node, everywhere)


def _with_inner(node: ast.AST, everywhere: bool) -> Iterator[ast.AST]:
    yield node
    if everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        yield from _running_nodes(node, everywhere)


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + (1 if module.is_package else 0)
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


# -- names ---------------------------------------------------------------------------


def uses(module: Module) -> Iterator[tuple[str, int]]:
    """Dotted names this module uses, with line numbers; local names are traced to what was imported.

    After `from time import time as now`, the call `now()` is a use of `time.time`.
    """
    known = _local_names(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute | ast.Name):
            dotted = _dotted(node)
            if dotted:
                head, _, rest = dotted.partition(".")
                full = known.get(head, head)
                yield (f"{full}.{rest}" if rest else full), node.lineno


def imported_names(module: Module) -> Iterator[tuple[str, int]]:
    """Full dotted names of everything this module imports, type-only imports included, with line numbers."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{_origin(module, node)}.{alias.name}", node.lineno


def _local_names(module: Module) -> dict[str, str]:
    known: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                known[alias.asname or alias.name] = f"{_origin(module, node)}.{alias.name}"
    return known


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None
