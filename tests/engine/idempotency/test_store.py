"""The life of a key on every database: one claim, a token in every write, nothing kept that is no answer."""

from __future__ import annotations

import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from engine.errors import IdempotencyConflictError
from engine.idempotency.errors import IdempotencyClaimLost
from engine.idempotency.guard import Decision, InProgress, OutcomeUnknown, Replay
from engine.idempotency.models import IDEMPOTENCY_RECORD
from engine.idempotency.record import Answer, Claim
from engine.idempotency.request import KeyedRequest
from engine.idempotency.store import IdempotencyOptions, IdempotencyStore
from outbox.base.clock import DatabaseClock
from outbox.base.db import UnitOfWork

REQUEST = KeyedRequest("u1", "POST /x", "key-1", b"1" * 32)
OTHER_BODY = replace(REQUEST, fingerprint=b"2" * 32)
ANSWER = Answer(201, b'{"b": 1,  "a": "\xc3\xa4"}\n', "application/json", (("location", "/j/1"),))
LEASE_MS, DAY_MS = 60_000, 86_400_000


def claimed(result: Claim | Decision) -> Claim:
    assert isinstance(result, Claim), result
    return result


def rows(engine: sa.Engine) -> int:
    with engine.connect() as conn:
        return int(conn.execute(sa.select(sa.func.count()).select_from(IDEMPOTENCY_RECORD)).scalar_one())


def test_first_request_claims_and_the_same_one_learns_that_it_runs(store: IdempotencyStore) -> None:
    first = claimed(store.claim(REQUEST))

    assert (first.job_id, first.taken_over) == (None, False)
    assert store.claim(REQUEST) == InProgress()


def test_other_body_is_refused_while_the_first_runs_and_after_it(store: IdempotencyStore) -> None:
    claim = claimed(store.claim(REQUEST))
    with pytest.raises(IdempotencyConflictError):
        store.claim(OTHER_BODY)

    store.complete(claim, ANSWER)

    with pytest.raises(IdempotencyConflictError):
        store.claim(OTHER_BODY)


def test_answer_is_replayed_to_the_byte(store: IdempotencyStore) -> None:
    assert store.complete(claimed(store.claim(REQUEST)), ANSWER)

    assert store.claim(REQUEST) == Replay(ANSWER)


@pytest.mark.parametrize("body", [b"", bytes(range(256)), b"x" * 1_000_000, None])
def test_any_body_comes_back_as_it_was(store: IdempotencyStore, body: bytes | None) -> None:
    answer = Answer(200, body)
    store.complete(claimed(store.claim(REQUEST)), answer)

    assert store.claim(REQUEST) == Replay(answer)


def test_keys_that_differ_in_case_caller_or_route_are_apart(store: IdempotencyStore) -> None:
    others = [
        replace(REQUEST, key="KEY-1"),
        replace(REQUEST, caller="u2"),
        replace(REQUEST, caller="U1"),
        replace(REQUEST, route="POST /y"),
        replace(REQUEST, route="POST /" + "x" * 5000),
        replace(REQUEST, route="POST /" + "x" * 5001),
    ]

    claims = [claimed(store.claim(request)) for request in [REQUEST, *others]]

    assert len({claim.record_id for claim in claims}) == 7


# -- leases


def test_claim_is_not_taken_over_because_it_is_old(
    store: IdempotencyStore, clock: DatabaseClock
) -> None:
    claim = claimed(store.claim(REQUEST))
    for _ in range(20):
        clock.advance(LEASE_MS - 1_000)
        assert store.renew(claim)

        assert store.claim(REQUEST) == InProgress()


def test_missed_lease_is_taken_over_and_the_late_owner_changes_nothing(
    store: IdempotencyStore, clock: DatabaseClock
) -> None:
    late = claimed(store.claim(REQUEST))
    clock.advance(LEASE_MS + 1_000)

    second = claimed(store.claim(REQUEST))

    assert (second.record_id, second.taken_over) == (late.record_id, True)
    assert not store.renew(late)
    assert not store.complete(late, Answer(200, b"late"))
    with pytest.raises(IdempotencyClaimLost):
        store.mark_sent(late)
    store.let_go(late)
    assert store.claim(REQUEST) == InProgress()
    assert store.complete(second, ANSWER)
    assert not store.complete(late, Answer(200, b"late"))
    assert store.claim(REQUEST) == Replay(ANSWER)


