"""Rounds become medians and spreads."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Round = Mapping[str, float]


@dataclass(frozen=True)
class Figure:
    """One number of a measurement over its rounds."""

    median: float
    low: float
    high: float

    @property
    def spread_percent(self) -> float:
        """Distance of the extremes, in percent of the median."""
        return 0.0 if self.median == 0 else (self.high - self.low) / abs(self.median) * 100


@dataclass(frozen=True)
class Measurement:
    """What one system did in one row; figures by name."""

    row: str
    system: str
    setting: str
    rounds: int
    figures: Mapping[str, Figure]


def summarize(row: str, system: str, setting: str, rounds: Sequence[Round]) -> Measurement:
    """The figures that every round has."""
    names = [name for name in rounds[0] if all(name in one for one in rounds)]
    figures = {name: _figure([one[name] for one in rounds]) for name in names}
    return Measurement(row, system, setting, len(rounds), figures)


def _figure(values: Sequence[float]) -> Figure:
    return Figure(*(round(value, 4) for value in (statistics.median(values), min(values), max(values))))
