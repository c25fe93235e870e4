"""Garbage collection for a daemon: what start-up made stays, so it is never searched for garbage again.

A process that has imported its libraries holds some hundred thousand objects. Each full collection walks
all of them and frees none, in the middle of a batch; it was a tenth of the worker's time per job.
"""

from __future__ import annotations

import gc

#: Allocations between two collections of the youngest generation; Python's 700 is less than one batch makes.
_YOUNG = 20_000
_PYTHONS_OWN = (700, 10, 10)


def settle_heap() -> None:
    """Call once when a daemon has started. A host's own garbage collection settings are left alone."""
    gc.collect()
    gc.freeze()
    if gc.get_threshold() == _PYTHONS_OWN:
        gc.set_threshold(_YOUNG, *_PYTHONS_OWN[1:])
