"""How long healing takes, in the database's time: with the built-in figures and with ADR-114's profile.

Time is passed in, not waited for: a process that heals takes its rounds at its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from outbox.transports.memory import MemoryTransport
from registry.queues import ADR_114, DEFAULT_QUEUES, QueueSpec
from tests.support.world import World


@dataclass(frozen=True)
class Profile:
    name: str
    queue: QueueSpec
    upkeep_s: int

    @property
    def lease_s(self) -> int:
        return self.queue.lease_ms // 1000


def built_in(name: str) -> QueueSpec:
    return next(queue for queue in DEFAULT_QUEUES if queue.name == name)


BACKGROUND = built_in("ai-background")
PROFILES = [
    Profile("built-in background", BACKGROUND, 30),
    Profile("ADR-114", BACKGROUND.with_lease(ADR_114), 60),
]
REDELIVERY_S = 60
CLAIM_S = 60


@pytest.fixture(params=PROFILES, ids=lambda profile: profile.name)
def profile(request: pytest.FixtureRequest) -> Profile:
    found: Profile = request.param
    return found


@pytest.fixture
def world(make_world: Callable[..., World], profile: Profile) -> Iterator[World]:
    world = make_world(queues=(profile.queue,), upkeep={"interval_ms": profile.upkeep_s * 1000})
    assert world.app.settings.upkeep.redelivery_ms == REDELIVERY_S * 1000
    assert world.app.settings.dispatcher.claim_ttl_ms == CLAIM_S * 1000
    return world


def rounds_until(world: World, every_s: int, healed: Callable[[], bool], *, at_most: int) -> int:
    """Let upkeep take its rounds until `healed`; returns which round it was."""
    for number in range(1, at_most + 1):
        world.advance(every_s)
        world.upkeep()
        if healed():
            return number
    raise AssertionError(f"not healed after {at_most} rounds")


def bound(profile: Profile, after_s: int) -> int:
    """Rounds that fit into `after_s` and one round of upkeep more."""
    return math.floor((after_s + profile.upkeep_s) / profile.upkeep_s)


def test_lost_workers_job_is_taken_over_within_one_lease_and_one_round(world: World, profile: Profile) -> None:
    lease = world.claim(world.create().id, lease_ms=profile.queue.lease_ms)
    claim = world.claims(lease.job_id)[0]
    assert world.row(lease.job_id)["lock_until"].timestamp() >= claim.started_at.timestamp() + profile.lease_s - 1

    rounds_until(
        world,
        profile.upkeep_s,
        lambda: len(world.deliveries(lease.job_id)) == 2,
        at_most=bound(profile, profile.lease_s),
    )

    world.dispatch()
    world.work()
    assert world.job(lease.job_id).lifecycle_status == "succeeded"
    assert [c.start_reason for c in world.claims(lease.job_id)] == ["first", "crash"]


def test_live_lease_is_never_taken_however_long_the_job_runs(world: World, profile: Profile) -> None:
    lease = world.claim(world.create().id, lease_ms=profile.queue.lease_ms)
    heartbeat_s = profile.queue.heartbeat_ms // 1000

    for _ in range(math.ceil(3 * profile.lease_s / heartbeat_s)):
        world.advance(heartbeat_s)
        world.run(
            lambda conn: world.app.lifecycle.heartbeat(conn, [lease], lease_ms=profile.queue.lease_ms)
        )
        world.upkeep()

    job = world.job(lease.job_id)
    assert (job.lifecycle_status, job.epoch, job.attempt_count) == ("running", lease.epoch, 1)
    assert len(world.deliveries(lease.job_id)) == 1


def test_ticket_that_redis_lost_is_delivered_again_within_one_interval_and_one_round(
    world: World, profile: Profile
) -> None:
    job = world.create()
    world.dispatch()
    lose_everything(world)

    rounds_until(
        world,
        profile.upkeep_s,
        lambda: len(world.deliveries(job.id)) == 2,
        at_most=bound(profile, REDELIVERY_S),
    )

    world.dispatch()
    world.work()
    assert world.job(job.id).attempt_count == 1
    assert world.job(job.id).lifecycle_status == "succeeded"


def test_dead_dispatchers_events_are_released_within_its_claim_and_one_round(world: World, profile: Profile) -> None:
    job = world.create()
    claim = world.app.outbox.claim
    world.run(lambda conn: claim(conn, profile.queue.name, ["ai.job.enqueue"], limit=9, owner="gone"))

    rounds_until(
        world,
        profile.upkeep_s,
        lambda: world.deliveries(job.id)[0].status == "pending",
        at_most=bound(profile, CLAIM_S) + 1,
    )

    world.dispatch()
    world.work()
    assert world.job(job.id).lifecycle_status == "succeeded"


def test_parked_job_is_not_healed_before_its_time(world: World, profile: Profile) -> None:
    later = world.create(available_at=world.app.uow.read(world.app.clock.read).replace(year=2090))
    for _ in range(5):
        world.advance(profile.upkeep_s)
        world.upkeep()
        world.dispatch()
        world.work()

    assert world.job(later.id).lifecycle_status == "queued"
    assert len(world.deliveries(later.id)) == 1


def lose_everything(world: World) -> None:
    transport = world.transport
    assert isinstance(transport, MemoryTransport)
    transport.__init__()  # type: ignore[misc]
