"""The crash kit at small scale: patient, since a loaded machine is not a broken promise."""

from __future__ import annotations

from collections.abc import Iterable

from engine.crashkit.faults import CATALOGUE, Fault
from engine.crashkit.kit import Kit
from engine.crashkit.options import KitOptions, Places
from engine.crashkit.stage import Verdict

#: Seconds that a test of the kit may take.
PATIENCE_S = 600


def options(database_url: str, redis_url: str, *, slack_ms: int = 60_000) -> KitOptions:
    places = Places(database_url=database_url, redis_url=redis_url)
    return KitOptions(places=places, slack_ms=slack_ms, patience_s=120)


def faults(*names: str) -> list[Fault]:
    """The faults of the catalogue with these names, or whose names begin like this."""
    found = [fault for fault in CATALOGUE if fault.name.startswith(names)]
    assert found, names
    return found


def assert_survived(verdicts: Iterable[Verdict], count: int) -> None:
    """Every fault was tried, and nothing was broken by any of them."""
    seen = list(verdicts)
    broken = [f"{v.fault}: {v.stuck or ''} {[*v.breaches]}" for v in seen if not v.survived]
    assert not broken, "\n".join(broken)
    assert len(seen) == count
    assert all(v.jobs for v in seen)


def survive(database_url: str, redis_url: str, *names: str) -> None:
    """Try faults and find every promise kept."""
    wanted = faults(*names)
    with Kit(options(database_url, redis_url)) as kit:
        assert_survived(kit.try_all(wanted), len(wanted))
