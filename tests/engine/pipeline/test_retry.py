"""What follows a failed attempt: a pure decision, as a table (design 10)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from engine import errors
from engine.lifecycle.values import Failure
from engine.pipeline.retry import (
    DEFAULT_RATE_WAIT_MS,
    MAX_CLAIMS,
    Fail,
    Park,
    RetryInPlace,
    Situation,
    decide,
    describe,
)
from outbox.base.errors import DatabaseUnavailable
from projectors.errors import ProjectionConflict, ProjectionError
from registry.definition import JobDefinition
from registry.job import Outcome, StartReason, WaitKind


class Empty(BaseModel):
    pass


def definition(**policies: Any) -> JobDefinition:
    return JobDefinition.simple("t_t", input=Empty, output=Empty, handler=print, **policies)


def situation(**fields: Any) -> Situation:
    values: dict[str, Any] = {
        "definition": definition(), "attempt_no": 1, "max_attempts": 3, "epoch": 1, "earlier_codes": (),
        "backoff_ms": 1_000, "park_from_ms": 5_000, "max_retry_after_ms": 3_600_000,
    }  # fmt: skip
    return Situation(**(values | fields))


def decision(error: BaseException, **fields: Any) -> Any:
    return decide(error, situation(**fields), jitter=lambda: 0.0)


RETRIED = [
    errors.ProviderError(), errors.ProviderUnavailable(), errors.ProviderOutcomeUnknown(),
    errors.ProviderTimeout(), errors.OutputInvalid(), errors.OutputTruncated(), errors.OutputNotStorable(),
    errors.OutputTooLarge(), errors.JobTimeout(), ProjectionError(), ValueError("x"), DatabaseUnavailable(),
]  # fmt: skip
NEVER = [
    errors.ProviderRejected(), errors.ContentSafetyError(), errors.ContentFiltered(), errors.CredentialInvalid(),
    errors.CredentialMissing(), errors.CredentialUnreadable(), errors.CredentialQuotaExhausted(),
    errors.SnapshotError(), errors.SnapshotExpired(), errors.CommitInvalid(), errors.CommitConflict(),
    errors.CommitVersionMoved(), errors.CommitTransactionEnded(),
]  # fmt: skip


@pytest.mark.parametrize("error", RETRIED, ids=lambda e: type(e).__name__)
def test_passing_errors_are_tried_again_while_attempts_are_left(error: Exception) -> None:
    assert isinstance(decision(error), RetryInPlace)
    assert isinstance(decision(error, attempt_no=2), RetryInPlace)
    assert isinstance(decision(error, attempt_no=3), Fail)
    assert isinstance(decision(error, attempt_no=1, max_attempts=1), Fail)


@pytest.mark.parametrize("error", NEVER, ids=lambda e: type(e).__name__)
def test_lasting_errors_are_not_tried_again(error: Exception) -> None:
    assert isinstance(decision(error), Fail)


def test_a_conflict_of_business_rows_is_what_its_class_says() -> None:
    found = decision(ProjectionConflict())

    assert isinstance(found, RetryInPlace) is ProjectionConflict.retryable


@pytest.mark.parametrize("error", [ValueError("x"), errors.HandlerError(), DatabaseUnavailable()])
def test_an_internal_error_is_tried_again_once_in_a_jobs_life(error: Exception) -> None:
    """X25. A mistake in code is rarely mended by trying."""
    again = decision(error, earlier_codes=("PROVIDER_ERROR", "VALIDATION_OUTPUT"))
    never = decision(error, earlier_codes=("INTERNAL_HANDLER", "PROVIDER_ERROR"), attempt_no=2)

    assert isinstance(again, RetryInPlace)
    assert isinstance(never, Fail)


@pytest.mark.parametrize(("strategy", "kind"), [("retry", RetryInPlace), ("fail", Fail)])
def test_a_time_out_follows_its_definition(strategy: Any, kind: type) -> None:
    found = decision(errors.JobTimeout(), definition=definition(abort_strategy=strategy))

    assert isinstance(found, kind)
    assert found.failure.code == "TIMEOUT"


class TestBackoff:
    """X31: short waits sleep in place, long ones park."""

    def test_it_doubles_and_is_bounded(self) -> None:
        waits = [
            decision(errors.ProviderError(), attempt_no=n, max_attempts=99, park_from_ms=10**9).delay_ms
            for n in range(1, 15)
        ]

        assert waits[:4] == [1_000, 2_000, 4_000, 8_000]
        assert waits[-1] == 600_000

    def test_jitter_takes_off_at_most_a_fifth(self) -> None:
        found = decide(errors.ProviderError(), situation(), jitter=lambda: 1.0)

        assert found.delay_ms == 800  # type: ignore[union-attr]

    def test_from_five_seconds_on_the_job_is_parked(self) -> None:
        below = decision(errors.ProviderError(), backoff_ms=4_999)
        above = decision(errors.ProviderError(), backoff_ms=5_000)

        assert isinstance(below, RetryInPlace)
        assert (above.kind, above.reason, above.delay_ms) == (WaitKind.RETRY, StartReason.RETRY, 5_000)


class TestRateLimits:
    """WL-12: another budget, another wait."""

    @pytest.mark.parametrize(
        ("asked", "waits"),
        [(30_000, 30_000), (0, 0), (None, DEFAULT_RATE_WAIT_MS), (10**9, 3_600_000), (-5, 0)],
    )
    def test_the_wait_is_what_the_provider_asks_for_within_bounds(self, asked: int | None, waits: int) -> None:
        found = decision(errors.ProviderRateLimited(retry_after_ms=asked))

        assert (found.kind, found.reason, found.delay_ms) == (WaitKind.RATE, StartReason.RATE, waits)

    def test_it_uses_no_attempt_not_even_the_last(self) -> None:
        assert isinstance(decision(errors.ProviderRateLimited(), attempt_no=3), Park)

    def test_it_does_not_go_on_for_ever(self) -> None:
        found = decision(errors.ProviderRateLimited(), epoch=MAX_CLAIMS, attempt_no=3)

        assert isinstance(found, Fail)


class TestUnknownOutcomes:
    """WL-11, promise 5: sent, and no answer."""

    UNKNOWN = (errors.ProviderOutcomeUnknown(), errors.ProviderTimeout())

    @pytest.mark.parametrize("error", UNKNOWN, ids=lambda e: type(e).__name__)
    def test_they_are_repeated_only_where_the_type_allows_it(self, error: Exception) -> None:
        careful = definition(on_unknown_outcome="fail")

        assert isinstance(decision(error), RetryInPlace)
        found = decision(error, definition=careful)
        assert isinstance(found, Fail)
        assert found.failure.outcome is Outcome.INDETERMINATE

    @pytest.mark.parametrize("error", [errors.JobTimeout(), ValueError("x"), errors.OutputInvalid()])
    def test_a_call_that_is_still_in_flight_is_unknown_whatever_the_error(self, error: Exception) -> None:
        careful = definition(on_unknown_outcome="fail")

        found = decision(error, definition=careful, call_in_flight=True)

        assert isinstance(found, Fail)
        assert found.failure.outcome is Outcome.INDETERMINATE
        assert isinstance(decision(error, call_in_flight=True), RetryInPlace)

    def test_where_repeating_is_allowed_the_last_failure_is_an_ordinary_error(self) -> None:
        found = decision(errors.ProviderTimeout(), attempt_no=3)

        assert found.failure.outcome is Outcome.ERROR


class TestRecords:
    """What is written about an error."""

    def test_an_expired_input_is_an_expired_job(self) -> None:
        assert decision(errors.SnapshotExpired()).failure.outcome is Outcome.EXPIRED

    def test_validation_errors_are_kept_for_the_next_attempt(self) -> None:
        found = decision(errors.OutputInvalid(errors=["cards: too few", "title: missing"]))

        assert found.failure.errors == ("cards: too few", "title: missing")

    def test_the_text_of_a_foreign_error_is_not_kept(self) -> None:
        """Promise 7. It may hold an input or an output; its kind and place remain."""

        def fails() -> None:
            raise KeyError("my secret diary")

        with pytest.raises(KeyError) as raised:
            fails()
        found = describe(raised.value)

        assert found.code == "INTERNAL_HANDLER"
        assert "KeyError" in str(found.internal)
        assert "fails" in str(found.internal)
        assert "diary" not in f"{found}"

    def test_an_error_of_another_family_is_internal(self) -> None:
        assert describe(DatabaseUnavailable()).code == "INTERNAL_UNCLASSIFIED"

    def test_texts_are_cut_to_their_columns(self) -> None:
        wide = Failure("X", "p" * 900, "i" * 90_000, ["e" * 900] * 30).columns()

        assert len(wide["public_error"]) == 500
        assert len(wide["internal_error"]) == 60_000
        assert len(str(Failure("X", errors=["e" * 900] * 30).errors_json)) < 11_000