def test_of_many_that_would_take_over_one_does(
    store: IdempotencyStore, clock: DatabaseClock
) -> None:
    store.claim(REQUEST)
    clock.advance(LEASE_MS + 1_000)

    results = at_once(12, lambda _: store.claim(REQUEST))

    assert Counter(type(result) for result in results) == {Claim: 1, InProgress: 11}


def test_other_body_is_refused_also_when_the_first_died(
    store: IdempotencyStore, clock: DatabaseClock
) -> None:
    store.claim(REQUEST)
    clock.advance(LEASE_MS + 1_000)

    with pytest.raises(IdempotencyConflictError):
        store.claim(OTHER_BODY)


# -- races


def at_once(count: int, act: Any) -> list[Any]:
    barrier = Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_of_many_at_once_one_claims(store: IdempotencyStore, engine: sa.Engine) -> None:
    for key in ("a", "b", "c"):
        request = replace(REQUEST, key=key)

        results = at_once(12, lambda _, request=request: store.claim(request))

        assert Counter(type(result) for result in results) == {Claim: 1, InProgress: 11}
    assert rows(engine) == 3


def test_key_deleted_between_look_and_claim_is_claimed(
    engine: sa.Engine, clock: DatabaseClock
) -> None:
    """AH-6: every look finds a key that is gone a moment later; the answer comes from the row that won."""
    holder = IdempotencyStore(UnitOfWork(engine), clock)
    claim = claimed(holder.claim(REQUEST))
    clock.advance(LEASE_MS + 1_000)

    class Racing(UnitOfWork):
        def read(self, look: Any) -> Any:
            found = super().read(look)
            holder.let_go(claim)
            return found

    result = IdempotencyStore(Racing(engine), clock).claim(REQUEST)

    assert claimed(result).record_id != claim.record_id
    assert holder.claim(REQUEST) == InProgress()


def test_claim_whose_commit_was_not_answered_is_found_again(
    engine: sa.Engine, clock: DatabaseClock
) -> None:
    """CI-9: the answer to COMMIT is lost once; the request still has its claim, and only one."""
    lost = []

    def lose_once(conn: sa.Connection) -> None:
        if not lost:
            lost.append(True)
            conn.connection.commit()
            conn.invalidate()
            raise sa.exc.OperationalError(
                "COMMIT", {}, sqlite3.OperationalError("gone"), connection_invalidated=True
            )

    sa.event.listen(engine, "commit", lose_once)

    claim = claimed(IdempotencyStore(UnitOfWork(engine), clock).claim(REQUEST))

    assert lost
    assert IdempotencyStore(UnitOfWork(engine), clock).renew(claim)
    assert rows(engine) == 1


# -- endings without an answer


def test_request_without_effects_frees_its_key(store: IdempotencyStore, engine: sa.Engine) -> None:
    claim = claimed(store.claim(REQUEST))

    store.let_go(claim)

    assert rows(engine) == 0
    assert claimed(store.claim(OTHER_BODY)).record_id != claim.record_id


def test_request_that_has_sent_something_is_not_run_again(
    store: IdempotencyStore, clock: DatabaseClock
) -> None:
    claim = claimed(store.claim(REQUEST))
    store.mark_sent(claim)
    assert store.claim(REQUEST) == InProgress()

    store.let_go(claim)

    assert store.claim(REQUEST) == OutcomeUnknown()
    with pytest.raises(IdempotencyConflictError):
        store.claim(OTHER_BODY)


def test_request_that_died_after_sending_is_not_run_again(
    store: IdempotencyStore, clock: DatabaseClock
) -> None:
    store.mark_sent(claimed(store.claim(REQUEST)))
    clock.advance(LEASE_MS + 1_000)

    assert store.claim(REQUEST) == OutcomeUnknown()


def test_request_that_sent_something_and_has_an_answer_is_replayed(store: IdempotencyStore) -> None:
    claim = claimed(store.claim(REQUEST))
    store.mark_sent(claim)
    store.complete(claim, ANSWER)

    assert store.claim(REQUEST) == Replay(ANSWER)


