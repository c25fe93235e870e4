"""The process around one command: what the installed ``aijobs`` runs. It ends when its command has ended.

Python itself would wait for threads that a handler has left running, and for coroutines that swallow even the
end; a worker that was told to stop would stay for ever (WL-17).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

#: How long threads and exit hooks of the application may take after the command has ended, in s.
FAREWELL_S = 2.0


class _Ending:
    """Ends the process as it stands, with the command's exit code."""

    code = 1

    def now(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            # The reader may have gone
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(self.code)

    def soon(self) -> None:
        time.sleep(FAREWELL_S)
        self.now()


def run() -> NoReturn:
    """Run the command of this process's arguments, and end the process with its exit code."""
    ending = _Ending()
    # Before anything else is loaded: exit hooks run last first, and nobody's is to be left out.
    atexit.register(ending.now)
    from engine.cli import main

    ending.code = main.main()
    threading.Thread(target=ending.soon, name="aijobs-farewell", daemon=True).start()
    sys.exit(ending.code)
