"""Private MariaDB, PostgreSQL and Redis servers: real ones, on free ports, to be stopped, killed and frozen at will.

Each server keeps its port over `stop`/`kill`/`restart`, so a client's URL stays right. SQL servers keep their data
over a kill (they recover as after a crash); Redis starts empty unless started with `appendonly`.
Nothing of the machine's own configuration is read, no service is touched, and running as root works.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psycopg
import pymysql
import redis

from tests.support import reaper
from tests.support.wait import eventually

HOST = "127.0.0.1"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0


class ServerMissing(Exception):
    """The server program is not installed on this machine."""


class ServerFailed(Exception):
    """The server program ended instead of answering; the text holds the end of its log."""


def free_port() -> int:
    """A TCP port of the loopback interface that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def find_program(name: str, *patterns: str) -> str:
    """Path of `name`, on PATH or at one of the glob patterns (highest version last wins). Raises ServerMissing."""
    found = shutil.which(name)
    if found:
        return found
    for pattern in (f"usr/sbin/{name}", f"usr/local/sbin/{name}", *patterns):
        matches = sorted(Path("/").glob(pattern), key=lambda path: [_number(part) for part in path.parts])
        if matches:
            return str(matches[-1])
    raise ServerMissing(f"{name} is not installed; ./scripts/setup installs it")


def _number(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (0, part)


def work_folder() -> Path:
    """A new folder with a short path (a Unix socket's path has 107 bytes) that other users may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="aijobs-"))
    folder.chmod(0o711)
    reaper.remove_at_end(folder)
    return folder


class Server:
    """One server process. Use as a context manager, or call `start` and `close`."""

    program = ""
    patterns: tuple[str, ...] = ()
    #: asks the server to close connections and end in good order
    stop_signal = signal.SIGTERM

    def __init__(self, *, options: Mapping[str, str] | None = None) -> None:
        self.host = HOST
        self.port = free_port()
        self.options = dict(options or {})
        self.folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the process and return when it answers a query. Data of an earlier run is kept."""
        if self.running:
            return self
        binary = find_program(self.program, *self.patterns)
        if self.folder is None:
            self.folder = work_folder()
            self._create_data()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(binary),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
                start_new_session=True,
            )
        reaper.watch(self._process.pid)
        eventually(self._is_ready, START_TIMEOUT_S, message=lambda: f"{self.program} answers\n{self.log_tail()}")
        return self

    def stop(self) -> None:
        """End the process in good order; clients see closed connections. Returns when it is gone."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End the process and its children like a power cut (SIGKILL). Returns when they are gone."""
        if self._process is None:
            return
        family = self._family()
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reap()
        eventually(lambda: not any(_alive(pid) for pid in family), STOP_TIMEOUT_S, message="children are gone")

    def restart(self) -> Self:
        """Stop (if running) and start again on the same port with the same data."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Freeze the process and its children (SIGSTOP): connections stay open and nothing answers."""
        for pid in self._family():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT)."""
        for pid in reversed(self._family()):
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill the server and delete its folder."""
        self.kill()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- questions ----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        return (self.host, self.port)

    def log_tail(self, lines: int = 30) -> str:
        path = self._home / "log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    # -- for subclasses -----------------------------------------------------------------------------------------------

    def _create_data(self) -> None:
        pass

    def _command(self, binary: str) -> list[str]:
        raise NotImplementedError

    def _ping(self) -> None:
        raise NotImplementedError

    # -- inner --------------------------------------------------------------------------------------------------------

    @property
    def _home(self) -> Path:
        assert self.folder is not None, "the server was never started"
        return self.folder

    def _is_ready(self) -> bool:
        if not self.running:
            tail = self.log_tail()
            self._reap()
            raise ServerFailed(f"{self.program} ended at start:\n{tail}")
        try:
            self._ping()
        except (OSError, pymysql.Error, psycopg.Error, redis.RedisError):
            return False
        return True

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        if self.running:
            self.resume()
            self._process.send_signal(number)
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        reaper.forget(self._process.pid)
        self._process = None

    def _family(self) -> list[int]:
        """The process and its descendants, parents first."""
        children = _children_by_parent()
        family = [self.pid] if self.running else []
        for pid in family:
            family.extend(children.get(pid, ()))
        return family


class MariaDbServer(Server):
    """MariaDB as compiled: no option file, so also the compiled character set, which is not utf8mb4 (DB-9)."""

    program = "mariadbd"

    def url(self, database: str = "", driver: str = "mariadb+pymysql") -> str:
        return f"{driver}://root@{self.host}:{self.port}/{database}"

    def connect(self, database: str | None = None, **arguments: Any) -> pymysql.Connection[Any]:
        """A raw autocommit connection, for administration and for holding locks in tests."""
        defaults: dict[str, Any] = {"autocommit": True, "charset": "utf8mb4", "connect_timeout": 10}
        return pymysql.connect(
            host=self.host, port=self.port, user="root", database=database, **(defaults | arguments)
        )

    def _create_data(self) -> None:
        installer = find_program("mariadb-install-db", "usr/bin/mariadb-install-db")
        with template("mariadb", find_program(self.program), "1") as (place, is_new):
            if is_new:
                _run(
                    [
                        installer,
                        "--no-defaults",
                        "--auth-root-authentication-method=normal",
                        "--skip-test-db",
                        f"--datadir={place}",
                        f"--user={_user_name()}",
                        "--innodb-log-file-size=16M",
                    ]
                )
            copy_tree(place, self._home / "data")


    def _command(self, binary: str) -> list[str]:
        return [
            binary,
            "--no-defaults",
            f"--user={_user_name()}",
            f"--datadir={self._home / 'data'}",
            f"--socket={self._home / 'socket'}",
            f"--pid-file={self._home / 'pid'}",
            f"--bind-address={self.host}",
            f"--port={self.port}",
            "--innodb-log-file-size=16M",
            # Safe against a killed process, not against a power cut: what a test can tell apart stays the same.
            "--innodb-flush-log-at-trx-commit=2",
            *(f"--{name}={value}" for name, value in self.options.items()),
        ]

    def _ping(self) -> None:
        self.connect(connect_timeout=2, read_timeout=5).close()


