"""``aijobs jobs``: what an operator asks about jobs and does with them.

    reading .... list, show, explain
    creating ... create, one or a file of them
    ending ..... wait, cancel, retry
    following .. follow
"""

from __future__ import annotations

from engine.cli.commands.jobs.creating import create
from engine.cli.commands.jobs.ending import cancel, retry, wait
from engine.cli.commands.jobs.following import follow
from engine.cli.commands.jobs.reading import explain, list_, show
from engine.cli.nouns import noun

command = noun("List, look into, create, wait for, follow, cancel and repeat jobs.")

command.command("list", epilog="Example: aijobs jobs list --status failed --since -1h")(list_)
command.command("show", epilog="Example: aijobs jobs show ID --output")(show)
command.command("explain", epilog="Example: aijobs jobs explain ID")(explain)
command.command(
    "create", epilog="Example: aijobs jobs create synthetic --input '{\"value\": 1}' --wait"
)(create)
command.command("wait", epilog="Example: aijobs jobs wait ID --timeout 2m")(wait)
command.command("follow", epilog="Example: aijobs jobs follow ID --json")(follow)
command.command("cancel", epilog="Example: aijobs jobs cancel --status queued --type synthetic --yes")(cancel)
command.command("retry", epilog="Example: aijobs jobs retry --status failed --since -1h --dry-run")(retry)
