"""A whole campaign: the catalogue of faults, the controls, a chaos run; and what it all came to."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.crashkit import chaos
from engine.crashkit.chaos import ChaosPlan, ChaosReport
from engine.crashkit.controlled import CONTROLLED, Control
from engine.crashkit.faults import CATALOGUE, Fault
from engine.crashkit.invariants import INVARIANTS, RECOVERY
from engine.crashkit.kit import Kit
from engine.crashkit.options import KitOptions
from engine.crashkit.stage import Verdict

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What is to be done; the patterns are those of file names, on names of faults."""

    faults: Sequence[str] = ("*",)
    controls: bool = True
    chaos: ChaosPlan | None = None

    def wanted(self) -> list[Fault]:
        """The faults that a pattern names."""
        return [f for f in CATALOGUE if any(fnmatch.fnmatchcase(f.name, p) for p in self.faults)]


@dataclass(frozen=True, slots=True)
class Controlled:
    """A control, and whether its loss was noticed."""

    control: Control
    verdict: Verdict

    @property
    def noticed(self) -> bool:
        return any(breach.invariant == self.control.breaks for breach in self.verdict.breaches)


@dataclass(slots=True)
class Outcome:
    """Everything a campaign found out."""

    database: str
    verdicts: list[Verdict] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    controls: list[Controlled] = field(default_factory=list)
    chaos: ChaosReport | None = None
    took_s: float = 0.0

    @property
    def held(self) -> bool:
        """Whether every promise was kept, and every control was noticed."""
        survived = all(verdict.survived for verdict in self.verdicts)
        chaos_held = self.chaos is None or self.chaos.verdict.survived
        return survived and chaos_held and all(control.noticed for control in self.controls)

    def invariants(self) -> list[tuple[str, int, int]]:
        """Each invariant, how often it was judged, and how often it was broken."""
        judged = [*self.verdicts, *([self.chaos.verdict] if self.chaos else [])]
        names = [*(rule.__name__ for rule in INVARIANTS), RECOVERY]
        return [
            (name, len(judged), sum(any(b.invariant == name for b in v.breaches) for v in judged))
            for name in names
        ]

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "held": self.held,
            "database": self.database,
            "took_s": round(self.took_s, 1),
            "faults": [_document(verdict) for verdict in self.verdicts],
            "skipped": self.skipped,
            "invariants": [
                {"name": name, "judged": judged, "broken": broken}
                for name, judged, broken in self.invariants()
            ],
            "controls": [
                {"without": c.control.name, "noticed": c.noticed, **_document(c.verdict)} for c in self.controls
            ],
            "chaos": None if self.chaos is None else _chaos(self.chaos),
        }


def run(options: KitOptions, campaign: Campaign, *, among_others: bool = False, tell: Tell = lambda _: None) -> Outcome:
    """Carry ``campaign`` out and clean up. Raises a :class:`~engine.crashkit.errors.KitError`."""
    began = time.monotonic()
    with Kit(options, among_others=among_others) as kit:
        outcome = Outcome(kit.engine.dialect.name)
        wanted = campaign.wanted()
        outcome.skipped = [fault.name for fault in wanted if not kit.fits(fault)]
        outcome.verdicts = kit.try_all(wanted, tell=lambda v: tell(_line(v)))
        if campaign.controls:
            outcome.controls = _controls(kit, tell)
        if campaign.chaos is not None:
            outcome.chaos = chaos.run(kit, campaign.chaos, tell=tell)
        outcome.took_s = time.monotonic() - began
        return outcome


def _controls(kit: Kit, tell: Tell) -> list[Controlled]:
    found = []
    for control in CONTROLLED:
        if kit.fits(control.fault):
            found.append(Controlled(control, kit.try_control(control)))
            tell(f"without {control.name}: {'noticed' if found[-1].noticed else 'NOT NOTICED'}")
    return found


def _line(verdict: Verdict) -> str:
    return f"{verdict.fault}: {'survived' if verdict.survived else 'BROKEN'}"


def _document(verdict: Verdict) -> dict[str, Any]:
    return {
        "fault": verdict.fault,
        "survived": verdict.survived,
        "breaches": [{"invariant": b.invariant, "detail": b.detail} for b in verdict.breaches],
        "stuck": verdict.stuck,
        "jobs": verdict.jobs,
        "provider_calls": verdict.calls,
        "repeated_calls": verdict.repeated_calls,
        "recovery_ms": verdict.recovery_ms,
        "promised_ms": verdict.promised_ms,
        "refused_writes": verdict.refused,
        "starved": verdict.starved,
    }


def _chaos(report: ChaosReport) -> dict[str, Any]:
    plan = report.plan
    return {
        "seed": plan.seed,
        "seconds": plan.seconds,
        "workers": plan.workers,
        "dispatchers": plan.dispatchers,
        "faults": report.faults,
        "took_s": round(report.took_s, 1),
        **_document(report.verdict),
    }
