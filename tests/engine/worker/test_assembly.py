"""What a worker is made of is loaded when it is used, and what is wrong is refused when it is made."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from engine import AiJobApp, Settings
from engine.errors import SettingsError
from engine.worker.assembly import make_provider
from tests.support.processes import ROOT
from tests.support.programs import clean_environment

_RUN = """
import sys
from engine import AiJobApp, CreateJobInput, Settings
from engine.migrations import runner
from engine.worker.assembly import make_outbox_dispatcher, make_worker
from cryptography.fernet import Fernet

app = AiJobApp(settings=Settings(
    database_url="sqlite:///" + sys.argv[1], redis_url="memory://", openai_api_key="sk-x",
    credential_keys=Fernet.generate_key().decode(),
))
runner.upgrade(app.database)
job = app.jobs.create_job(CreateJobInput(
    user_id="u", job_type="synthetic", target_type="t", target_id="1", payload={"value": 1})).job
make_outbox_dispatcher(app).run_once()
make_worker(app, ["ai-background", "ai-interactive"]).run(burst=True)
assert app.jobs.output(job.id) == {"value": 1}
print(sorted({"openai", "httpx", "httpx2"} & set(sys.modules)))
"""


def test_a_worker_that_calls_no_model_does_not_load_the_client_it_is_configured_for(tmp_path: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path / "jobs.db")], capture_output=True, text=True, cwd=ROOT,
        env=clean_environment(), timeout=120, check=True,
    )  # fmt: skip

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("url", ["ftp://models", "models.example", "https://me:pw@models", "https://models?key=1"])
def test_a_model_server_whose_address_is_wrong_is_refused_before_the_first_call(url: str) -> None:
    app = AiJobApp(settings=Settings(openai_base_url=url, openai_api_key="sk-x"))

    with pytest.raises(SettingsError, match="base URL"):
        make_provider(app)
