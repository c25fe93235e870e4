"""``aijobs crashkit``: kill, freeze and cut off real processes, and look whether every promise held."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.cli.errors import Exit
from engine.cli.nouns import single
from engine.cli.session import Session
from engine.crashkit.campaign import Campaign, Outcome
from engine.crashkit.campaign import run as run_campaign
from engine.crashkit.chaos import ChaosPlan
from engine.crashkit.options import KitOptions, Places, Times
from engine.crashkit.stage import Verdict

command = single()

_TIMES = Times()


@command.command(
    epilog="Example: aijobs crashkit --database-url mysql://root@localhost/scratch --redis-url redis://localhost/9"
)
def crashkit(
    ctx: typer.Context,
    fault: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only faults of this name, such as 'kill worker.*'.")
    ] = None,
    matrix: Annotated[bool, typer.Option(help="Try the catalogue of faults.")] = True,
    controls: Annotated[bool, typer.Option(help="Leave protections out and see that it is noticed.")] = True,
    chaos: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Then hurt at random for so long.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the random faults.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs of the chaos run.")] = 400,
    workers: Annotated[int, typer.Option(min=1, help="Workers of the chaos run.")] = 3,
    dispatchers: Annotated[int, typer.Option(min=1, help="Dispatchers of the chaos run.")] = 2,
    at_once: Annotated[int, typer.Option(min=1, help="Faults tried at the same time.")] = 3,
    lease_ms: Annotated[int, typer.Option(min=600, help="Lease of the kit's workers.")] = _TIMES.lease_ms,
    slack_ms: Annotated[
        int, typer.Option(min=0, help="How much later than promised a busy machine may be.")
    ] = 5_000,
    prefix: Annotated[str, typer.Option(help="Prefix of the kit's keys in Redis.")] = "crashkit",
) -> int:
    """Prove on your own database and Redis that nothing is lost and nothing is done twice.

    Starts processes of its own, hurts them at every point of the path, and judges what tables and Redis say
    afterwards. Works on job types, tables (crashkit_*) and keys of its own and takes them away again; the
    engine's tables are made if they are not there. It refuses a database with other jobs unless --yes is
    given, because its upkeep would heal those as well. Exit code 1 when a promise was broken.
    """
    session: Session = ctx.obj
    settings = session.app.settings
    options = KitOptions(
        places=Places(database_url=settings.database_url, redis_url=settings.redis_url, prefix=prefix),
        times=Times(lease_ms=lease_ms, heartbeat_ms=lease_ms // 4),
        slack_ms=slack_ms,
        at_once=at_once,
    )
    plan = ChaosPlan(seed=seed, seconds=chaos, jobs=jobs, workers=workers, dispatchers=dispatchers)
    campaign = Campaign(
        faults=(fault or ("*",)) if matrix else (), controls=controls, chaos=plan if chaos else None
    )
    outcome = run_campaign(options, campaign, among_others=session.options.yes, tell=session.out.say)
    session.out.show(outcome.document(), lambda: _text(session, outcome))
    return Exit.DONE if outcome.held else Exit.UNEXPECTED


def _text(session: Session, outcome: Outcome) -> None:
    out = session.out
    if outcome.verdicts:
        out.table(
            ("FAULT", "", "JOBS", "CALLS", "REPEATED", "REFUSED", "RECOVERED", "PROMISED"),
            [_row(verdict) for verdict in outcome.verdicts],
        )
    if outcome.chaos is not None:
        _chaos(session, outcome)
    out.line()
    out.table(
        ("INVARIANT", "JUDGED", "BROKEN"),
        [(name.replace("_", " "), judged, broken) for name, judged, broken in outcome.invariants()],
    )
    if outcome.controls:
        out.line()
        out.table(
            ("CONTROL", "", "MUST BREAK"),
            [(c.verdict.fault, "ok" if c.noticed else "failed", c.control.breaks.replace("_", " "))
             for c in outcome.controls],
        )  # fmt: skip
    _breaches(session, outcome)
    for name in outcome.skipped:
        out.say(f"not tried on {outcome.database}: {name}")
    word = "every promise held" if outcome.held else "PROMISES WERE BROKEN"
    out.line(f"{word}, {outcome.took_s:.0f} s", style="bold green" if outcome.held else "bold red")


def _row(verdict: Verdict) -> tuple[object, ...]:
    return (
        verdict.fault, "ok" if verdict.survived else "failed", verdict.jobs, verdict.calls,
        verdict.repeated_calls or "", verdict.refused or "", _ms(verdict.recovery_ms), _ms(verdict.promised_ms),
    )  # fmt: skip


def _ms(value: int | None) -> str:
    return "" if value is None else f"{value / 1000:.1f} s"


def _chaos(session: Session, outcome: Outcome) -> None:
    report = outcome.chaos
    assert report is not None
    verdict, plan = report.verdict, report.plan
    done = ", ".join(f"{name} {times}" for name, times in sorted(report.faults.items()))
    share = 100 * verdict.repeated_calls / max(1, verdict.calls)
    session.out.line()
    session.out.fields(
        {
            "chaos": f"seed {plan.seed}, {plan.seconds:g} s, {plan.workers} workers, {plan.dispatchers} dispatchers",
            "hurt": done,
            "jobs": verdict.jobs,
            "provider calls": verdict.calls,
            "repeated": f"{verdict.repeated_calls} ({share:.1f} %), all in the hands of a killed or frozen process"
            if verdict.survived else verdict.repeated_calls,
            "late writes refused": verdict.refused,
            "starved by the machine": verdict.starved or None,
            "verdict": "ok" if verdict.survived else "failed",
        }
    )  # fmt: skip


def _breaches(session: Session, outcome: Outcome) -> None:
    broken = [v for v in outcome.verdicts if not v.survived]
    if outcome.chaos is not None and not outcome.chaos.verdict.survived:
        broken.append(outcome.chaos.verdict)
    for verdict in broken:
        session.out.line()
        session.out.line(f"{verdict.fault}", style="bold red")
        for breach in verdict.breaches:
            session.out.line(f"  {breach.invariant.replace('_', ' ')}: {breach.detail}")
        if verdict.stuck:
            session.out.line(f"  stuck: {verdict.stuck}")
