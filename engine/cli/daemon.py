"""Processes that run until they are told to stop: what is checked first, signals, readiness, exit codes.

First SIGTERM, SIGINT or SIGHUP: nothing new is taken, what runs may finish within the grace, the rest is handed back.
Second: handed back at once. Third: the process ends as it stands; leases and claims end by themselves.

Exit code 0: everything in hand was finished. 143 (SIGTERM), 130 (SIGINT) or 129 (SIGHUP): work was
handed back, and another process will do it; no attempt was used.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import DBAPIError

from engine.app import AiJobApp
from engine.cli.errors import CheckFailed, UsageMistake
from engine.cli.schema import require_current
from engine.cli.session import Session
from engine.config import notify_socket, unknown_variables
from engine.observe.facts import log_fact
from engine.observe.logs import set_up
from engine.observe.notify import Supervisor
from engine.observe.redis_watch import RedisWatch, address_of
from outbox.base import verify
from outbox.base.errors import DatabaseLoginRefused, DatabaseMissing, DatabaseUnavailable
from outbox.base.failures import translate
from outbox.base.signals import on_signals
from outbox.errors import TransportUnavailable
from registry.errors import AiJobsError

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
#: How long a start waits for a database that may be starting too, in seconds.
PATIENCE_S: Final = 10.0
#: How long a start waits for its first fetch before it says nothing more of it, in seconds.
_READY_S: Final = 60.0

#: The wake channel that nobody waits on.
_PROBE: Final = "aijobs-watch"

_log = logging.getLogger("aijobs.daemon")


def prepare(session: Session, *, role: str, alone: bool = False) -> AiJobApp:
    """The application of a daemon, after everything was checked that would only show at the first job.

    ``alone``: this process holds all roles, so Redis may be its own. Raises what names the mistake and its
    fix: a wrong type, a Redis that only lives in this process, missing tables, an unreachable database. A
    Redis that is away is told and waited for in the background.
    """
    session.tells_slips = True
    settings = session.app.settings
    set_up(
        format=session.options.log_format or settings.log_format,  # type: ignore[arg-type]
        level=_level(session),
        color=not session.options.no_color,
    )
    for slip in unknown_variables():
        _log.warning("%s", slip)
    app = session.app
    app.start()
    if not alone:
        refuse_embedded(app, role)
    _patiently(lambda: _check_database(app))
    _check_redis(app)
    return app


def _level(session: Session) -> int:
    if session.options.log_level:
        return _LEVELS[session.options.log_level]
    if session.options.verbose or session.options.quiet:
        return logging.DEBUG if session.options.verbose else logging.WARNING
    return _LEVELS[session.app.settings.log_level]


def refuse_embedded(app: AiJobApp, role: str) -> None:
    """Raise :class:`UsageMistake` where tickets could never reach another process."""
    if app.transport.features.cross_process:
        return
    scheme = app.settings.redis_url.partition(":")[0]
    raise UsageMistake(
        f"{role}: {scheme}:// is a Redis inside one process, which no other process can reach",
        fix="set AIJOBS_REDIS_URL to a Redis server, for example redis://127.0.0.1:6379/0, "
        "or start all roles in one process with `aijobs run`",
    )


def _check_database(app: AiJobApp) -> None:
    warning = require_current(app)
    if warning:
        _log.warning("%s", warning)
    problems = verify.problems(app.database)
    if problems:
        raise CheckFailed(f"the database breaks a rule: {'; '.join(problems)}", fix="`aijobs doctor` says more")


def _use(app: AiJobApp) -> None:
    """A look and a write, as work would do: a Redis that is full, or a replica, answers but is not back."""
    app.transport.depth([queue.name for queue in app.registry.queues])
    app.transport.wake(_PROBE)


def _check_redis(app: AiJobApp) -> None:
    """Redis is expendable: what is wrong with it is told, and only a setting that cannot work is refused."""
    watch = RedisWatch(lambda: _use(app), address_of(app.settings.redis_url), others=log_fact)
    app.telemetry.listen(watch.note)
    try:
        problems = app.transport.check()
    except TransportUnavailable as error:
        watch.away(error.reason)
        return
    for problem in problems:
        _log.warning("%s", problem)


def _patiently(check: Callable[[], None]) -> None:
    """Run ``check``, again while a server may still be starting."""
    deadline = time.monotonic() + PATIENCE_S
    told = False
    while True:
        try:
            return check()
        except Exception as error:
            if time.monotonic() > deadline or not _may_pass(error):
                raise
            if not told:
                code = error.code if isinstance(error, AiJobsError) else type(error).__name__
                _log.warning("the database is not reachable yet (%s); waiting up to %g s", code, PATIENCE_S)
                told = True
        time.sleep(0.25)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        error = translate(error)
    return isinstance(error, DatabaseUnavailable) and not isinstance(error, (DatabaseMissing, DatabaseLoginRefused))


def run(
    name: str,
    work: Callable[[], bool],
    *,
    stop: Callable[[], None],
    ready: Callable[[float], bool] | None = None,
    fields: dict[str, Any],
    hands_back: bool = True,
) -> int:
    """Run ``work()`` on this thread until it ends by itself or by signals, and return the exit code.

    ``work`` returns whether everything in hand was finished. ``stop`` is called for the first and for the
    second signal; ``ready(timeout_s)`` waits until work can begin. A process that ``hands_back`` nothing is
    ended by the second signal.
    """
    supervisor = Supervisor(notify_socket())
    watcher = _Watcher(name, stop, supervisor, last=3 if hands_back else 2)
    restore = on_signals(_signals(), watcher.note)
    threading.Thread(target=_tell_ready, args=(name, ready, supervisor, fields), daemon=True).start()
    try:
        drained = work()
    finally:
        restore()
    _log.info("stopped", extra={"fields": {"finished": drained, **fields}})
    return 0 if drained or watcher.first is None else 128 + watcher.first


def _signals() -> list[signal.Signals]:
    """What ends a daemon; a closed terminal does, too, unless it was started with ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]


def _tell_ready(
    name: str, ready: Callable[[float], bool] | None, supervisor: Supervisor, fields: dict[str, Any]
) -> None:
    if ready is None or ready(_READY_S):
        _log.info("ready", extra={"fields": fields})
        supervisor.ready(name)


class _Watcher:
    """Counts the signals, and does what the next one asks for."""

    def __init__(self, name: str, stop: Callable[[], None], supervisor: Supervisor, *, last: int) -> None:
        """The signal number ``last`` ends the process as it stands."""
        self._name = name
        self._last = last
        self._stop = stop
        self._supervisor = supervisor
        self._count = 0
        self.first: int | None = None

    def note(self, number: signal.Signals) -> None:
        """One more signal; runs beside the main thread, which it cannot interrupt inside a lock."""
        self._count += 1
        self.first = self.first or number
        self._supervisor.stopping(self._name)
        last = self._count >= self._last
        says = "ending as it stands; leases and claims end by themselves" if last else _SAYS[self._count]
        _log.info(says, extra={"fields": {"signal": number.name}})
        if last:
            os._exit(128 + number)
        self._stop()


_SAYS: Final = {
    1: "stopping: nothing new is taken, running work may finish",
    2: "stopping at once: running work is handed back",
}
