"""What a racing process runs: for `Children.call`, whose arguments travel as JSON.

The process forks its rivals itself, after the imports and before any thread or connection exists.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
from typing import Any

from engine.app import AiJobApp
from engine.config import Settings
from engine.intake.commands import CreateJobInput

_FORK = multiprocessing.get_context("fork")


def create_keys(url: str, keys: list[str], processes: int, threads: int) -> None:
    """Create a job for every key in every thread of every process; print what each key led to."""
    gate, answers = _FORK.Barrier(processes), _FORK.Queue()
    crowd = [
        _FORK.Process(target=_create_keys, args=(url, keys, threads, gate, answers)) for _ in range(processes)
    ]
    for rival in crowd:
        rival.start()
    print(json.dumps([answers.get(timeout=60) for _ in crowd]), flush=True)
    for rival in crowd:
        rival.join()


def _create_keys(url: str, keys: list[str], threads: int, gate: Any, answers: Any) -> None:
    app = AiJobApp(settings=Settings(database_url=url, redis_url="memory://"))
    app.uow.run(lambda conn: None)
    found: dict[str, list[str]] = {key: [] for key in keys}
    errors: list[str] = []

    def race() -> None:
        for key in keys:
            wanted = CreateJobInput(
                user_id="user-1", job_type="synthetic", target_type="note", target_id="note",
                payload={"value": "same"}, idempotency_key=key,
            )  # fmt: skip
            try:
                made = app.jobs.create_job(wanted)
                found[key].append(f"{made.job.id} {'made' if made.created else 'found'}")
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")

    gate.wait(60)
    crowd = [threading.Thread(target=race) for _ in range(threads)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    app.close()
    answers.put({"errors": errors, "found": found})
