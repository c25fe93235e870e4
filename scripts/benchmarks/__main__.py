"""The command behind ``scripts/bench``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scripts.benchmarks import report, rows
from scripts.benchmarks.counters import Counts
from scripts.benchmarks.figures import Measurement, summarize
from scripts.benchmarks.growth import GROWTH
from scripts.benchmarks.programs import ProgramFailed
from scripts.benchmarks.rows import QUICK, Bench, Row, Scale
from scripts.benchmarks.servers import Servers
from scripts.benchmarks.systems import ENGINE, NAIVE, PEERS, System

OURS, YARDSTICK, EVERYBODY = (ENGINE,), (NAIVE, ENGINE), (NAIVE, ENGINE, *PEERS)

#: name -> what is done in one round, and by whom
ROWS: dict[str, tuple[Row, Sequence[System]]] = {
    "pipeline": (rows.pipeline, YARDSTICK),
    "pipeline-one": (rows.pipeline_one, YARDSTICK),
    "work": (rows.work, EVERYBODY),
    "dispatch": (rows.dispatch, YARDSTICK),
    "create": (rows.create, EVERYBODY),
    "create-bulk": (rows.create_bulk, [ENGINE, *(peer for peer in PEERS if peer.bulk)]),
    "fan-out": (rows.fan_out, [ENGINE, *PEERS]),
    "slots": (rows.slots, OURS),
    "latency": (rows.latency, EVERYBODY),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows that were asked for; 1 when something could not be measured."""
    options = _parser().parse_args(arguments)
    if options.list:
        return _list()
    if options.render:
        print("filled:", ", ".join(report.render(options.render)))
        return 0
    wanted = options.rows or [*ROWS, *GROWTH]
    systems = {} if options.no_peers else _peers(options.python)
    with Servers(options.database, peers=bool(systems), large=options.large) as servers:
        bench = Bench(servers, _scale(options))
        found, failed = _run(bench, wanted, systems, options.rounds)
    about = {**report.machine(), "database": options.database, "rounds": options.rounds}
    if options.json:
        report.save(options.json, found, about)
    return 1 if failed else 0


def _run(
    bench: Bench, wanted: Sequence[str], peers: dict[str, System], rounds: int
) -> tuple[list[Measurement], bool]:
    found: list[Measurement] = []
    failed = False
    for name in wanted:
        print(f"\n## {name}", flush=True)
        try:
            found += _grown(bench, name, rounds) if name in GROWTH else _measured(bench, name, peers, rounds)
        except ProgramFailed as error:
            failed = True
            print(f"{name}: not measured\n{error}", file=sys.stderr)
        print(report.table(name, found), flush=True)
    return found, failed


def _measured(bench: Bench, name: str, peers: dict[str, System], rounds: int) -> list[Measurement]:
    """Warm up, then all systems in turn in each round: the machine's mood meets all of them."""
    row, everybody = ROWS[name]
    systems = [s if s.role != "peer" else peers[s.name] for s in everybody if s.role != "peer" or s.name in peers]
    small = replace(bench, scale=QUICK)
    for system in systems:
        row(small, system)
    results: dict[str, list[Counts]] = {system.name: [] for system in systems}
    for number in range(1, rounds + 1):
        for system in systems:
            results[system.name].append(row(bench, system))
            print(f"  round {number}: {system.name} {_glance(results[system.name][-1])}", file=sys.stderr, flush=True)
    return [summarize(name, system, "", figures) for system, figures in results.items()]


def _grown(bench: Bench, name: str, rounds: int) -> list[Measurement]:
    steps: dict[str, list[Counts]] = {}
    for number in range(1, rounds + 1):
        for step, figures in GROWTH[name](bench):
            steps.setdefault(step, []).append(figures)
            print(f"  round {number}: {step} {_glance(figures)}", file=sys.stderr, flush=True)
    return [summarize(name, ENGINE.name, step, figures) for step, figures in steps.items()]


def _glance(figures: Counts) -> str:
    return " ".join(f"{name}={value:.4g}" for name, value in list(figures.items())[:3])


def _peers(pythons: Sequence[str]) -> dict[str, System]:
    """Those public queues that are installed; the others are named and left out."""
    chosen = dict(pair.split("=", 1) for pair in pythons)
    found = {}
    for peer in PEERS:
        system = replace(peer, interpreter=chosen.get(peer.name, peer.interpreter))
        missing = system.missing()
        if missing:
            print(f"left out: {missing}", file=sys.stderr)
        else:
            found[peer.name] = system
    return found


def _scale(options: argparse.Namespace) -> Scale:
    scale = QUICK if options.quick else Scale()
    return replace(scale, backlogs=(*scale.backlogs, 1_000_000)) if options.large else scale


def _list() -> int:
    for name, (row, systems) in ROWS.items():
        print(f"{name:14} {(row.__doc__ or '').strip()}  [{', '.join(s.name for s in systems)}]")
    for name, growth in GROWTH.items():
        print(f"{name:14} {(growth.__doc__ or '').strip()}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure the engine beside other queues.")
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[*ROWS, *GROWTH, []], help="default: all; see --list")
    parser.add_argument("--rounds", type=int, default=3, help="after the warm-up [3]")
    parser.add_argument("--database", choices=["mariadb", "postgresql", "sqlite"], default="mariadb")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, not how fast")
    parser.add_argument("--large", action="store_true", help="a backlog of a million, with a buffer pool of 1 GB")
    parser.add_argument("--no-peers", action="store_true", help="leave public queues out")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PROGRAM", help="another interpreter")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--render", type=Path, metavar="FILE", help="put the figures into docs/performance.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