class PostgresServer(Server):
    """PostgreSQL, UTF-8, without fsync (safe against a killed process). Root hands it to an unprivileged user."""

    program = "postgres"
    patterns = ("usr/lib/postgresql/*/bin/postgres", "usr/local/pgsql/bin/postgres")
    #: "fast": end the sessions, then the server
    stop_signal = signal.SIGINT

    def url(self, database: str = "postgres", driver: str = "postgresql+psycopg") -> str:
        return f"{driver}://postgres@{self.host}:{self.port}/{database}"

    def connect(self, database: str = "postgres", **arguments: Any) -> psycopg.Connection[Any]:
        """A raw autocommit connection, for administration and for holding locks in tests."""
        defaults: dict[str, Any] = {"autocommit": True, "connect_timeout": 10}
        return psycopg.connect(
            host=self.host, port=self.port, user="postgres", dbname=database, **(defaults | arguments)
        )

    def _create_data(self) -> None:
        binary = find_program(self.program, *self.patterns)
        initdb = str(Path(binary).with_name("initdb"))
        account = _unprivileged_account()
        with template("postgres", binary, "1") as (place, is_new):
            if is_new:
                if account:
                    os.chown(place, account.pw_uid, account.pw_gid)
                arguments = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
                _run([*_as_account(account), initdb, *arguments, f"--pgdata={place}"])
            copy_tree(place, self._home / "data")
        if account:
            # the log was opened by us; sockets and data belong to the server's user
            os.chown(self._home, account.pw_uid, account.pw_gid)

    def _command(self, binary: str) -> list[str]:
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": str(self._home),
            "max_connections": "200",
            "fsync": "off",
            "full_page_writes": "off",
            **self.options,
        }
        pairs = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [*_as_account(_unprivileged_account()), binary, "-D", str(self._home / "data"), *pairs]

    def _ping(self) -> None:
        self.connect(connect_timeout=2).close()


class RedisServer(Server):
    """Redis with its own defaults (`noeviction`), nothing saved to disk: a restart is a loss of everything."""

    program = "redis-server"
    patterns = ("usr/bin/redis-server", "usr/bin/valkey-server")

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self._home / 'socket'}?db=0"

    def client(self, **arguments: Any) -> redis.Redis:
        """A raw client (bytes in, bytes out); the caller closes it."""
        return redis.Redis.from_url(self.url, **arguments)

    def flush(self) -> None:
        """Empty every database and forget scripts, as after a restart, but quick."""
        with self.client() as client:
            client.flushall()
            client.script_flush()

    def _command(self, binary: str) -> list[str]:
        settings = {
            "bind": self.host,
            "port": str(self.port),
            "unixsocket": str(self._home / "socket"),
            "dir": str(self._home),
            "save": "",
            "appendonly": "no",
            **self.options,
        }
        return [binary, *(part for name, value in settings.items() for part in (f"--{name}", value))]

    def _ping(self) -> None:
        # a server with a password or a full memory is up as well; any answer to PING will do
        with redis.Redis(host=self.host, port=self.port, socket_timeout=5) as client:
            try:
                client.ping()
            except redis.AuthenticationError:
                return


# -- data templates: a server's first folder is made once and copied ------------------------------------------------------


@contextmanager
def template(kind: str, binary: str, recipe: str) -> Iterator[tuple[Path, bool]]:
    """Yield `(folder, is_new)`: a data folder kept for later sessions; whoever finds it new fills it, under a lock."""
    root = Path(tempfile.gettempdir()) / f"aijobs-templates-{os.getuid()}"
    root.mkdir(mode=0o711, exist_ok=True)
    if root.stat().st_uid != os.getuid() or root.is_symlink():
        raise ServerFailed(f"{root} belongs to somebody else")
    status = Path(binary).resolve().stat()
    name = f"{kind}-{_digest(str(Path(binary).resolve()), status.st_size, status.st_mtime_ns, recipe)}"
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
    _run(["cp", "-a", "--sparse=always", "--reflink=auto", "-T", str(source), str(target)])


# -- users and processes --------------------------------------------------------------------------------------------------


def clean_environment() -> dict[str, str]:
    """This process's environment without what would redirect a server or a client."""
    drop = ("PG", "MYSQL_", "MARIADB_", "REDIS", "AIJOBS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "root"


def _unprivileged_account() -> pwd.struct_passwd | None:
    """Whom root runs PostgreSQL as (it refuses root); None when we are not root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerMissing("PostgreSQL needs a user 'postgres' or 'nobody' when the tests run as root")


def _as_account(account: pwd.struct_passwd | None) -> list[str]:
    if account is None:
        return []
    setpriv = find_program("setpriv", "usr/bin/setpriv")
    return [setpriv, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--"]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        list(command), capture_output=True, text=True, env=clean_environment(), cwd="/", timeout=300, check=False
    )
    if done.returncode:
        raise ServerFailed(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            after_name = path.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(path.parent.name))
    return children


def _alive(pid: int) -> bool:
    """Whether the process runs (a zombie, which only its parent's wait can clear, does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
