"""Databases for tests: empty ones, and prepared ones whose rows (not tables) go away between tests.

Making tables costs a server tenths of a second, deleting a few rows costs milliseconds. So a test that is about the
schema takes `empty`, and a test that only needs the tables takes `prepared`.
"""

from __future__ import annotations

import itertools
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import pymysql

from tests.support.servers import MariaDbServer, PostgresServer

#: makes the tables in the empty database of this URL
Prepare = Callable[[str], None]

R = TypeVar("R")

#: MariaDB's error for a session that has ended by itself
NO_SUCH_THREAD = 1094


class Databases(ABC):
    """The databases of one kind for one test process. Not for threads: fixtures hand out one at a time."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._free: dict[str, list[str]] = {}
        self._filled: dict[str, frozenset[str]] = {}

    def empty(self) -> str:
        """URL of a database without any table. Return it with `drop`."""
        name = f"t{next(self._numbers)}"
        self._create(name)
        return self.url(name)

    def prepared(self, key: str, prepare: Prepare) -> str:
        """URL of a database as `prepare` left it: the tables, and the rows of tables it filled (a schema's version).

        Tests may fill every other table; what `prepare` filled they leave as it is.
        Databases of the same `key` are used again. Return it with `give_back`, or with `drop` when the schema changed.
        """
        free = self._free.setdefault(key, [])
        if free:
            url = free.pop()
            self._clean(self.name(url), self._filled[key])
            return url
        url = self.empty()
        prepare(url)
        if key not in self._filled:
            self._filled[key] = frozenset(self._filled_tables(self.name(url)))
        return url

    def give_back(self, key: str, url: str) -> None:
        """The database may serve the next caller of `prepared(key)`."""
        self._free.setdefault(key, []).append(url)

    def drop(self, url: str) -> None:
        """Delete the database; sessions that a test left behind are ended first."""
        self._drop(self.name(url))

    @abstractmethod
    def url(self, name: str) -> str: ...

    def name(self, url: str) -> str:
        return url.rpartition("/")[2].partition("?")[0]

    @abstractmethod
    def _create(self, name: str) -> None: ...

    @abstractmethod
    def _filled_tables(self, name: str) -> list[str]: ...

    @abstractmethod
    def _clean(self, name: str, keep: Collection[str]) -> None: ...

    @abstractmethod
    def _drop(self, name: str) -> None: ...


class SqliteDatabases(Databases):
    """Files in a folder; a prepared database is a copy of a file made once."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._templates: dict[str, Path] = {}

    def url(self, name: str) -> str:
        return f"sqlite:///{self._folder / name}.db"

    def prepared(self, key: str, prepare: Prepare) -> str:
        if key not in self._templates:
            url = self.empty()
            prepare(url)
            self._templates[key] = self._file(self.name(url))
        url = self.empty()
        for source in self._files(self._templates[key]):
            shutil.copyfile(
                source,
                str(self._file(self.name(url))) + source.name.removeprefix(source.stem + ".db"),
            )
        return url

    def give_back(self, key: str, url: str) -> None:
        self.drop(url)

    def name(self, url: str) -> str:
        return Path(url).stem

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.db"

    @staticmethod
    def _files(database: Path) -> list[Path]:
        candidates = [database, *(Path(f"{database}-{part}") for part in ("wal", "journal"))]
        return [path for path in candidates if path.exists()]

    def _create(self, name: str) -> None:
        # the first connection makes the file
        pass

    def _filled_tables(self, name: str) -> list[str]:
        raise NotImplementedError("a SQLite file is copied, never cleaned")

    def _clean(self, name: str, keep: Collection[str]) -> None:
        raise NotImplementedError("a SQLite file is copied, never cleaned")

    def _drop(self, name: str) -> None:
        for part in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._file(name)}{part}").unlink(missing_ok=True)


class MariaDbDatabases(Databases):
    """Databases made with the server's default character set, on purpose (DB-9)."""

    def __init__(self, server: MariaDbServer) -> None:
        super().__init__()
        self._server = server

    def url(self, name: str) -> str:
        return self._server.url(name)

    def _create(self, name: str) -> None:
        self._run(lambda cursor: cursor.execute(f"CREATE DATABASE `{name}`"))

    def _filled_tables(self, name: str) -> list[str]:
        def look(cursor: Any) -> list[str]:
            cursor.execute(f"USE `{name}`")
            return [
                table
                for table, _ in self._tables(cursor, name)
                if cursor.execute(f"SELECT 1 FROM `{table}` LIMIT 1")
            ]

        return self._run(look)

    def _clean(self, name: str, keep: Collection[str]) -> None:
        def clean(cursor: Any) -> None:
            self._end_sessions(cursor, name)
            cursor.execute(f"USE `{name}`")
            cursor.execute("SET foreign_key_checks = 0")
            for table, next_number in self._tables(cursor, name):
                # TRUNCATE also starts the numbers again, but makes a file; only few tables have numbers
                if table not in keep and next_number in (None, 1):
                    cursor.execute(f"DELETE FROM `{table}`")
                elif table not in keep:
                    cursor.execute(f"TRUNCATE TABLE `{table}`")

        self._run(clean)

    @staticmethod
    def _tables(cursor: Any, name: str) -> list[tuple[str, int | None]]:
        """The tables with their next automatic numbers."""
        cursor.execute(
            "SELECT table_name, auto_increment FROM information_schema.tables "
            "WHERE table_schema = %s AND table_type = 'BASE TABLE'",
            (name,),
        )
        return list(cursor.fetchall())

    def _drop(self, name: str) -> None:
        def drop(cursor: Any) -> None:
            self._end_sessions(cursor, name)
            cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")

        self._run(drop)

    @staticmethod
    def _end_sessions(cursor: Any, name: str) -> None:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
        for (number,) in cursor.fetchall():
            try:
                cursor.execute(f"KILL {int(number)}")
            except pymysql.Error as error:
                if error.args[0] != NO_SUCH_THREAD:
                    raise

    def _run(self, work: Callable[[Any], R]) -> R:
        connection = self._server.heal().connect()
        try:
            with connection.cursor() as cursor:
                return work(cursor)
        finally:
            connection.close()


_PG_TABLES = (
    "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables "
    "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
)
_PG_USED_SEQUENCES = (
    "SELECT quote_ident(schemaname) || '.' || quote_ident(sequencename) FROM pg_sequences "
    "WHERE last_value IS NOT NULL"
)


class PostgresDatabases(Databases):
    """Databases copied from template0, with the compiled defaults."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__()
        self._server = server

    def url(self, name: str) -> str:
        return self._server.url(name)

    def _create(self, name: str) -> None:
        with self._server.heal().connect() as connection:
            # file copy beats the write-ahead log for a database this small and without fsync
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0 STRATEGY file_copy')

    def _filled_tables(self, name: str) -> list[str]:
        with self._server.heal().connect(name) as connection:
            return [
                table
                for (table,) in connection.execute(_PG_TABLES).fetchall()
                if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
            ]

    def _clean(self, name: str, keep: Collection[str]) -> None:
        with self._server.heal().connect(name) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            # replication role: foreign keys are not asked, so the order of tables does not matter
            connection.execute("SET session_replication_role = replica")
            for (table,) in connection.execute(_PG_TABLES).fetchall():
                if table not in keep:
                    connection.execute(f"DELETE FROM {table}")
            for (sequence,) in connection.execute(_PG_USED_SEQUENCES).fetchall():
                connection.execute(f"ALTER SEQUENCE {sequence} RESTART")

    def _drop(self, name: str) -> None:
        with self._server.heal().connect() as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
