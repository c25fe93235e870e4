"""Figures for people: a table on the terminal, JSON, and the tables of docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.benchmarks.figures import Figure, Measurement

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"

_TITLES = {
    "jobs_s": "jobs/s", "create_jobs_s": "created/s", "dispatch_jobs_s": "dispatched/s", "ideal_percent": "% of ideal",
    "p50_ms": "p50 ms", "p99_ms": "p99 ms", "max_ms": "max ms", "cpu_us": "CPU us", "worker_cpu_us": "worker CPU us",
    "database_cpu_us": "database CPU us", "redis_cpu_us": "Redis CPU us", "rss_mib": "peak MiB",
    "redis_mib": "Redis MiB", "sql_statements": "SQL statements", "sql_commits": "commits", "sql_fsyncs": "fsyncs",
    "redis_round_trips": "Redis round trips", "redis_commands": "Redis commands",
}  # fmt: skip
#: Figures whose spread is shown: rates and times; counters are exact.
_SPREAD = ("jobs_s", "p50_ms", "p99_ms", "dispatch_jobs_s", "create_jobs_s")


def machine() -> dict[str, Any]:
    """Where the figures come from, without names of hosts or folders."""
    return {
        "cpus": os.cpu_count(), "system": platform.system(), "python": platform.python_version(),
        "machine": platform.machine(),
    }  # fmt: skip


def save(path: Path, measurements: Sequence[Measurement], about: Mapping[str, Any]) -> None:
    """Write everything as JSON."""
    path.write_text(json.dumps({**about, "measurements": [asdict(m) for m in measurements]}, indent=1) + "\n")


def load(path: Path) -> tuple[dict[str, Any], list[Measurement]]:
    """Read what :func:`save` wrote."""
    about = json.loads(path.read_text())
    return about, [_measurement(values) for values in about.pop("measurements")]


def _measurement(values: dict[str, Any]) -> Measurement:
    figures = {name: Figure(**figure) for name, figure in values["figures"].items()}
    return Measurement(**{**values, "figures": figures})


def table(row: str, measurements: Iterable[Measurement]) -> str:
    """One row's measurements as a Markdown table."""
    chosen = [m for m in measurements if m.row == row]
    names = [name for name in _TITLES if any(name in m.figures for m in chosen)]
    lines = [_line(["system", *(_TITLES[name] for name in names)]), _line(["---"] * (len(names) + 1))]
    for m in chosen:
        label = f"{m.system} {m.setting}".strip()
        lines.append(_line([label, *(_cell(name, m.figures.get(name)) for name in names)]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(name: str, figure: Figure | None) -> str:
    if figure is None:
        return "-"
    text = _number(figure.median)
    if name in _SPREAD and figure.low != figure.high:
        text += f" [{_number(figure.low)} - {_number(figure.high)}]"
    return text


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def render(path: Path, page: Path = PAGE) -> list[str]:
    """Put the tables of a JSON file between the marks of the page; returns the rows that were filled."""
    about, measurements = load(path)
    text, filled = page.read_text(), []
    for row in dict.fromkeys(m.row for m in measurements):
        text, found = _between(text, row, table(row, measurements))
        filled += [row] * found
    text, _ = _between(text, "machine", _about(about))
    page.write_text(text)
    return filled


def _about(about: Mapping[str, Any]) -> str:
    return (
        f"{about['cpus']} CPUs ({about['machine']}), {about['system']}, Python {about['python']}, {about['database']}, "
        f"{about['rounds']} rounds."
    )


def _between(text: str, name: str, content: str) -> tuple[str, int]:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    return pattern.subn(lambda marks: f"{marks[1]}{content}\n{marks[2]}", text)
