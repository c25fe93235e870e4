"""What a stock ``rq worker`` runs in these tests: it leaves what it was called with as a receipt."""

from __future__ import annotations

import json
import os
from pathlib import Path


def run_one(*args: object, **kwargs: object) -> None:
    """Append the call to the file named by RECEIPT."""
    with Path(os.environ["RECEIPT"]).open("a") as receipt:
        receipt.write(json.dumps([args, kwargs]) + "\n")


def always_fails(*args: object, **kwargs: object) -> None:
    """Leave the receipt, then fail."""
    run_one(*args, **kwargs)
    raise RuntimeError("on purpose")
