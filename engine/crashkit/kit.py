"""One run of the kit: the places are prepared, faults are tried, everything of ours is taken away again."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from engine.crashkit import evidence, tables
from engine.crashkit.controlled import Control
from engine.crashkit.errors import KitRefusedError
from engine.crashkit.faults import Fault
from engine.crashkit.options import KitOptions
from engine.crashkit.processes import Processes, log_folder
from engine.crashkit.relay import Relay, can_relay
from engine.crashkit.stage import Stage, Verdict
from engine.migrations import runner
from outbox.base.db import UnitOfWork, create_engine_for
from outbox.transports.rq import drill
from registry.errors import AiJobsError

OnVerdict = Callable[[Verdict], None]


class Kit:
    """A context manager: inside it faults can be tried; leaving it cleans up, whatever happened."""

    def __init__(self, options: KitOptions, *, among_others: bool = False) -> None:
        """``among_others`` allows a database that holds jobs which are not the kit's."""
        self.options = options
        self._among_others = among_others
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._folder = log_folder(Path(tempfile.gettempdir()))
        self.processes = Processes(self._folder)
        self.engine = create_engine_for(
            options.places.database_url, pool_size=options.at_once + 2, max_overflow=10
        )
        self.uow = UnitOfWork(self.engine)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self.processes.__enter__()
        except BaseException:
            self.engine.dispose()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        try:
            self.processes.__exit__()
        finally:
            self._clean()
            tables.drop(self.engine)
            self.engine.dispose()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        if not self.options.places.redis_url.startswith(("redis://", "rediss://", "unix://")):
            raise KitRefusedError("the kit's processes meet in Redis, so it needs a real one")
        runner.upgrade(self.engine)
        foreign = self.uow.read(evidence.foreign_jobs)
        if foreign and not self._among_others:
            raise KitRefusedError(
                f"the database holds {foreign} jobs that are not the kit's; its upkeep would heal them too. "
                "Name another database, or say --yes"
            )
        tables.create(self.engine)
        self._clean()

    def _clean(self) -> None:
        """Take away the rows and keys of this run, or of one that was killed here."""
        self.uow.run(evidence.erase)
        self.uow.run(tables.empty)
        drill.wipe(self.options.places.redis_url, self.options.places.prefix)

    # -------------------------------------------------------------- faults

    @contextmanager
    def stage(
        self, fault: str, *, wired: bool = False, controls: tuple[str, ...] = (), options: KitOptions | None = None
    ) -> Iterator[Stage]:
        """A stage for one fault, with a queue of its own."""
        places = self.options.places
        with self._lock:
            queue = f"crashkit-{next(self._numbers):03}"
        stage = Stage(
            fault=fault, options=options or self.options, processes=self.processes, uow=self.uow, queue=queue,
            prefix=places.prefix, controls=controls,
            wire=Relay(places.redis_url).__enter__() if wired else None,
        )  # fmt: skip
        try:
            yield stage
        finally:
            stage.close()

    def try_fault(
        self, fault: Fault, *, controls: tuple[str, ...] = (), options: KitOptions | None = None
    ) -> Verdict:
        """Try one fault from its beginning to its verdict."""
        with self.stage(fault.name, wired=fault.wired, controls=controls, options=options) as stage:
            try:
                fault.perform(stage)
                stage.finish()
            except AiJobsError as error:
                return stage.gave_up(error)
            return stage.verdict()

    def try_control(self, control: Control) -> Verdict:
        """Try a fault without the protection it needs: the verdict has to be a breach."""
        # What never comes is not waited for as long as what may be late.
        patience = self.options.times.after_crash_ms / 1000 + self.options.slack_ms / 1000
        eager = replace(self.options, patience_s=min(self.options.patience_s, 2 * patience))
        fault = replace(control.fault, name=f"without {control.name}: {control.fault.name}")
        return self.try_fault(fault, controls=(control.name,), options=eager)

    def fits(self, fault: Fault) -> bool:
        """Whether these places can show ``fault``."""
        wire = not fault.wired or can_relay(self.options.places.redis_url)
        return wire and (fault.on_sqlite or not self.is_sqlite)

    def try_all(self, faults: Iterable[Fault], *, tell: OnVerdict = lambda _: None) -> list[Verdict]:
        """Try ``faults``: those that may share upkeep and Redis at the same time, the others one by one."""
        fitting = [fault for fault in faults if self.fits(fault)]
        together = [fault for fault in fitting if fault.together]
        verdicts = {}

        def attempt(fault: Fault) -> None:
            verdicts[fault.name] = self.try_fault(fault)
            tell(verdicts[fault.name])

        with ThreadPoolExecutor(self.options.at_once, thread_name_prefix="crashkit") as threads:
            list(threads.map(attempt, together))
        for fault in fitting:
            if not fault.together:
                attempt(fault)
        return [verdicts[fault.name] for fault in fitting]

