"""Private servers for development: `./scripts/services` starts them, prints their addresses, and waits for Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack

from tests.support.servers import MariaDbServer, PostgresServer, RedisServer, ServerMissing

DATABASE = "aijobs"


def mariadb(stack: ExitStack) -> str:
    server = stack.enter_context(MariaDbServer())
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
    return f"AIJOBS_DATABASE_URL={server.url(DATABASE)}"


def postgresql(stack: ExitStack) -> str:
    server = stack.enter_context(PostgresServer())
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    return f"AIJOBS_DATABASE_URL={server.url(DATABASE)}"


def redis(stack: ExitStack) -> str:
    return f"AIJOBS_REDIS_URL={stack.enter_context(RedisServer()).url}"


STARTERS = {"mariadb": mariadb, "postgresql": postgresql, "redis": redis}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/services", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"one of {', '.join(STARTERS)}")
    kinds = parser.parse_args().kinds or list(STARTERS)
    if unknown := set(kinds) - set(STARTERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    # a folder of data is deleted in good order on a plain `kill` too
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        try:
            for kind in kinds:
                print(STARTERS[kind](stack), flush=True)
            print("running; Ctrl-C ends the servers and deletes their data", file=sys.stderr)
            signal.pause()
        except ServerMissing as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
