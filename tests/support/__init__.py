"""Real parts for tests: private servers, a cuttable wire, child processes, condition waits.

- `servers`: MariaDB, PostgreSQL and Redis on free ports in a temporary folder, to stop, kill, pause and restart.
- `databases`: fresh or cleaned databases on those servers (and SQLite files), handed out cheaply.
- `proxy`: a TCP wire between client and server that can be cut, stalled, delayed or made to lose one answer.
- `processes`: child Python processes with captured output, killed and frozen by pid, always reaped.
- `reaper`: kills what is left when the test process itself is killed.
- `wait`: `eventually`, the only place in the tests that lets time pass.
"""
