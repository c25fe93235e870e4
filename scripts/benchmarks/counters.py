"""What servers counted between two moments, per job: exact, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Mapping

import psycopg
import redis

from scripts.benchmarks.programs import family_cpu_s
from scripts.benchmarks.servers import Database, Servers
from scripts.benchmarks.systems import Store

Counts = dict[str, float]

_MARIADB = {
    "Questions": "sql_statements", "Com_commit": "sql_commits", "Innodb_os_log_fsyncs": "sql_fsyncs",
    "Innodb_data_fsyncs": "sql_fsyncs",
}  # fmt: skip
#: Before and since PostgreSQL 18.
_WAL_FSYNCS = ("SELECT wal_sync FROM pg_stat_wal", "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'")


class Counters:
    """Takes snapshots of Redis and of that database (if any) in which a system keeps its jobs."""

    def __init__(self, servers: Servers, store: Database | Store) -> None:
        self._servers = servers
        self._store = store

    def read(self) -> Counts:
        """Everything counted so far."""
        database = {"mariadb": self._mariadb, "postgresql": self._postgresql}.get(self._store)
        return {**(database() if database else {}), **self._redis()}

    def since(self, before: Mapping[str, float], jobs: int) -> Counts:
        """What was counted since ``before``, per job."""
        now = self.read()
        return {name: round((now[name] - value) / jobs, 3) for name, value in before.items()}

    def _mariadb(self) -> Counts:
        server = self._servers.mariadb
        assert server is not None
        with server.connect() as conn, conn.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS")
            status = dict(cursor.fetchall())
        counts = {ours: float(status[name]) for name, ours in reversed(_MARIADB.items()) if name in status}
        return {**counts, "database_cpu_us": family_cpu_s(server.pid) * 1e6}

    def _postgresql(self) -> Counts:
        server = self._servers.postgresql
        assert server is not None
        time.sleep(0.6)  # sessions report their counters when they have been idle for a moment
        with server.connect() as conn:
            commits = conn.execute("SELECT sum(xact_commit) FROM pg_stat_database").fetchone()
            calls = conn.execute(
                "SELECT sum(calls) FROM pg_stat_statements"
            ).fetchone() if self._has_statements(conn) else None  # fmt: skip
            fsyncs = conn.execute(_WAL_FSYNCS[conn.info.server_version >= 180_000]).fetchone()
        counts = {
            "sql_commits": float(commits[0]) if commits else 0.0, "sql_fsyncs": float(fsyncs[0]) if fsyncs else 0.0,
        }  # fmt: skip
        if calls is not None:
            counts["sql_statements"] = float(calls[0] or 0)
        return {**counts, "database_cpu_us": family_cpu_s(server.pid) * 1e6}

    @staticmethod
    def _has_statements(conn: psycopg.Connection[tuple[object, ...]]) -> bool:
        try:
            conn.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            conn.execute("SELECT 1 FROM pg_stat_statements LIMIT 1")
        except psycopg.Error:
            return False
        return True

    def _redis(self) -> Counts:
        with redis.Redis.from_url(self._servers.redis.url) as client:
            info = client.info()
        return {
            "redis_round_trips": float(info["total_reads_processed"]),
            "redis_commands": float(info["total_commands_processed"]),
            "redis_cpu_us": (info["used_cpu_sys"] + info["used_cpu_user"]) * 1e6,
        }


def redis_memory(servers: Servers) -> int:
    """Bytes that Redis holds now."""
    with redis.Redis.from_url(servers.redis.url) as client:
        return int(client.info("memory")["used_memory"])



