"""``aijobs demo``: the whole path on a text of yours, with nothing but this process.

    files -> create_jobs (job, input and outbox event in one transaction) -> dispatcher -> Redis's data model in
    this process -> worker -> provider -> validated output, business rows and terminal event in one transaction
"""

from __future__ import annotations

import logging
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self
from uuid import UUID

import typer

from engine.app import AiJobApp
from engine.cli import rendering
from engine.cli.demo_place import Place, demo_place
from engine.cli.errors import Exit
from engine.cli.files import read_text, unique
from engine.cli.nouns import single
from engine.cli.progress import Watch, wait_for
from engine.cli.schema import require_current
from engine.cli.session import Session
from engine.config import DEFAULT_REDIS_URL, load_settings
from engine.intake.commands import CreateJobInput
from engine.lifecycle.documents import document, job_document, plain
from engine.migrations import runner
from engine.observe.facts import log_fact
from engine.observe.logs import set_up
from engine.upkeep.inspection import JobRecord
from engine.worker.assembly import make_dispatcher, make_worker
from registry.catalog.fields import SOURCE_CHARS
from registry.job import JobView, LifecycleStatus

command = single()

#: What is made of each text, and how large.
_KINDS = {"flashcard_generation": "max_cards", "quiz_generation": "max_questions"}
_TITLES = {"flashcard_generation": "Flashcards", "quiz_generation": "Quiz"}
#: Jobs that the demo runs at once.
_SLOTS = 4
_BUILT_IN_TEXT = "demo_text.md"


@dataclass(frozen=True, slots=True)
class Source:
    """A text, and what people call it."""

    name: str
    text: str


@command.command(epilog="Example: aijobs demo notes.md --cards 20")
def demo(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Text or Markdown; - is standard input.")
    ] = None,
    cards: Annotated[int, typer.Option(min=1, max=50, help="The most cards of each text.")] = 10,
    questions: Annotated[int, typer.Option(min=1, max=30, help="The most questions of each text.")] = 5,
    language: Annotated[str | None, typer.Option(help="Language to write in; default: that of the text.")] = None,
) -> int:
    """Make flashcards and a quiz of each text, through the whole path, in this one process.

    Without files it uses a text that comes along. It needs no server: the database is a SQLite file, Redis runs
    inside. Without a model key the offline provider answers; with AIJOBS_OPENAI_API_KEY (and, where needed,
    AIJOBS_OPENAI_BASE_URL and AIJOBS_MODEL) a real model does.
    """
    session: Session = ctx.obj
    sources = _sources(names or [], settings_limit=load_settings().payload_limit_bytes)
    chosen = session.options.database_url
    given = nullcontext(Place(chosen, kept=True)) if chosen else demo_place()
    with given as place, _application(session, place) as app:
        if chosen:
            require_current(app)
        else:
            runner.upgrade(app.database)
        limits = {"max_cards": cards, "max_questions": questions, "language": language}
        with _Daemons(app) as daemons:
            made = _create(app, sources, limits)
            session.out.say(f"{len(made)} jobs in {place.url}; {_who_answers(app)}")
            _watch(session, app, made, sources, daemons)
        records = {job_id: app.inspector.record(job_id) for job_id in made}
        return _report(session, app, place, sources, records)


# ------------------------------------------------------------------ texts


def _sources(names: Sequence[str], *, settings_limit: int) -> list[Source]:
    """Every text, read and checked before anything is created."""
    if not names:
        text = files("engine.cli").joinpath(_BUILT_IN_TEXT).read_text(encoding="utf-8")
        return [Source("How ships learned where they were (built in)", text)]
    return [_source(name, settings_limit) for name in unique(list(names))]


def _source(name: str, limit: int) -> Source:
    text = read_text(name, limit=limit, characters=SOURCE_CHARS)
    return Source("standard input" if name == "-" else name, text)


# ------------------------------------------------------------------ the path


@contextmanager
def _application(session: Session, place: Place) -> Iterator[AiJobApp]:
    """The built-in job types on the demo's own database; what the environment says of servers is not for it."""
    redis_url = session.options.redis_url or DEFAULT_REDIS_URL
    app = AiJobApp(settings=load_settings(database_url=place.url, redis_url=redis_url))
    if session.options.verbose:
        set_up(level=logging.DEBUG if session.options.verbose > 1 else logging.INFO)
        app.telemetry.listen(log_fact)
    try:
        yield app
    finally:
        app.close()


