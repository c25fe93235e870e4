"""What is a result and what is not: decided in code, before any write, alike on every database."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from pydantic import BaseModel

from engine import JobContext
from engine.errors import ContentFiltered, ContentSafetyError, OutputTruncated
from outbox.base.canonical import canonical_bytes
from tests.engine.pipeline.samples import Answer, Ask, Number
from tests.support.world import World


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


class Floats(BaseModel):
    """Typed, which pydantic writes another way than untyped."""

    score: float
    many: list[float] = []


BAD: dict[str, tuple[type[BaseModel], Any]] = {
    "NaN, typed": (Floats, {"score": float("nan")}),
    "Infinity in a typed list": (Floats, {"score": 1.0, "many": [1.0, float("inf")]}),
    "NaN, untyped": (Answer, {"value": float("nan")}),
    "deep -Infinity, untyped": (Answer, {"value": {"a": [{"b": float("-inf")}]}}),
    "1e400": (Answer, {"value": float("1e400")}),
    "a lone surrogate": (Answer, {"value": "\ud800"}),
    "a surrogate in a name": (Answer, {"value": {"\udfff": 1}}),
    "NUL": (Answer, {"value": "a\x00b"}),
    "beyond 64 bits": (Answer, {"value": 2**64}),
    "too deep": (Answer, {"value": nested(300)}),
    "no JSON": (Answer, {"value": object()}),
    "a set of bytes": (Answer, {"value": {b"\xff"}}),
}


@pytest.mark.parametrize(("model", "output"), BAD.values(), ids=BAD.keys())
def test_what_no_database_could_keep_is_a_validation_error(
    shared_world: World, model: type[BaseModel], output: Any
) -> None:
    """WL-14, DB-6. The same code everywhere, and nothing of it stored."""
    world = shared_world
    job_type = f"bad_{hashlib.sha256(repr(sorted(map(str, output.items()))).encode()).hexdigest()[:12]}"
    if world.app.registry.find(job_type) is None:
        _unfreeze(world)
        world.app.job(job_type, input=Ask, output=model, max_retries=0)(lambda ctx: output)

    job = world.create(job_type=job_type, payload={})
    world.dispatch()
    world.work()

    job = world.job(job.id)
    assert (job.lifecycle_status, job.error_code) == ("failed", "VALIDATION_NOT_STORABLE")
    assert world.output(job.id) is None
    assert job.internal_error_message
    assert "a\x00b" not in job.internal_error_message


@pytest.mark.parametrize("output", [{"number": "x"}, {}, None, [1], "text", 7, Answer(value=1), Number])
@pytest.mark.databases("sqlite")
def test_what_does_not_match_the_model_is_a_validation_error(world: World, database_kind: str, output: Any) -> None:
    world.app.job("wrong", input=Ask, output=Number, max_retries=0)(lambda ctx: output)

    job = world.create(job_type="wrong", payload={})
    world.settle()

    assert world.job(job.id).error_code == "VALIDATION_OUTPUT"


def test_a_model_that_was_changed_after_its_validation_is_read_anew(world: World) -> None:
    def sloppy(ctx: JobContext[Ask]) -> Number:
        found = Number(number=1)
        found.number = "seven"  # type: ignore[assignment]
        return found

    world.app.job("sloppy", input=Ask, output=Number, max_retries=0)(sloppy)

    job = world.create(job_type="sloppy", payload={})
    world.settle()

    assert world.job(job.id).error_code == "VALIDATION_OUTPUT"


def test_an_output_of_a_megabyte_comes_back_byte_for_byte(world: World) -> None:
    """WL-15. Multi-byte text included; and one byte above the limit is refused in code."""
    text = "字😀é" * 120_000
    world.app.job("long", input=Ask, output=Answer, max_retries=0)(lambda ctx: Answer(value=text))

    job = world.create(job_type="long", payload={})
    world.settle()

    expected = canonical_bytes({"value": text})
    [row] = world.rows("ai_job_output", job_id=job.id)
    assert bytes(row["content"]) == expected
    assert len(expected) > 1_000_000
    assert world.job(job.id).output_hash == hashlib.sha256(expected).hexdigest()
    assert world.output(job.id) == {"value": text}


def test_an_output_beyond_the_limit_is_refused(make_world: Any) -> None:
    """WL-15. By its bytes, before any transaction."""
    world = make_world(worker={"output_limit_bytes": 100})
    envelope = len('{"value":""}')
    world.app.job("sized", input=Ask, output=Answer, max_retries=0)(
        lambda ctx: Answer(value="é" * ctx.input.value)
    )

    fits = world.create(job_type="sized", payload={"value": (100 - envelope) // 2})
    long = world.create(job_type="sized", payload={"value": (100 - envelope) // 2 + 1})
    world.settle()

    assert world.job(fits.id).lifecycle_status == "succeeded"
    assert world.job(long.id).error_code == "VALIDATION_TOO_LARGE"


def test_hashes_see_every_depth_and_no_order(world: World) -> None:
    """PC-3. Another value inside is another hash; members in another order are the same one."""
    outputs = [
        {"a": {"b": {"c": 1}}, "d": [1, 2]}, {"d": [1, 2], "a": {"b": {"c": 1}}},
        {"a": {"b": {"c": 2}}, "d": [1, 2]}, {"a": {"b": {"c": 1}}, "d": [2, 1]},
    ]  # fmt: skip
    world.app.job("hashed", input=Ask, output=Answer)(lambda ctx: Answer(value=outputs[ctx.input.value]))

    made = [world.create(job_type="hashed", payload={"value": n}) for n in range(4)]
    world.settle()

    hashes = [world.job(job.id).output_hash for job in made]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_an_output_is_redacted_before_it_is_hashed_and_stored(world: World) -> None:
    """X81."""

    def redact(value: Answer) -> Answer:
        return Answer(value=str(value.value).replace("secret", "***"))

    world.app.job("redacted", input=Ask, output=Answer, redact_output=redact, redaction_version="3")(
        lambda ctx: Answer(value="my secret diary")
    )

    job = world.create(job_type="redacted", payload={})
    world.settle()

    assert world.output(job.id) == {"value": "my *** diary"}
    [row] = world.rows("ai_job_output", job_id=job.id)
    assert row["redaction_version"] == "3"
    assert b"secret" not in bytes(row["content"])


@pytest.mark.parametrize(
    ("error", "code", "attempts"),
    [
        (OutputTruncated(), "VALIDATION_TRUNCATED", 2),
        (ContentFiltered(), "CONTENT_SAFETY_FILTERED", 1),
        (ContentSafetyError(), "CONTENT_SAFETY_BLOCKED", 1),
    ],
)
def test_an_answer_that_did_not_end_by_itself_is_no_result(
    world: World, error: Exception, code: str, attempts: int
) -> None:
    """WL-13. Cut off is tried again, filtered is final; the codes tell the two apart."""
    world.provider.say(error)

    @world.app.job("cut", input=Ask, output=Answer, max_retries=1, backoff_ms=1)
    async def cut(ctx: JobContext[Ask]) -> Answer:
        return Answer(value=await ctx.generate("Tell me."))

    job = world.create(job_type="cut", payload={})
    world.settle()

    job = world.job(job.id)
    assert (job.lifecycle_status, job.error_code, job.attempt_count) == ("failed", code, attempts)
    assert world.output(job.id) is None


def _unfreeze(world: World) -> None:
    """The module's world has worked already; its later types are still to come."""
    world.app.registry._frozen = False  # type: ignore[attr-defined]
