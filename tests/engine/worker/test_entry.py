"""In an emergency a stock ``rq worker`` runs our tickets, and every promise holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from engine import AiJobApp, CreateJobInput, Settings
from engine.migrations import runner
from engine.worker.assembly import make_outbox_dispatcher
from engine.worker.entry import run_one


@pytest.fixture
def app(sqlite_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIJOBS_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("AIJOBS_REDIS_URL", redis_url)
    made = AiJobApp(settings=Settings())
    runner.upgrade(made.database)
    yield made
    made.close()


def _create(app: AiJobApp, **payload: object):
    wanted = CreateJobInput(
        user_id="u", job_type="synthetic", target_type="t", target_id="1", payload={"value": 7, **payload}
    )
    return app.jobs.create_job(wanted).job


def test_stock_rq_worker_brings_a_job_to_its_end(app: AiJobApp, redis_url: str, project_root: Path) -> None:
    job = _create(app)
    make_outbox_dispatcher(app).run_once()
    server = urlsplit(redis_url)

    worker = subprocess.run(
        [sys.executable, "-m", "rq.cli", "worker", "--burst", "--serializer", "json",
         "--url", f"redis://{server.hostname}:{server.port}{server.path}", "ai-background"],
        cwd=project_root, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert app.jobs.get(job.id).lifecycle_status == "succeeded", worker.stderr
    assert app.jobs.output(job.id) == {"value": 7}


def test_ticket_of_a_job_that_has_ended_is_a_quiet_no_op(app: AiJobApp) -> None:
    job = _create(app)
    app.jobs.request_cancel(job.id)

    run_one({"v": 1, "jobId": str(job.id), "jobType": "synthetic", "deliveryNo": 1, "createdAt": 0})

    assert app.jobs.get(job.id).lifecycle_status == "cancelled"


@pytest.mark.parametrize("ticket", [{}, {"jobId": "no uuid"}, {"jobId": "01900000-0000-7000-8000-000000000000"}])
def test_damaged_or_unknown_ticket_never_raises(app: AiJobApp, ticket: dict[str, object]) -> None:
    run_one(ticket)
