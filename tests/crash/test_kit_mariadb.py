"""The kill matrix on MariaDB and Redis with real processes, and its controls: it must be able to fail."""

from __future__ import annotations

import pytest

from engine.crashkit import campaign, chaos
from engine.crashkit.campaign import Campaign, Outcome
from engine.crashkit.chaos import ChaosPlan
from engine.crashkit.kit import Kit
from tests.crash.kits import PATIENCE_S, options, survive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE_S)]


@pytest.fixture
def server_url(mariadb_tables_url: str) -> str:
    return mariadb_tables_url


def test_killed_creators_and_dispatchers_lose_and_double_nothing(server_url: str, redis_url: str) -> None:
    survive(server_url, redis_url, "kill create.", "kill dispatcher.")


def test_killed_workers_lose_and_double_nothing(server_url: str, redis_url: str) -> None:
    survive(server_url, redis_url, "kill worker.")


def test_killed_upkeep_and_shutdowns_lose_and_double_nothing(server_url: str, redis_url: str) -> None:
    survive(server_url, redis_url, "kill upkeep.", "kill shutdown.")


def test_processes_frozen_past_their_lease_write_nothing_late(server_url: str, redis_url: str) -> None:
    survive(
        server_url, redis_url, "freeze worker.after_execute", "freeze worker.before_commit",
        "freeze worker.before_call", "freeze dispatcher.after_put",
    )  # fmt: skip


def test_lost_and_unreachable_redis_costs_no_job(server_url: str, redis_url: str) -> None:
    survive(server_url, redis_url, "Redis ")


def test_poison_unknown_types_and_wrong_clocks_hurt_no_other_job(server_url: str, redis_url: str) -> None:
    survive(server_url, redis_url, "a job kills", "workers of two", "clocks of hosts")


def test_every_protection_left_out_is_noticed(server_url: str, redis_url: str) -> None:
    # What never ends is waited for as long as this says.
    impatient = options(server_url, redis_url, slack_ms=8_000)
    found = campaign.run(impatient, Campaign(faults=(), controls=True))

    assert {(c.control.name, c.noticed) for c in found.controls} == {
        ("fence", True), ("lease", True), ("redelivery", True),
    }  # fmt: skip
    assert Outcome("mariadb", controls=found.controls).held


def test_random_faults_repeat_only_calls_that_were_in_harmed_hands(server_url: str, redis_url: str) -> None:
    with Kit(options(server_url, redis_url)) as kit:
        report = chaos.run(kit, ChaosPlan(seed=7, seconds=8, jobs=60, workers=2, dispatchers=2, slots=4))

    assert report.verdict.survived, (report.verdict.stuck, report.verdict.breaches)
    assert report.verdict.jobs == 60
    assert sum(report.faults.values()) > 3