def test_job_of_a_dead_request_is_handed_to_the_next(
    store: IdempotencyStore, engine: sa.Engine, clock: DatabaseClock
) -> None:
    claim, job_id = claimed(store.claim(REQUEST)), uuid4()
    with engine.begin() as conn:
        store.link(conn, claim, job_id)
    assert store.claim(REQUEST) == InProgress(job_id)

    clock.advance(LEASE_MS + 1_000)

    second = claimed(store.claim(REQUEST))
    assert (second.job_id, second.record_id, second.taken_over) == (job_id, claim.record_id, True)


def test_request_with_a_job_hands_it_over_at_once_when_it_ends_without_an_answer(
    store: IdempotencyStore, engine: sa.Engine
) -> None:
    claim, job_id = claimed(store.claim(REQUEST)), uuid4()
    with engine.begin() as conn:
        store.link(conn, claim, job_id)

    store.let_go(claim)

    assert claimed(store.claim(REQUEST)).job_id == job_id


def test_key_is_free_when_its_job_is_known_to_have_failed(
    store: IdempotencyStore, engine: sa.Engine
) -> None:
    claim = claimed(store.claim(REQUEST))
    with engine.begin() as conn:
        store.link(conn, claim, uuid4())

    store.let_go(claim, job_is_settled=True)

    second = claimed(store.claim(REQUEST))
    assert (second.job_id, second.record_id == claim.record_id) == (None, False)


def test_late_owner_cannot_link_a_job(
    store: IdempotencyStore, engine: sa.Engine, clock: DatabaseClock
) -> None:
    late = claimed(store.claim(REQUEST))
    clock.advance(LEASE_MS + 1_000)
    store.claim(REQUEST)

    with pytest.raises(IdempotencyClaimLost), engine.begin() as conn:
        store.link(conn, late, uuid4())


# -- the end of a record's time


def test_key_is_kept_for_a_day_after_completion_not_after_the_start(
    store: IdempotencyStore, clock: DatabaseClock
) -> None:
    claim = claimed(store.claim(REQUEST))
    for _ in range(30):
        clock.advance(LEASE_MS - 1_000)
        store.renew(claim)
    store.complete(claim, ANSWER)

    clock.advance(DAY_MS - 5_000)
    assert store.claim(REQUEST) == Replay(ANSWER)
    clock.advance(10_000)
    again = claimed(store.claim(OTHER_BODY))
    assert again.record_id != claim.record_id
    assert not again.taken_over


def test_of_many_that_come_after_the_day_one_claims(
    store: IdempotencyStore, clock: DatabaseClock, engine: sa.Engine
) -> None:
    store.complete(claimed(store.claim(REQUEST)), ANSWER)
    clock.advance(DAY_MS + 1_000)

    results = at_once(8, lambda _: store.claim(REQUEST))

    assert Counter(type(result) for result in results) == {Claim: 1, InProgress: 7}
    assert rows(engine) == 1


def test_purge_takes_what_is_over_and_nothing_else(
    store: IdempotencyStore, clock: DatabaseClock, engine: sa.Engine
) -> None:
    done = [claimed(store.claim(replace(REQUEST, key=f"done-{n}"))) for n in range(3)]
    for claim in done:
        store.complete(claim, ANSWER)
    store.claim(replace(REQUEST, key="died"))
    clock.advance(DAY_MS / 2)
    live = claimed(store.claim(REQUEST))

    assert store.purge_expired() == 0
    clock.advance(DAY_MS / 2 + LEASE_MS + 1_000)
    assert store.renew(live)
    assert store.purge_expired(limit=2) == 2
    assert store.purge_expired() == 2
    assert store.purge_expired() == 0
    assert rows(engine) == 1
    assert store.claim(REQUEST) == InProgress()


def test_options_are_kept(engine: sa.Engine, clock: DatabaseClock) -> None:
    options = IdempotencyOptions(keep_ms=10_000, lease_ms=1_000)
    store = IdempotencyStore(UnitOfWork(engine), clock, options)
    claim = claimed(store.claim(REQUEST))
    clock.advance(1_500)
    second = claimed(store.claim(REQUEST))
    assert second.record_id == claim.record_id
    store.complete(second, ANSWER)
    clock.advance(11_000)

    assert isinstance(store.claim(REQUEST), Claim)
    assert options.renew_ms == 250
