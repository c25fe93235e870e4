"""Things that have one place in the project, as functions from a module to the sentences that say what is wrong."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from tests.architecture.source import Module, imported_names, imports, uses

Rule = Callable[[Module], Iterator[str]]

MAX_LINES = 350
#: files that are long because they are one list, with the reason
LONG_FOR_A_REASON = {
    "engine/errors.py": "the tree of errors is one thing to read, and has no logic"
}

_WALL_CLOCK = re.compile(
    r"time\.(time|time_ns|localtime|gmtime|ctime|asctime)"
    r"|datetime\.(datetime\.(now|utcnow|today)|date\.today)"
)
_WRITE_TO_AI_JOB = re.compile(r"\b(update|insert\s+into)\s+[`\"]?ai_job\b", re.IGNORECASE)


def wall_clock(module: Module) -> Iterator[str]:
    """Only the database clock's module asks this host for the time of day (design 5: time is the database's)."""
    if module.within("outbox.base.clock"):
        return
    for name, line in uses(module):
        if _WALL_CLOCK.fullmatch(name):
            yield f"{module.path}:{line}: {name} outside outbox/base/clock.py"


def environment(module: Module) -> Iterator[str]:
    """Only the settings read the environment (design 3: one place for os.environ)."""
    if module.within("engine.config"):
        return
    for name, line in uses(module):
        if name in ("os.environ", "os.environb", "os.getenv", "os.putenv"):
            yield f"{module.path}:{line}: {name} outside engine/config.py"


def broker_libraries(module: Module) -> Iterator[str]:
    """Only the RQ transport knows Redis and RQ (design 3)."""
    if module.within("outbox.transports.rq"):
        return
    for name in imports(module):
        if name.partition(".")[0] in ("redis", "rq", "fakeredis"):
            yield f"{module.path}: imports {name} outside outbox/transports/rq"


def table_owners(module: Module) -> Iterator[str]:
    """A table's model is known to the package that owns the table, and to the migrations."""
    for name in imports(module):
        package, _, last = name.rpartition(".")
        if last == "models" and not module.within(package, "engine.migrations"):
            yield f"{module.path}: imports {name}, the tables of {package}"


def lifecycle_statements(module: Module) -> Iterator[str]:
    """Only AiJobLifecycleRepository runs the statements that move a job (design 6)."""
    if module.within("engine.lifecycle.repository"):
        return
    statements = "engine.lifecycle.statements"
    for name, line in imported_names(module):
        if name == statements or name.startswith(statements + "."):
            yield f"{module.path}:{line}: {name} outside engine/lifecycle/repository.py"


def status_writers(module: Module) -> Iterator[str]:
    """Nothing but the lifecycle repository and its statements gives `lifecycle_status` a value (design 6)."""
    parts = ("repository", "statements", "values", "models")
    if module.within(*(f"engine.lifecycle.{part}" for part in parts)):
        return
    if module.within("engine.migrations"):
        return
    for node in ast.walk(module.tree):
        if _sets_status(node):
            yield f"{module.path}:{getattr(node, 'lineno', 0)}: writes lifecycle_status"


def _sets_status(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(
            isinstance(target, ast.Attribute) and target.attr == "lifecycle_status"
            for target in targets
        )
    if isinstance(node, ast.Call):
        return _is_write_call(node) and _names_status(node)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(_WRITE_TO_AI_JOB.search(node.value))
    return False


def _is_write_call(node: ast.Call) -> bool:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    return called in ("values", "update", "insert", "setattr", "execute")


def _names_status(node: ast.Call) -> bool:
    if any(keyword.arg == "lifecycle_status" for keyword in node.keywords):
        return True
    if isinstance(node.func, ast.Name) and node.func.id == "setattr":
        return any(isinstance(a, ast.Constant) and a.value == "lifecycle_status" for a in node.args)
    keys = (key for arg in node.args for key in _dict_keys(arg))
    return any(
        (isinstance(key, ast.Constant) and key.value == "lifecycle_status")
        or (isinstance(key, ast.Attribute) and key.attr == "lifecycle_status")
        for key in keys
    )


def _dict_keys(argument: ast.expr) -> Iterator[ast.expr | None]:
    for node in ast.walk(argument):
        if isinstance(node, ast.Dict):
            yield from node.keys


def length(module: Module) -> Iterator[str]:
    """A file is one noun and can be read at a sitting."""
    lines = module.text.count("\n")
    if lines > MAX_LINES and module.path not in LONG_FOR_A_REASON:
        yield f"{module.path}: {lines} lines, more than {MAX_LINES}"


def folder_map(module: Module) -> Iterator[str]:
    """A package's docstring is the folder's map."""
    if module.is_package and not ast.get_docstring(module.tree):
        yield f"{module.path}: no docstring that says what lives here"


def sleeps(module: Module) -> Iterator[str]:
    """Tests wait for conditions; only `eventually` lets time pass."""
    if module.within("tests.support.wait"):
        return
    for name, line in uses(module):
        if name == "time.sleep":
            yield f"{module.path}:{line}: time.sleep; wait with tests.support.wait.eventually"


def mocks(module: Module) -> Iterator[str]:
    """Tests use real parts."""
    for name in imports(module):
        if name.startswith("unittest.mock") or name in ("mock", "pytest_mock"):
            yield f"{module.path}: imports {name}"


def clocks(module: Module) -> Iterator[str]:
    """The steady clock is passed in: replaced in its module it stands still for every event loop of the process."""
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"):
            continue
        replaced = ".".join(str(getattr(part, "value", getattr(part, "id", ""))) for part in node.args[:2])
        if re.search(r"(^|\.)time\.(monotonic|perf_counter)", replaced):
            yield f"{module.path}:{node.lineno}: replaces a clock of the whole process"


PROJECT_RULES: tuple[Rule, ...] = (
    wall_clock,
    environment,
    broker_libraries,
    table_owners,
    lifecycle_statements,
    status_writers,
    length,
    folder_map,
)
TEST_RULES: tuple[Rule, ...] = (sleeps, mocks, clocks)
