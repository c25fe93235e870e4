"""The statements of ``AiJobLifecycleRepository``, built once. No other module runs them.

No SET refers to a column that the same SET changes, but to itself: MySQL assigns from left to right. No
bound value has a column's name: SQLAlchemy would take it for one more assignment.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from engine.lifecycle.births import Birth
from engine.lifecycle.models import AI_JOB
from engine.lifecycle.states import LEGACY, LEGACY_CANCEL_REQUESTED, OUTCOMES, TIMED_WAITS
from engine.lifecycle.values import BIRTH, NewJob
from outbox.base.bulk import RowInsert
from outbox.base.clock import moment, stamp
from outbox.base.keyed import Keyed, one_of, pair_of, words
from outbox.base.unindexed import unindexed
from registry.job import LifecycleStatus, StartReason

_C = AI_JOB.c

_RUNNING = LifecycleStatus.RUNNING.value
_QUEUED = LifecycleStatus.QUEUED.value
_OPEN = words(_QUEUED, _RUNNING)

_ids = sa.bindparam("ids", expanding=True, type_=_C.id.type)
_job_id = sa.bindparam("job_id", type_=_C.id.type)
_epoch = sa.bindparam("held_epoch", type_=sa.Integer())


def ending_words(status: LifecycleStatus) -> dict[str, Any]:
    """The legacy shadow and the outcome of a final state."""
    return {"shadow": LEGACY[status], "ended_outcome": OUTCOMES[status].value}


def _moves_to(status: LifecycleStatus) -> dict[str, Any]:
    return {"lifecycle_status": status.value, "status": LEGACY[status]}


#: A job that was asked to stop keeps saying so when it starts again.
_STARTS: dict[str, Any] = {
    "lifecycle_status": _RUNNING,
    "status": sa.case(
        (_C.cancel_requested_at.is_(None), LEGACY[LifecycleStatus.RUNNING]), else_=LEGACY_CANCEL_REQUESTED
    ),
}


def _ends_as(status: LifecycleStatus) -> dict[str, Any]:
    return _moves_to(status) | {"outcome": OUTCOMES[status].value} | _ENDED


#: What every ended job has: no lease, nothing to look after, a time.
_ENDED: dict[str, Any] = {
    "wait_kind": None, "locked_by": None, "lock_until": None, "upkeep_at": None,
    "finished_at": stamp("now_us"),
}  # fmt: skip

#: What every job has that nobody holds.
_UNHELD: dict[str, Any] = {"locked_by": None, "locked_at": None, "lock_until": None, "heartbeat_at": None}

_FAILURE: dict[str, Any] = {
    "error_code": sa.bindparam("ended_error"),
    "public_error_message": sa.bindparam("public_error"),
    "internal_error_message": sa.bindparam("internal_error"),
    "outcome": sa.bindparam("ended_outcome"),
}

#: The fence. A parked or handed-back job keeps its epoch but has no lease, so its old claim is over too.
_HELD = (_C.lifecycle_status == _RUNNING, _C.lock_until.is_not(None))
_BY_LEASE = (_C.id == _job_id, _C.epoch == _epoch, *_HELD)
_BY_LEASES = (pair_of(_C.id, _C.epoch), *_HELD)
_LEASE_ENDED = sa.and_(_C.lock_until.is_not(None), _C.lock_until <= moment("now_us"))

# ------------------------------------------------------------------ creating

INSERT_JOB = RowInsert(
    AI_JOB,
    [name for name in NewJob.__dataclass_fields__ if name != "available_at"],
    expressions={
        "available_at": sa.func.coalesce(
            sa.bindparam("available_at", type_=_C.available_at.type), stamp("now_us")
        ),
        "created_at": stamp("now_us"),
    },
    constants=BIRTH,
    unless_exists="idempotency_digest",
    returning=["id", "created_at", "available_at"],
)

_BIRTH = sa.select(*(_C[name] for name in Birth._fields))

BIRTHS = _BIRTH.where(_C.id.in_(_ids))

HOLDERS = _BIRTH.where(
    _C.idempotency_digest.in_(sa.bindparam("digests", expanding=True, type_=_C.idempotency_digest.type))
)

HOLDERS_LOCKED = HOLDERS.with_for_update()

WITHDRAW = sa.delete(AI_JOB).where(_C.id.in_(_ids), _C.lifecycle_status == _QUEUED, _C.epoch == 0)

GIVE_UP_KEY = (
    sa.update(AI_JOB)
    .where(_C.id == _job_id, _C.lifecycle_status == LifecycleStatus.FAILED.value)
    .values(idempotency_digest=None)
)

# ------------------------------------------------------------------ claiming

_UNDER_LEASE: dict[str, Any] = {
    "epoch": _C.epoch + 1,
    "locked_at": stamp("now_us"),
    "heartbeat_at": stamp("now_us"),
    "lock_until": stamp("lease_us"),
    "upkeep_at": stamp("lease_us"),
}

_at = sa.bindparam("at", type_=_C.lock_until.type)
_lease_ends = sa.bindparam("lease_ends", type_=_C.lock_until.type)

#: Its times are those of the look at the rows, which the claimer goes by.
TAKE = Keyed(
    sa.update(AI_JOB)
    .where(
        pair_of(_C.id, _C.epoch),
        # A claimer that stood still since then gets no lease that is over before its first heartbeat.
        moment("now_us") < sa.bindparam("latest", type_=_C.lock_until.type),
        _C.lifecycle_status.in_(_OPEN),
        sa.or_(_C.lock_until.is_(None), _C.lock_until <= moment("now_us")),
        sa.or_(_C.wait_kind.is_(None), _C.wait_kind.in_(words(*sorted(TIMED_WAITS)))),
        _C.available_at <= moment("now_us"),
    )
    .values(
        **_STARTS,
        epoch=_C.epoch + 1,
        locked_at=_at,
        heartbeat_at=_at,
        lock_until=_lease_ends,
        upkeep_at=_lease_ends,
        wait_kind=None,
        locked_by=sa.bindparam("worker"),
        attempt_count=_C.attempt_count + sa.bindparam("counted", type_=sa.Integer()),
        # Should this claim vanish without a word, the next one starts because of a crash.
        start_reason=StartReason.CRASH.value,
        progress=0,
        started_at=sa.func.coalesce(_C.started_at, _at),
    )
)

#: Finds no row that another transaction holds: who takes one unseen must not wait for it.
FREE = Keyed(sa.select(_C.id).where(one_of(_C.id)).with_for_update(skip_locked=True))

#: A job that was created, and nothing else has happened to it.
TAKE_UNTOUCHED = Keyed(
    sa.update(AI_JOB)
    .where(
        one_of(_C.id),
        _C.epoch == 0,
        _C.lifecycle_status == _QUEUED,
        _C.lock_until.is_(None),
        _C.wait_kind.is_(None),
        _C.start_reason == StartReason.FIRST.value,
        _C.delivery_no == 1,
        _C.available_at <= moment("now_us"),
        _C.job_type == sa.bindparam("known_type"),
    )
    .values(
        **_STARTS,
        **_UNDER_LEASE,
        locked_by=sa.bindparam("worker"),
        attempt_count=1,
        start_reason=StartReason.CRASH.value,
        progress=0,
        started_at=stamp("now_us"),
    )
)

HELD = Keyed(sa.select(_C.id, _C.epoch).where(*_BY_LEASES, _C.locked_by == sa.bindparam("worker")))

ATTEMPTS = sa.select(_C.attempt_count).where(_C.id == _job_id)

RETRY_IN_PLACE = (
    sa.update(AI_JOB)
    .where(*_BY_LEASE, _C.cancel_requested_at.is_(None), _C.attempt_count < _C.max_attempts)
    .values(**_UNDER_LEASE, attempt_count=_C.attempt_count + 1, progress=0)
)

EPOCH = sa.select(_C.epoch, _C.attempt_count).where(_C.id == _job_id).with_for_update()

CLAIM_DOOMED = (
    sa.update(AI_JOB)
    .where(
        _C.id == _job_id,
        _C.lifecycle_status.in_(_OPEN),
        sa.or_(_C.lock_until.is_(None), _C.lock_until <= moment("now_us")),
    )
    .values(
        **_STARTS, **_UNDER_LEASE, wait_kind=None,
        locked_by=sa.bindparam("worker"), started_at=sa.func.coalesce(_C.started_at, stamp("now_us")),
    )
)  # fmt: skip

# ------------------------------------------------------------------ while it runs

HEARTBEAT = Keyed(
    sa.update(AI_JOB)
    .where(*_BY_LEASES)
    .values(lock_until=stamp("lease_us"), upkeep_at=stamp("lease_us"), heartbeat_at=stamp("now_us"))
)

_ALIVE = sa.select(_C.id, _C.epoch, _C.cancel_requested_at).where(*_BY_LEASES)

ALIVE = Keyed(_ALIVE)

ALIVE_LOCKED = Keyed(_ALIVE.with_for_update())

PROGRESS = (
    sa.update(AI_JOB)
    .where(*_BY_LEASE, _C.progress <= sa.bindparam("percent", type_=sa.Integer()))
    .values(progress=sa.bindparam("percent", type_=sa.Integer()), progress_note=sa.bindparam("note"))
)

PARK = (
    sa.update(AI_JOB)
    # Parked for an attempt that it has not got, a job would be brought back and refused for ever.
    .where(
        *_BY_LEASE,
        _C.cancel_requested_at.is_(None),
        _C.attempt_count + sa.bindparam("counted", type_=sa.Integer()) <= _C.max_attempts,
    )
    .values(
        **_UNHELD, wait_kind=sa.bindparam("kind"), start_reason=sa.bindparam("reason"),
        available_at=stamp("available_us"), upkeep_at=stamp("look_us"), delivery_no=_C.delivery_no + 1,
    )
)  # fmt: skip

RELEASE = (
    sa.update(AI_JOB)
    .where(*_BY_LEASE)
    .values(
        **_UNHELD, start_reason=StartReason.RESUME.value, upkeep_at=stamp("look_us"),
        delivery_no=_C.delivery_no + 1,
    )
)  # fmt: skip

DELIVERY_NO = sa.select(_C.delivery_no).where(_C.id == _job_id)

# ------------------------------------------------------------------ ending

SUCCEED = Keyed(
    sa.update(AI_JOB)
    .where(*_BY_LEASES, _C.cancel_requested_at.is_(None))
    .values(**_ends_as(LifecycleStatus.SUCCEEDED), progress=100)
)

FAIL = (
    sa.update(AI_JOB)
    .where(*_BY_LEASE, _C.cancel_requested_at.is_(None))
    .values(_ends_as(LifecycleStatus.FAILED) | _FAILURE)
)

CANCEL_RUNNING = (
    sa.update(AI_JOB)
    .where(*_BY_LEASE, _C.cancel_requested_at.is_not(None))
    .values(**_ends_as(LifecycleStatus.CANCELLED))
)

CANCEL_IDLE = (
    sa.update(AI_JOB)
    .where(_C.id == _job_id, _C.lifecycle_status.in_(_OPEN), _C.lock_until.is_(None))
    .values(
        **_ends_as(LifecycleStatus.CANCELLED),
        epoch=_C.epoch + 1,
        cancel_requested_at=sa.func.coalesce(_C.cancel_requested_at, stamp("now_us")),
    )
)

ASK_CANCEL = (
    sa.update(AI_JOB)
    .where(_C.id == _job_id, _C.lifecycle_status == _RUNNING, _C.lock_until.is_not(None))
    .values(
        cancel_requested_at=sa.func.coalesce(_C.cancel_requested_at, stamp("now_us")),
        status=LEGACY_CANCEL_REQUESTED,
    )
)

# ------------------------------------------------------------------ recovery

UNLOCKED = sa.select(_C.id).where(_C.id.in_(_ids)).with_for_update(skip_locked=True)

TAKE_OVER = (
    sa.update(AI_JOB)
    .where(*_BY_LEASE, _LEASE_ENDED, _C.cancel_requested_at.is_(None))
    .values(
        **_UNHELD, epoch=_C.epoch + 1, start_reason=StartReason.CRASH.value, upkeep_at=stamp("look_us"),
        delivery_no=_C.delivery_no + 1,
    )
)  # fmt: skip

END_ABANDONED = (
    sa.update(AI_JOB)
    .where(
        *_BY_LEASE,
        _LEASE_ENDED,
        # Cancelled where it was asked, failed where it was not; a cancel may have come since the row was read.
        sa.case((_C.cancel_requested_at.is_(None), LifecycleStatus.FAILED.value),
                else_=LifecycleStatus.CANCELLED.value) == sa.bindparam("final"),
    )
    .values(
        _ENDED | _FAILURE
        | {"lifecycle_status": sa.bindparam("final"), "status": sa.bindparam("shadow"), "epoch": _C.epoch + 1}
    )
)  # fmt: skip

REDELIVER = (
    sa.update(AI_JOB)
    .where(
        _C.id == _job_id,
        _C.delivery_no == sa.bindparam("old_delivery", type_=sa.Integer()),
        _C.lifecycle_status.in_(_OPEN),
        _C.lock_until.is_(None),
    )
    .values({_C.delivery_no: _C.delivery_no + 1, _C.upkeep_at: stamp("look_us")})
)

DELIVERED = Keyed(
    sa.update(AI_JOB)
    .where(one_of(_C.id), _C.lifecycle_status == _QUEUED, _C.lock_until.is_(None))
    .values(upkeep_at=stamp("look_us"))
)

LOOK_LATER = Keyed(
    sa.update(AI_JOB)
    .where(
        one_of(_C.id),
        _C.lifecycle_status.in_(_OPEN),
        _C.lock_until.is_(None),
        unindexed(_C.upkeep_at) <= moment("now_us"),
    )
    .values(upkeep_at=stamp("look_us"))
)

STATE = sa.select(_C.lifecycle_status, _C.epoch, _C.cancel_requested_at).where(_C.id == _job_id)
