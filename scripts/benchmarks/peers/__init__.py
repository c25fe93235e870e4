"""Public queues at their documented best settings, one program each; a queue that is not installed is left out.

Each knows the same commands: ``schema``, ``create JOBS BULK SLEEP_S FILLER``, ``trickle JOBS GAP_S`` and
``worker SLOTS``. Those in Python share ``program``; the one in JavaScript is a program of its own.
"""
