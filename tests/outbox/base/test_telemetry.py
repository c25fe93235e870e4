"""Facts are counted and handed on; who listens cannot fail who tells."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.base.telemetry import Telemetry


def test_facts_are_counted_and_told_to_listeners() -> None:
    telemetry, heard = Telemetry(), []
    telemetry.listen(lambda name, ids: heard.append((name, dict(ids))))

    telemetry.emit("job.locked", job_id="j")
    telemetry.emit("job.locked", 3)

    assert heard == [("job.locked", {"count": 1, "job_id": "j"}), ("job.locked", {"count": 3})]
    assert telemetry.count("job.locked") == 4
    assert telemetry.counts() == {"job.locked": 4}
    assert telemetry.count("never") == 0


def test_a_failing_listener_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    telemetry, heard = Telemetry(), []

    def fails(_name: str, _ids: Any) -> None:
        raise ValueError

    telemetry.listen(fails)
    telemetry.listen(lambda name, _ids: heard.append(name))

    telemetry.emit("job.locked")

    assert heard == ["job.locked"]
    assert "a telemetry listener failed on job.locked" in caplog.text
