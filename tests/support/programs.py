"""Where the server programs are, whom they run as, and the data folders they start from."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


class ServerMissing(Exception):
    """The server program is not installed on this machine."""


class ServerFailed(Exception):
    """The server program ended instead of answering; the text holds the end of its log."""


def find_program(name: str, *patterns: str) -> str:
    """Path of `name`, on PATH or at one of the glob patterns (highest version last wins). Raises ServerMissing."""
    found = shutil.which(name)
    if found:
        return found
    for pattern in (f"usr/sbin/{name}", f"usr/local/sbin/{name}", *patterns):
        matches = sorted(
            Path("/").glob(pattern), key=lambda path: [_number(part) for part in path.parts]
        )
        if matches:
            return str(matches[-1])
    raise ServerMissing(f"{name} is not installed; ./scripts/setup installs it")


def _number(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (0, part)


@contextmanager
def template(kind: str, binary: str, recipe: str) -> Iterator[tuple[Path, bool]]:
    """Yield `(folder, is_new)`: a data folder kept for later sessions; whoever finds it new fills it, under a lock."""
    root = Path(tempfile.gettempdir()) / f"aijobs-templates-{os.getuid()}"
    root.mkdir(mode=0o711, exist_ok=True)
    if root.stat().st_uid != os.getuid() or root.is_symlink():
        raise ServerFailed(f"{root} belongs to somebody else")
    status = Path(binary).resolve().stat()
    name = (
        f"{kind}-{_digest(str(Path(binary).resolve()), status.st_size, status.st_mtime_ns, recipe)}"
    )
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place, done = root / name, root / f"{name}.done"
        is_new = not done.exists()
        if is_new:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(mode=0o700)
        yield place, is_new
        done.touch()


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder with owners and holes kept."""
    run(["cp", "-a", "--sparse=always", "--reflink=auto", "-T", str(source), str(target)])


def clean_environment() -> dict[str, str]:
    """This process's environment without what would redirect a server or a client."""
    drop = ("PG", "MYSQL_", "MARIADB_", "REDIS", "AIJOBS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "root"


def unprivileged_account() -> pwd.struct_passwd | None:
    """Whom root runs PostgreSQL as (it refuses root); None when we are not root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerMissing("PostgreSQL needs a user 'postgres' or 'nobody' when the tests run as root")


def as_account(account: pwd.struct_passwd | None) -> list[str]:
    if account is None:
        return []
    setpriv = find_program("setpriv", "usr/bin/setpriv")
    return [
        setpriv,
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        "--clear-groups",
        "--",
    ]


def run(command: Sequence[str]) -> None:
    done = subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd="/",
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise ServerFailed(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
