"""What follows for a request with a key: every case of the decision, and what makes two requests the same."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.idempotency.errors import IdempotencyKeyInvalid
from engine.idempotency.guard import InProgress, Mismatch, OutcomeUnknown, Replay, Run, decide
from engine.idempotency.record import Answer, Record, RecordStatus, kept
from engine.idempotency.request import KeyedRequest, fingerprint, read_key

ONE, OTHER = b"1" * 32, b"2" * 32
JOB = uuid4()
ANSWER = Answer(201, b"{}", "application/json")
RUNNING = Record(
    id=uuid4(),
    fingerprint=ONE,
    status=RecordStatus.RUNNING,
    claim_token=uuid4(),
    job_id=None,
    sent=False,
    answer=None,
    live=True,
    expired=False,
)
DEAD = replace(RUNNING, live=False)
COMPLETED = replace(RUNNING, status=RecordStatus.COMPLETED, answer=ANSWER, live=False)


@pytest.mark.parametrize(
    ("record", "decision"),
    [
        (None, Run()),
        (RUNNING, InProgress()),
        (replace(RUNNING, job_id=JOB), InProgress(JOB)),
        (COMPLETED, Replay(ANSWER)),
        (DEAD, Run(DEAD)),
        (replace(DEAD, job_id=JOB), Run(replace(DEAD, job_id=JOB))),
        (replace(DEAD, sent=True), OutcomeUnknown()),
        (replace(DEAD, sent=True, job_id=JOB), Run(replace(DEAD, sent=True, job_id=JOB))),
        (replace(COMPLETED, expired=True), Run(replace(COMPLETED, expired=True))),
        (replace(DEAD, sent=True, expired=True), Run(replace(DEAD, sent=True, expired=True))),
    ],
)
def test_decision_for_the_same_request(record: Record | None, decision: object) -> None:
    assert decide(record, ONE) == decision


@pytest.mark.parametrize("record", [RUNNING, DEAD, COMPLETED, replace(DEAD, sent=True)])
def test_other_request_is_refused_before_anything_else_is_looked_at(record: Record) -> None:
    assert decide(record, OTHER) == Mismatch()


def test_expired_key_is_free_for_another_request() -> None:
    expired = replace(COMPLETED, expired=True)

    assert decide(expired, OTHER) == Run(expired)


# -- keys


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([], None),
        (["k"], "k"),
        (["k" * 255], "k" * 255),
        (['"quoted-1"'], "quoted-1"),
        ([r'"a\"b\\c"'], 'a"b\\c'),
        (['"'], '"'),
        ([" k "], "k"),
        (["k", "k"], "k"),
        (["k", '"k"'], "k"),
        (["8e03978e-40d5-43dd-bc93-6894a57f9324"], "8e03978e-40d5-43dd-bc93-6894a57f9324"),
    ],
)
def test_key_is_read(values: list[str], key: str | None) -> None:
    assert read_key(values) == key


@pytest.mark.parametrize(
    "values",
    [
        [""],
        ["  "],
        ['""'],
        ["k" * 256],
        ["a b"],
        ["a\tb"],
        ["ü"],
        ["a\x00b"],
        ["a\x7f"],
        ["a", "b"],
    ],
)
def test_malformed_key_is_refused(values: list[str]) -> None:
    with pytest.raises(IdempotencyKeyInvalid):
        read_key(values)


def digest(caller: str = "u", route: str = "POST /x", key: str = "k") -> bytes:
    return KeyedRequest(caller, route, key, ONE).digest


def test_keys_of_callers_and_routes_never_meet() -> None:
    digests = [
        digest(),
        digest(caller="v"),
        digest(route="POST /y"),
        digest(key="K"),
        digest(caller="u:POST", route="/x"),
        digest(caller="uk", key=""),
    ]

    assert len(set(digests)) == len(digests)


# -- fingerprints


def of(body: bytes, *, method: str = "POST", path: str = "/x", query: bytes = b"") -> bytes:
    return fingerprint(method=method, path=path, query=query, body=body)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
        ),
    )
)
def test_json_written_in_another_way_is_the_same_request(value: object) -> None:
    loose = json.dumps(value, indent=2).encode()
    tight = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()

    assert of(loose) == of(tight)


def test_other_content_or_place_is_another_request() -> None:
    prints = [
        of(b'{"a":1}'),
        of(b'{"a":2}'),
        of(b'{"a":{"b":1}}'),
        of(b'{"a":{"b":2}}'),
        of(b"{"),
        of(b""),
        of(b"\xff\xfe"),
        of(b'{"a":1}', method="PUT"),
        of(b'{"a":1}', path="/y"),
        of(b'{"a":1}', query=b"n=1"),
        of(b'json:{"a":1}'),
    ]

    assert len(set(prints)) == len(prints)


def test_endless_nesting_is_compared_as_bytes() -> None:
    deep = b"[" * 100_000

    assert of(deep) == of(deep) != of(deep + b"[")


def test_only_chosen_headers_are_kept() -> None:
    headers = [("Location", "/jobs/1"), ("set-cookie", "s"), ("date", "d"), ("ETag", '"1"')]

    assert kept(headers) == (("Location", "/jobs/1"), ("ETag", '"1"'))


@pytest.mark.parametrize(
    ("status", "successful"),
    [
        (199, False),
        (200, True),
        (204, True),
        (299, True),
        (304, False),
        (409, False),
        (429, False),
        (500, False),
    ],
)
def test_only_2xx_is_worth_keeping(status: int, successful: bool) -> None:
    assert Answer(status, b"").successful is successful
