"""Bad input is refused in code, with the same error on every database, and nothing is written (DB-6, CI-4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from engine.errors import (
    CreateError,
    InvalidCreateFieldError,
    InvalidPayloadError,
    JobNotFoundError,
    PayloadTooLargeError,
    WaitTimeoutError,
)
from engine.intake.commands import JobOverrides
from outbox.base.canonical import parse
from registry.errors import AiJobsError, UnknownJobTypeError
from tests.support.world import World

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SURROGATE = "\ud800"

FIELDS: list[tuple[str, Any]] = [
    *[(field, bad) for field in ("user_id", "target_type", "target_id", "idempotency_key")
      for bad in ("", " ", "\t", "a\x00b", "a\nb", "\x7f", SURROGATE, 7, b"bytes", ["list"])],
    *[(field, None) for field in ("user_id", "target_type", "target_id")],
    ("user_id", "u" * 129), ("target_type", "t" * 65), ("target_id", "t" * 256),
    ("idempotency_key", "k" * 256), ("idempotency_key", "漢" * 256),
    ("available_at", datetime(2030, 1, 1, 12)), ("available_at", "2030-01-01T12:00:00Z"),
    ("available_at", 1_900_000_000), ("available_at", datetime(9999, 12, 31, tzinfo=UTC)),
    ("available_at", datetime(1, 1, 1, tzinfo=UTC)),
]  # fmt: skip

OVERRIDES: list[tuple[str, Any]] = [
    *[("priority", bad) for bad in (-1, 101, 50.0, True, "50", 2**70)],
    *[("credential_mode", bad) for bad in ("user_deepseek_key", "", "PLATFORM_KEY", 1)],
    *[(name, bad) for name in ("credential_id", "prompt_version", "output_schema_version")
      for bad in ("", "v" * 65, "a\x00b", 1)],
]  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


PAYLOADS: list[tuple[str, str, Any]] = [
    ("not its model", "synthetic", {"sleep_ms": -1}),
    ("an unknown field", "synthetic", {"valeu": 1}),
    ("no mapping", "synthetic", [1]),
    ("none", "synthetic", None),
    ("text", "synthetic", '{"value": 1}'),
    ("NaN", "anything", {"value": float("nan")}),
    ("deep infinity", "anything", {"value": {"a": [1, {"b": float("-inf")}]}}),
    ("a lone surrogate", "anything", {"value": SURROGATE}),
    ("a lone surrogate in a name", "anything", {"value": {SURROGATE: 1}}),
    ("NUL", "anything", {"value": "a\x00b"}),
    ("beyond 64 bits", "anything", {"value": 2**63}),
    ("too deep", "anything", {"value": nested(250)}),
    ("far too deep", "anything", {"value": nested(5_000)}),
    ("a circle", "anything", {"value": circle()}),
    ("no JSON", "anything", {"value": object()}),
    ("bytes that are no text", "anything", {"value": b"\xff\xfe"}),
    ("a validator with a mistake", "picky", {"text": "x"}),
]


def refused(world: World, expected: type[AiJobsError], **wanted: Any) -> AiJobsError:
    """The refusal; nothing may have been written."""
    before = world.counts()
    with pytest.raises(expected) as error:
        world.create(**wanted)
    assert world.counts() == before
    return error.value


@pytest.mark.parametrize(("field", "bad"), FIELDS, ids=lambda v: repr(v)[:24])
def test_a_wrong_field_is_named(typed: World, field: str, bad: Any) -> None:
    """CI-4, DB-6, DB-8. Lengths, control characters, naive times: refused before any write."""
    error = refused(typed, InvalidCreateFieldError, **{field: bad})

    assert error.details["field"] == field
    assert str(error).startswith(f"{field}: ")


@pytest.mark.parametrize(("name", "bad"), OVERRIDES, ids=lambda v: repr(v)[:24])
def test_a_wrong_override_is_named(typed: World, name: str, bad: Any) -> None:
    error = refused(typed, InvalidCreateFieldError, overrides=JobOverrides(**{name: bad}))

    assert error.details["field"] == f"overrides.{name}"


def test_a_users_key_is_needed_with_its_mode(typed: World) -> None:
    wanted = JobOverrides(credential_mode="user_deepseek_key")

    error = refused(typed, InvalidCreateFieldError, job_type="keyed", payload={}, overrides=wanted)

    assert error.details["field"] == "overrides.credential_id"


@pytest.mark.parametrize(
    ("job_type", "payload"), [(t, p) for _, t, p in PAYLOADS], ids=[name for name, _, _ in PAYLOADS]
)
def test_a_payload_that_cannot_be_kept_is_refused(
    typed: World, job_type: str, payload: Any
) -> None:
    """WL-14, PC-6. Alike on all databases, without its text in the message."""
    error = refused(typed, InvalidPayloadError, job_type=job_type, payload=payload)

    assert error.details["field"] == "payload"
    assert str(error)
    assert "a\x00b" not in str(error)


def test_the_message_names_the_place_and_never_the_value(typed: World) -> None:
    """Promise 7. A payload is somebody's text."""
    error = refused(typed, InvalidPayloadError, payload={"sleep_ms": "my secret diary"})

    assert "payload.sleep_ms" in str(error)
    assert "diary" not in str(error)


@pytest.mark.parametrize(
    "job_type", ["nobody_knows", "", "Bad Type", "../x", None, 3, ["x"], "synthetic "]
)
def test_an_unknown_type_is_refused(typed: World, job_type: Any) -> None:
    refused(typed, UnknownJobTypeError, job_type=job_type)


