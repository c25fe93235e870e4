"""``aijobs doctor``: is everything as it must be, and what mends what is not?"""

from __future__ import annotations

from typing import Any

import typer

from engine.app import AiJobApp
from engine.cli.checkup import Finding, check_up
from engine.cli.errors import Exit
from engine.cli.failures import judge
from engine.cli.nouns import single
from engine.cli.session import Session
from engine.config import load_settings, unknown_variables

command = single()

_MARKS = {"ok": "\N{CHECK MARK}", "warning": "!", "failed": "\N{BALLOT X}"}
_STYLES = {"ok": "green", "warning": "yellow", "failed": "red"}


@command.command(epilog="Example: aijobs doctor --json")
def doctor(ctx: typer.Context) -> int:
    """Check application, database, tables, Redis and daemons; exit code 7 when something must be mended."""
    session: Session = ctx.obj
    findings = list(_findings(session))
    sound = all(finding.level != "failed" for finding in findings)
    session.out.show({"ok": sound, "checks": [_document(f) for f in findings]}, lambda: _text(session, findings))
    return Exit.DONE if sound else Exit.CHECK_FAILED


def _findings(session: Session) -> list[Finding]:
    session.tells_slips = True
    return [*_slips(), *_of_the_application(session)]


def _slips() -> list[Finding]:
    fix = "correct its name, or unset it; docs/settings.md lists all"
    return [Finding("warning", "settings", slip, fix) for slip in unknown_variables()]


def _of_the_application(session: Session) -> list[Finding]:
    try:
        app = session.app
    except Exception as error:  # noqa: BLE001 - whatever keeps the application from loading is a finding
        failure = judge(error)
        broken = Finding("failed", "application", failure.message, failure.fix)
        rest = _without_the_application(session)
        return [broken, *(finding for finding in rest if finding.name != "application")]
    return list(check_up(app))


def _without_the_application(session: Session) -> list[Finding]:
    """What can be said of the servers when the application itself cannot be loaded."""
    given = {"database_url": session.options.database_url, "redis_url": session.options.redis_url}
    try:
        app = AiJobApp(settings=load_settings(**{name: value for name, value in given.items() if value}))
    except Exception:  # noqa: BLE001 - the settings themselves are wrong, which was just said
        return []
    try:
        return list(check_up(app))
    finally:
        app.close()


def _text(session: Session, findings: list[Finding]) -> None:
    out = session.out
    if not out.to_terminal:
        out.table(("RESULT", "CHECK", "FINDING", "FIX"), [(f.level, f.name, f.text, f.fix) for f in findings])
        return
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        out.line(f"{_MARKS[finding.level]} {finding.name:<{width}}  {finding.text}", style=_STYLES[finding.level])
        if finding.fix:
            out.line(f"  {'':<{width}}  {finding.fix}")


def _document(finding: Finding) -> dict[str, Any]:
    return {"level": finding.level, "check": finding.name, "text": finding.text, "fix": finding.fix}
