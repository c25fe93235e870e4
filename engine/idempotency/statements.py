"""The statements on ``idempotency_record``. Every write of a holder names its token and ``running`` (X54)."""

from __future__ import annotations

import sqlalchemy as sa

from engine.idempotency.models import IDEMPOTENCY_RECORD
from engine.idempotency.record import RecordStatus
from outbox.base.bulk import RowInsert
from outbox.base.clock import moment, stamp

_C = IDEMPOTENCY_RECORD.c

_ROW = sa.select(
    _C.id, _C.fingerprint, _C.status, _C.claim_token, _C.job_id, _C.sent_at,
    _C.answer_status, _C.answer_type, _C.answer_headers, _C.answer_body,
    sa.case((_C.lease_until > moment("now_us"), sa.true()), else_=sa.false()).label("live"),
    sa.case((_C.expires_at <= moment("now_us"), sa.true()), else_=sa.false()).label("expired"),
).where(_C.digest == sa.bindparam("row_digest", type_=_C.digest.type))  # fmt: skip

FIND = _ROW
#: Sees a rival's commit on every database (CI-1).
FIND_LOCKED = _ROW.with_for_update()

INSERT = RowInsert(
    IDEMPOTENCY_RECORD,
    ["id", "caller", "route", "idempotency_key", "digest", "fingerprint", "status", "claim_token"],
    expressions={
        "lease_until": stamp("lease_us"),
        "created_at": stamp("now_us"),
        "expires_at": stamp("expires_us"),
    },
    unless_exists="digest",
)

_id = sa.bindparam("record_id", type_=_C.id.type)
_token = sa.bindparam("held_token", type_=_C.claim_token.type)
_RUNNING = RecordStatus.RUNNING.value
_HELD = (_C.id == _id, _C.claim_token == _token, _C.status == _RUNNING)

#: Only after the lease was missed, and only from the holder that was looked at (X55).
TAKE_OVER = (
    sa.update(IDEMPOTENCY_RECORD)
    .where(*_HELD, _C.lease_until <= moment("now_us"), _C.expires_at > moment("now_us"))
    .values(
        claim_token=sa.bindparam("new_token", type_=_C.claim_token.type),
        lease_until=stamp("lease_us"),
        expires_at=stamp("expires_us"),
    )
)

DROP_EXPIRED = sa.delete(IDEMPOTENCY_RECORD).where(_C.id == _id, _C.expires_at <= moment("now_us"))

RENEW = (
    sa.update(IDEMPOTENCY_RECORD)
    .where(*_HELD)
    .values(lease_until=stamp("lease_us"), expires_at=stamp("expires_us"))
)

LINK = (
    sa.update(IDEMPOTENCY_RECORD).where(*_HELD).values(job_id=sa.bindparam("linked_job", type_=_C.job_id.type))
)

MARK_SENT = sa.update(IDEMPOTENCY_RECORD).where(*_HELD).values(sent_at=stamp("now_us"))

COMPLETE = (
    sa.update(IDEMPOTENCY_RECORD)
    .where(*_HELD)
    .values(
        status=RecordStatus.COMPLETED.value,
        lease_until=None,
        answer_status=sa.bindparam("status_code"),
        answer_type=sa.bindparam("media_type"),
        answer_headers=sa.bindparam("header_list"),
        answer_body=sa.bindparam("body_bytes", type_=_C.answer_body.type),
        completed_at=stamp("now_us"),
        expires_at=stamp("expires_us"),
    )
)

#: Nothing was sent and no job was made: the key is as if it had never been used.
FORGET = sa.delete(IDEMPOTENCY_RECORD).where(*_HELD, _C.job_id.is_(None), _C.sent_at.is_(None))
#: The same although a job was made, whose end is known and final.
FORGET_JOB = sa.delete(IDEMPOTENCY_RECORD).where(*_HELD)
#: Somebody else may go on from here at once.
HAND_OVER = sa.update(IDEMPOTENCY_RECORD).where(*_HELD).values(lease_until=stamp("now_us"))

HELD = sa.select(_C.id, _C.job_id).where(*_HELD)
STATUS = sa.select(_C.status, _C.claim_token).where(_C.id == _id)

EXPIRED = (
    sa.select(_C.id)
    .where(_C.expires_at <= moment("now_us"))
    .order_by(_C.expires_at)
    .limit(sa.bindparam("limit"))
)
PURGE = sa.delete(IDEMPOTENCY_RECORD).where(
    _C.id.in_(sa.bindparam("ids", expanding=True, type_=_C.id.type)),
    _C.expires_at <= moment("now_us"),
)


def display(text: str, chars: int) -> str:
    """``text`` for a column that people read; identity never depends on it."""
    return text if len(text) <= chars else text[: chars - 1] + "…"