def test_a_payload_beyond_the_limit_is_refused_by_its_bytes(typed: World) -> None:
    """WL-15. The limit is in bytes of canonical UTF-8, so that it means the same for every script."""
    envelope = len('{"value":""}')
    limit = 1024 * 1024

    fits = typed.create(job_type="anything", payload={"value": "字" * ((limit - envelope) // 3)})
    too_long = {"value": "字" * ((limit - envelope) // 3 + 1)}

    assert typed.job(fits.id).lifecycle_status == "queued"
    error = refused(typed, PayloadTooLargeError, job_type="anything", payload=too_long)
    assert f"{limit}" in str(error)


def test_values_exactly_at_their_limits_work_in_full(typed: World) -> None:
    """CI-4. Limits are in characters; four-byte characters count as one, and nothing is cut."""
    job = typed.create(
        user_id="😀" * 128, target_type="漢" * 64, target_id="é" * 255, key="🔑" * 255
    )

    stored = typed.job(job.id)
    assert (stored.user_id, stored.target_type, stored.target_id, stored.idempotency_key) == (
        "😀" * 128, "漢" * 64, "é" * 255, "🔑" * 255,
    )  # fmt: skip
    other = typed.create(user_id="😀" * 128, target_type="漢" * 64, key="🔑" * 254)
    assert other.id != job.id


def test_one_wrong_request_of_many_refuses_them_all(typed: World) -> None:
    before = typed.counts()
    wanted = [typed.request(), typed.request(payload={"sleep_ms": -1}), typed.request()]

    with pytest.raises(InvalidPayloadError):
        typed.app.jobs.create_jobs(wanted)

    assert typed.counts() == before


def test_an_error_of_creation_is_one_family(typed: World) -> None:
    """A caller that catches `CreateError` and commits its own rows catches them all."""
    for error in (InvalidCreateFieldError, InvalidPayloadError, PayloadTooLargeError):
        assert issubclass(error, CreateError)
        assert error.code != CreateError.code


def test_instants_are_stored_as_the_same_instants(typed: World) -> None:
    """DB-8, DB-7. +08:00 and UTC name one moment; six digits stay."""
    local = datetime(2031, 5, 6, 20, 0, 0, 123456, tzinfo=timezone(timedelta(hours=8)))

    job = typed.create(available_at=local)

    assert typed.job(job.id).available_at == local
    assert typed.job(job.id).available_at.utcoffset() == timedelta(0)
    [event] = typed.deliveries(job.id)
    assert event.available_at == local
    assert event.deliver_score == int(local.timestamp() * 1000) + 50_000


def test_text_of_every_script_comes_back_unchanged(typed: World) -> None:
    """DB-9. Chinese, emoji, right to left, combining marks; also where the server's default is latin1."""
    text = "中文 😀 עברית e\u0301 ñ \u202e done"

    job = typed.create(job_type="anything", payload={"value": text}, target_id=text)

    [snapshot] = typed.rows("ai_job_snapshot", job_id=job.id)
    assert snapshot["content"].decode() == f'{{"value":"{text}"}}'
    assert typed.job(job.id).target_id == text


def test_big_numbers_and_null_keep_their_digits(typed: World) -> None:
    """PC-6. What the handler reads is what the caller wrote, on every database."""
    value = {
        "int": 2**63 - 1,
        "min": -(2**63),
        "float": 0.1,
        "tiny": 5e-324,
        "none": None,
        "true": True,
    }

    job = typed.create(job_type="anything", payload={"value": value})

    [snapshot] = typed.rows("ai_job_snapshot", job_id=job.id)
    assert parse(snapshot["content"]) == {"value": value}


@pytest.mark.parametrize("wanted", [{"job_type": "synthetic"}, None, "synthetic", 7])
def test_what_is_no_request_is_refused_as_one(typed: World, wanted: Any) -> None:
    with pytest.raises(InvalidCreateFieldError, match="must be a CreateJobInput"):
        typed.app.jobs.create_job(wanted)


@pytest.mark.parametrize("bad", [{}, {"priority": 5}, "priority"])
def test_overrides_of_the_wrong_kind_are_named(typed: World, bad: Any) -> None:
    assert refused(typed, InvalidCreateFieldError, overrides=bad).details["field"] == "overrides"


def test_an_id_may_be_given_as_text(typed: World) -> None:
    job = typed.create()

    assert typed.app.jobs.get(str(job.id)).id == job.id  # type: ignore[arg-type]
    assert typed.app.jobs.request_cancel(job.id.hex).id == job.id  # type: ignore[arg-type]
    assert typed.app.jobs.retry_as_new(str(job.id)).created  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["", "7", "no uuid", 7, None, b"bytes", ["list"]])
def test_what_cannot_be_an_id_names_no_job(typed: World, bad: Any) -> None:
    jobs = typed.app.jobs
    for ask in (
        jobs.get,
        jobs.output,
        jobs.request_cancel,
        jobs.retry_as_new,
        lambda id_: jobs.wait(id_, 0),
    ):
        with pytest.raises(JobNotFoundError):
            ask(bad)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_no_time_to_wait_is_over_at_once(typed: World, timeout: float) -> None:
    with pytest.raises(WaitTimeoutError):
        typed.app.jobs.wait(typed.create().id, timeout)
