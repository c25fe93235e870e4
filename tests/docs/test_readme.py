"""What the README shows is run as it stands there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from engine.migrations import runner
from projectors import ArtifactRef
from registry import JobView

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


class _Document:
    """The host application's own row."""


@pytest.fixture
def blocks(project_root: Path) -> list[str]:
    return _BLOCK.findall((project_root / "README.md").read_text(encoding="utf-8"))


def test_readme_example_runs_from_create_to_result(
    blocks: list[str], sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("AIJOBS_REDIS_URL", "memory://")
    host = _host()
    _run(blocks[0], host)
    app = host["app"]
    runner.upgrade(app.database)
    host["Base"].metadata.create_all(app.database)
    try:
        _run(blocks[1], host)
        assert host["made"].created
        _work(app)

        job = app.jobs.wait(host["made"].job.id, timeout=10)

        assert job.lifecycle_status == "succeeded"
        assert app.jobs.output(job.id) == {"headline": "A first line.", "words": 5}
        with Session(app.database) as session:
            assert session.get(host["Document"], 7) is not None
    finally:
        app.close()


def test_readme_projector_is_accepted(blocks: list[str], sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIJOBS_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("AIJOBS_REDIS_URL", "memory://")
    host = _host()
    _run(blocks[0], host)
    try:
        _run(blocks[2], host)

        assert "summaries" in host["app"].projectors.keys()  # noqa: SIM118
    finally:
        host["app"].close()


def _host() -> dict[str, Any]:
    """The names a reader of the README has of their own."""
    from sqlalchemy.orm import DeclarativeBase

    class HostBase(DeclarativeBase):
        pass

    class Document(HostBase):
        __tablename__ = "readme_document"
        id: Mapped[int] = mapped_column(primary_key=True)
        text: Mapped[str]

    module = types.ModuleType("readme_example")
    sys.modules[module.__name__] = module
    names = vars(module)
    names.update(
        Base=HostBase, Document=Document, DocumentSummary=Document, Session=Session, text="A first line.\nAnd more.",
        JobView=JobView, ArtifactRef=ArtifactRef, sa=sa,
    )
    return names


def _run(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, "README.md", "exec", dont_inherit=True), names)


def _work(app: Any) -> None:
    from engine.worker.assembly import make_outbox_dispatcher, make_worker

    while make_outbox_dispatcher(app).run_once():
        pass
    make_worker(app, ["ai-interactive"]).run(burst=True)