def _create(app: AiJobApp, sources: Sequence[Source], limits: dict[str, Any]) -> list[UUID]:
    """Two jobs for each text; those of one text in one transaction."""
    made: list[UUID] = []
    for source in sources:
        inputs = [
            CreateJobInput(
                user_id="demo", job_type=kind, target_type="file", target_id=_target(source),
                payload={"text": source.text, "language": limits["language"], size: limits[size]},
            )
            for kind, size in _KINDS.items()
        ]  # fmt: skip
        made += [one.job.id for one in app.jobs.create_jobs(inputs)]
    return made


def _target(source: Source) -> str:
    name = "".join(char if char.isprintable() else "?" for char in Path(source.name).name)
    return name[-255:].strip() or "text"


class _Daemons:
    """Dispatcher and worker on threads of this process, for as long as the block lasts."""

    def __init__(self, app: AiJobApp) -> None:
        self._dispatcher = make_dispatcher(app)
        self._worker = make_worker(app, concurrency=_SLOTS, grace_ms=0)
        self._thread = threading.Thread(target=self._work, name="aijobs-demo-worker", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._dispatcher.start()
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._worker.stop()
        self._dispatcher.stop()
        self._thread.join(10)
        self._dispatcher.join()

    def check(self) -> None:
        """Raise what ended the worker, so that nobody waits for it."""
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            self._worker.run()
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            self._error = error


def _watch(
    session: Session, app: AiJobApp, made: Sequence[UUID], sources: Sequence[Source], daemons: _Daemons
) -> None:
    def ended(jobs: Mapping[UUID, JobView]) -> bool:
        daemons.check()
        return all(job.is_final for job in jobs.values())

    names = {
        job_id: f"{_TITLES[kind]}: {source.name}"
        for job_id, (source, kind) in zip(made, ((s, k) for s in sources for k in _KINDS), strict=True)
    }
    with Watch(session.out, names, tell_ends=True) as watch:
        wait_for(app, made, watch, until=ended)


def _who_answers(app: AiJobApp) -> str:
    settings = app.settings
    if settings.openai_api_key is None and settings.openai_base_url is None:
        return "the offline provider answers"
    return f"{settings.model or 'the default model'} answers"


# ------------------------------------------------------------------ what came of it


def _report(
    session: Session, app: AiJobApp, place: Place, sources: Sequence[Source], records: dict[UUID, JobRecord]
) -> int:
    outputs = {job_id: app.jobs.output(job_id) for job_id in records}
    by_source = [list(records)[n * len(_KINDS) : (n + 1) * len(_KINDS)] for n in range(len(sources))]

    def text() -> None:
        for source, job_ids in zip(sources, by_source, strict=True):
            for job_id in job_ids:
                _show(session, source, records[job_id], outputs[job_id])

    full = [
        {"file": source.name, "jobs": [_document(records[job_id], outputs[job_id]) for job_id in job_ids]}
        for source, job_ids in zip(sources, by_source, strict=True)
    ]
    session.out.show({"database": place.url if place.kept else None, "files": full}, text)
    good = all(r.job.lifecycle_status is LifecycleStatus.SUCCEEDED for r in records.values())
    if place.kept:
        session.out.say(f"the rows are kept: {_program()} jobs list --database-url {place.url}")
    return Exit.DONE if good else Exit.JOB_NOT_SUCCEEDED


def _program() -> str:
    """What to type here: ``aijobs``, or its place where the shell does not find it (``./scripts/demo``)."""
    return "aijobs" if shutil.which("aijobs") else sys.argv[0]


def _show(session: Session, source: Source, record: JobRecord, output: Any) -> None:
    out, job = session.out, record.job
    out.line(f"{_TITLES[job.job_type]}: {source.name}", style="bold")
    out.line()
    if job.lifecycle_status is LifecycleStatus.SUCCEEDED:
        rendering.result(out, output)
    else:
        out.line(f"  {job.lifecycle_status.value}: {job.error_code}", style="red")
        out.line(f"  {job.public_error_message or ''}")
        if job.internal_error_message:
            out.line(f"  {job.internal_error_message}")
    out.line()
    out.line(f"  Timeline of job {job.id}", style="bold")
    for moment in record.timeline:
        out.line(rendering.moment(moment, job.created_at), style="dim")
    out.line()


def _document(record: JobRecord, output: Any) -> dict[str, Any]:
    moments = [{"at": plain(m.at), "what": m.what} | document(m.detail) for m in record.timeline]
    return job_document(record.job) | {"output": output, "timeline": moments}
