"""Tickets as bytes: JSON in RQ's call format, readable by older and newer releases."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from rq.utils import utcformat

from outbox.errors import TransportMisconfigured
from outbox.transports.conformance.words import NOON, make_ticket
from outbox.transports.rq.wire import checked_entry, decode_call, encode_call, iso

ENTRY = "engine.worker.entry.run_one"
TRACE = f"00-{'a1' * 16}-{'b2' * 8}-01"


def test_a_call_is_rqs_and_names_nothing_but_the_ticket() -> None:
    ticket = make_ticket(traceparent=TRACE, delivery_no=4)

    assert json.loads(encode_call(ENTRY, ticket)) == [
        ENTRY,
        None,
        [
            {
                "v": 1,
                "jobId": str(ticket.job_id),
                "jobType": "synthetic",
                "deliveryNo": 4,
                "createdAt": NOON,
                "traceparent": TRACE,
            }
        ],
        {},
    ]


@pytest.mark.parametrize("trace", [None, TRACE])
def test_a_call_is_read_as_it_was_written(trace: str | None) -> None:
    call = encode_call(ENTRY, make_ticket(traceparent=trace))

    assert decode_call(call.encode()) == (NOON, trace)


@pytest.mark.parametrize(
    "trace", ["", "secret of a user", f'{TRACE}"}}', TRACE.upper(), f"{TRACE}\n"]
)
def test_a_malformed_trace_context_is_left_out(trace: str) -> None:
    call = encode_call(ENTRY, make_ticket(traceparent=trace))

    assert json.loads(call)[2][0]["traceparent"] is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"jobId": "x", "createdAt": NOON, "futureField": {"a": 1}}, (NOON, None)),
        ({"v": 9, "traceparent": TRACE, "createdAt": NOON}, (NOON, TRACE)),
        ({"v": 1, "traceparent": "free text", "createdAt": "yesterday"}, (0, None)),
        ({}, (0, None)),
        ("not an object", (0, None)),
    ],
)
def test_calls_of_other_releases_are_read(body: object, expected: tuple[int, str | None]) -> None:
    call = json.dumps(["some.other.entry", None, [body], {}], indent=1)

    assert decode_call(call.encode()) == expected


@pytest.mark.parametrize("call", [b"", b"[]", b"{", b"\x80\x05]", b"[1,2,[],{}]", b"\xff"])
def test_damaged_calls_stop_nothing(call: bytes) -> None:
    assert decode_call(call) == (0, None)


@pytest.mark.parametrize("ms", [0, 999, NOON, NOON + 7, 4_102_444_800_123])
def test_dates_are_rqs(ms: int) -> None:
    assert iso(ms) == utcformat(datetime.fromtimestamp(ms / 1000, UTC))


@pytest.mark.parametrize("entry", ["", "run", 'a.b"', "a.b()", "a b.c", "a..b", ".a.b", "a.b\n"])
def test_an_entry_that_is_no_dotted_path_is_refused(entry: str) -> None:
    with pytest.raises(TransportMisconfigured):
        checked_entry(entry)
