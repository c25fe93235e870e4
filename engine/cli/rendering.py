"""Jobs, their timelines and results as text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engine.cli.output import Output, one_line
from engine.lifecycle.circumstances import Explanation, span
from engine.upkeep.timeline import Moment
from registry.job import JobView, LifecycleStatus

_LETTERS = "ABCDEF"


def explanation(out: Output, why: Explanation, *, now: datetime) -> None:
    """Code, sentence, next step with its time, and the command that helps."""
    out.line(f"{why.code.value}: {why.sentence}", style="bold" if why.needs_person else None)
    if why.next_step:
        when = f" (in {span(why.at - now)} at the latest)" if why.at is not None and why.at > now else ""
        out.line(f"  next, by itself: {why.next_step}{when}")
    if why.command:
        out.line(f"  {'to do' if why.needs_person else 'if wanted'}: {why.command}")


def waits_for(job: JobView) -> str:
    """What a job that counts as running waits for while no worker holds it; else nothing."""
    if job.lifecycle_status is not LifecycleStatus.RUNNING or job.lock_until is not None:
        return ""
    return job.wait_kind.value if job.wait_kind else "a worker"


def moment(at: Moment, start: datetime) -> str:
    """One line of a timeline; times count from ``start``."""
    seconds = (at.at - start).total_seconds()
    return f"{f'+{seconds:.3f}s':>10}  {at.what:<10} {_SAYS.get(at.what, _any)(at.detail)}".rstrip()


def _any(detail: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {one_line(value)}" for name, value in detail.items() if value is not None)


def _created(detail: Mapping[str, Any]) -> str:
    return f"job, input and outbox event in one transaction, for queue {detail['queue']}"


def _published(detail: Mapping[str, Any]) -> str:
    return f"ticket on queue {detail['queue']}, delivery {detail['deliveryNo']}"


def _claimed(detail: Mapping[str, Any]) -> str:
    why = "" if detail["reason"] == "first" else f", because of {detail['reason']}"
    return f"attempt {detail['attempt']} by {detail['worker']}{why}"


def _called(detail: Mapping[str, Any]) -> str:
    return f"{_provider(detail)}, noted before a byte left"


def _answered(detail: Mapping[str, Any]) -> str:
    tokens = f"{detail['inputTokens'] or 0} tokens in, {detail['outputTokens'] or 0} out"
    failed = f", {detail['errorCode']}" if detail["errorCode"] else ""
    return f"{_provider(detail)}: {tokens}, {detail['latencyMs']} ms{failed}"


def _provider(detail: Mapping[str, Any]) -> str:
    return one_line(detail.get("model") or detail["provider"])


def _released(detail: Mapping[str, Any]) -> str:
    return f"attempt {detail['attempt']} ended" + (f" with {detail['errorCode']}" if detail["errorCode"] else "")


def _ended(detail: Mapping[str, Any]) -> str:
    if detail["errorCode"]:
        return str(detail["errorCode"])
    rows = ", ".join(f"{count} {kind}" for kind, count in (detail["artifacts"] or {}).items())
    what = f"output, {rows} rows, usage and event" if rows else "output, usage and event"
    return f"{what} in one transaction"


_SAYS = {
    "created": _created, "published": _published, "claimed": _claimed, "called": _called,
    "answered": _answered, "released": _released, "succeeded": _ended, "failed": _ended,
}  # fmt: skip


def result(out: Output, output: Any) -> None:
    """A job's output: cards and quizzes as people read them, anything else as JSON."""
    if isinstance(output, dict) and isinstance(output.get("cards"), list):
        _cards(out, output["cards"])
    elif isinstance(output, dict) and isinstance(output.get("questions"), list):
        _questions(out, output["questions"])
    else:
        out.line(json.dumps(output, ensure_ascii=False, indent=2 if out.to_terminal else None))


def _cards(out: Output, cards: list[dict[str, Any]]) -> None:
    for number, card in enumerate(cards, 1):
        out.line(f"{number:>2}. {one_line(card['front'])}")
        out.line(f"    -> {one_line(card['back'])}", style="green")


def _questions(out: Output, questions: list[dict[str, Any]]) -> None:
    for number, question in enumerate(questions, 1):
        out.line(f"{number:>2}. {one_line(question['question'])}")
        for index, option in enumerate(question["options"]):
            right = index == question["correct_index"]
            mark, style = ("*", "green") if right else (" ", None)
            out.line(f"    {mark} {_LETTERS[index]}. {one_line(option)}", style=style)
        if question.get("explanation"):
            out.line(f"      {one_line(question['explanation'])}", style="dim")
