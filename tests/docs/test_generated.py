"""Pages that a command can print are printed, not retyped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_generated_pages_are_in_step_with_the_code(project_root: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "scripts/generate_docs.py", "--check"], cwd=project_root, capture_output=True, text=True
    )

    assert checked.returncode == 0, checked.stderr
