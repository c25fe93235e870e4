"""Children outlive nothing: a watcher kills what is left when the test process dies, however it dies."""

from __future__ import annotations

import atexit
import subprocess
import threading
from pathlib import Path

# Reads "+ PID", "- PID" and "d FOLDER" lines; at the end of input (the test process is gone) it cleans up.
_SCRIPT = r"""
trap '' INT TERM HUP
declare -A pids folders
while IFS=' ' read -r sign rest; do
  case "$sign" in
    +) pids[$rest]=1 ;;
    -) unset "pids[$rest]" ;;
    d) folders[$rest]=1 ;;
  esac
done
for pid in "${!pids[@]}"; do kill -CONT "$pid" 2>/dev/null; kill -KILL "$pid" 2>/dev/null; done
for folder in "${!folders[@]}"; do rm -rf -- "$folder"; done
exit 0
"""

_lock = threading.Lock()
_watcher: subprocess.Popen[str] | None = None


def watch(pid: int) -> None:
    """Kill `pid` when this process ends without having called `forget`."""
    _tell(f"+ {pid}")


def forget(pid: int) -> None:
    """The process is reaped; its number may soon belong to somebody else."""
    _tell(f"- {pid}")


def remove_at_end(folder: Path) -> None:
    """Delete `folder` and its content when this process ends."""
    _tell(f"d {folder}")


def _tell(line: str) -> None:
    global _watcher
    with _lock:
        if _watcher is None:
            _watcher = subprocess.Popen(
                ["bash", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            atexit.register(_finish, _watcher)
        assert _watcher.stdin is not None
        _watcher.stdin.write(line + "\n")
        _watcher.stdin.flush()


def _finish(watcher: subprocess.Popen[str]) -> None:
    assert watcher.stdin is not None
    watcher.stdin.close()
    watcher.wait(timeout=60)
