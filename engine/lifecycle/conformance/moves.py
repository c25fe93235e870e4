"""Every act in every situation: what is legal works, what is not is refused by the statement itself."""

from __future__ import annotations

import pytest

from engine.lifecycle.conformance.words import Bench, Promises, Situation
from engine.lifecycle.states import LEGACY, LEGACY_CANCEL_REQUESTED, MOVES
from registry.job import LifecycleStatus

_QUEUED = ("claim_doomed", "request_cancel", "redeliver", "stamp_delivered", "withdraw")
_HOLDER = (
    "retry_in_place", "heartbeat", "report_progress", "park", "wait", "release", "mark_succeeded",
    "mark_failed", "request_cancel",
)  # fmt: skip
_UNHELD = ("claim_doomed", "request_cancel", "redeliver")
_ASKED = ("heartbeat", "report_progress", "release", "mark_cancelled")

#: situation -> the acts that change the job; every other act leaves every column as it was.
LEGAL: dict[Situation, tuple[str, ...]] = {
    Situation.QUEUED: ("claim", "claim_untouched", *_QUEUED),
    Situation.DELAYED: _QUEUED,
    Situation.LIVE: _HOLDER,
    # Its holder may go on as long as nobody else came.
    Situation.ENDED: (*_HOLDER, "claim", "claim_doomed", "take_over", "end_failed"),
    Situation.FREE: ("claim", *_UNHELD),
    Situation.HANDED_BACK: ("claim", *_UNHELD),
    Situation.PARKED: _UNHELD,
    Situation.PARKED_DUE: ("claim", *_UNHELD),
    Situation.WAITING: _UNHELD,
    Situation.ASKED: _ASKED,
    Situation.ASKED_ENDED: (*_ASKED, "claim", "claim_doomed", "end_cancelled"),
    Situation.SUCCEEDED: (),
    Situation.FAILED: ("give_up_key",),
    Situation.CANCELLED: (),
}

#: act -> the state it leads to; all others keep the state.
LEADS_TO: dict[str, LifecycleStatus] = {
    "claim": LifecycleStatus.RUNNING,
    "claim_untouched": LifecycleStatus.RUNNING,
    "claim_doomed": LifecycleStatus.RUNNING,
    "mark_succeeded": LifecycleStatus.SUCCEEDED,
    "mark_failed": LifecycleStatus.FAILED,
    "mark_cancelled": LifecycleStatus.CANCELLED,
    "end_failed": LifecycleStatus.FAILED,
    "end_cancelled": LifecycleStatus.CANCELLED,
}

#: Asking twice is answered like asking once, and changes nothing.
_ASKS_AGAIN = {(s, "request_cancel") for s in (Situation.ASKED, Situation.ASKED_ENDED)}
#: Acts that answer nothing.
_SILENT = ("withdraw", "stamp_delivered")
_METHODS = {"end_failed": "end_abandoned", "end_cancelled": "end_abandoned", "wait": "park"}


class MovePromises(Promises):
    """All situations times all acts."""

    @pytest.mark.parametrize("situation", Situation, ids=lambda s: s.name.lower())
    def test_only_legal_acts_change_a_job(self, bench: Bench, situation: Situation) -> None:
        """Every act is tried on a job of its own; a refused one leaves every column as it was."""
        changed = []
        for name, act in bench.acts().items():
            lease = bench.a_job(situation)
            before = bench.row(lease.job_id)

            answer = bench.run(act, lease)

            differs = bench.row(lease.job_id) != before
            if differs:
                changed.append(name)
            if name not in _SILENT:
                assert bool(answer) is (differs or (situation, name) in _ASKS_AGAIN), (name, answer)
        assert set(changed) == set(LEGAL[situation])

    @pytest.mark.parametrize("situation", Situation, ids=lambda s: s.name.lower())
    def test_a_legal_act_leads_to_its_state_and_writes_the_legacy_shadow(
        self, bench: Bench, situation: Situation
    ) -> None:
        """The move is one of ``states.MOVES``, made by the method named there."""
        for name in LEGAL[situation]:
            if name == "withdraw":
                continue
            lease = bench.a_job(situation)

            bench.run(bench.acts()[name], lease)

            row = bench.row(lease.job_id)
            assert row is not None
            status = LifecycleStatus(row["lifecycle_status"])
            assert status is LEADS_TO.get(name, _after(situation, name)), name
            asked = row["cancel_requested_at"] is not None and status is LifecycleStatus.RUNNING
            assert row["status"] == (LEGACY_CANCEL_REQUESTED if asked else LEGACY[status]), name
            if status is not situation.status:
                assert _METHODS.get(name, name) in MOVES[situation.status][status]

    def test_every_move_of_the_table_is_made_by_some_legal_act(self) -> None:
        """``states.MOVES`` names no move and no method that does not exist."""
        made = {
            (situation.status, LEADS_TO.get(name, _after(situation, name)), _METHODS.get(name, name))
            for situation, names in LEGAL.items()
            for name in names
        }
        for source, targets in MOVES.items():
            for target, methods in targets.items():
                for method in methods:
                    assert (source, target, method) in made

    @pytest.mark.parametrize("situation", Situation, ids=lambda s: s.name.lower())
    def test_an_older_epoch_writes_nothing(self, bench: Bench, situation: Situation) -> None:
        """WL-1. Whatever the situation, a lease of an earlier epoch is void."""
        fenced = [*_HOLDER[:-1], "mark_cancelled", "take_over", "end_failed", "end_cancelled"]
        for name in fenced:
            lease = bench.a_job(situation)
            before = bench.row(lease.job_id)

            answer = bench.run(bench.acts()[name], type(lease)(lease.job_id, lease.epoch - 1))

            assert not answer, name
            assert bench.row(lease.job_id) == before, name

    def test_no_act_finds_a_job_that_is_not_there(self, bench: Bench) -> None:
        """A missing row is an answer, not an error."""
        missing = bench.a_job(Situation.QUEUED)
        bench.run(bench.acts()["withdraw"], missing)

        for name, act in bench.acts().items():
            assert not bench.run(act, missing), name


def _after(situation: Situation, act: str) -> LifecycleStatus:
    """The state after an act whose result depends on the situation."""
    if act != "request_cancel":
        return situation.status
    held = situation in (Situation.LIVE, Situation.ENDED)
    return LifecycleStatus.RUNNING if held else LifecycleStatus.CANCELLED
