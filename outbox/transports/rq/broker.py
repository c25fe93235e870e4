"""Every byte to and from Redis passes here.

The clients are made here, whatever the caller hands in: binary answers (TR-11), no retries by the
library (TR-3: its default repeats ten times, also what must not be repeated), explicit time-outs,
RESP2. Blocking calls have a client of their own, whose time-out is longer than the longest block.

Total time of a call on a silent server: one connect and one read, twice that when the scripts have
to be loaded first (after a restart).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis import BlockingConnectionPool, ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, parse_url
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout
from redis.retry import Retry

from outbox.errors import TransportMisconfigured
from outbox.transports.base import STOP_NOTICED_S, Stopped, never
from outbox.transports.rq.faults import unavailable
from outbox.transports.rq.lua import Script

#: Parts of a given client that say where and as whom to connect; everything else is ours to set.
_ADDRESS = ("host", "port", "db", "path", "username", "password", "credential_provider")
#: "server" is fakeredis's way of saying which one.
_KEPT = (*_ADDRESS, "connection_class", "client_name", "server")

#: How long somebody who is stopped waits for what Redis may have done already, in s.
LAST_WORDS_S = 1.0


class Call(NamedTuple):
    """One script with its KEYS and ARGV."""

    script: Script
    keys: Sequence[str]
    args: Sequence[str | int | bytes]


class Broker:
    """Redis as the transport uses it: scripts in one round trip, plain commands, blocking reads.

    All methods raise ``TransportUnavailable``, after dropping the idle connections, so that the next
    call connects anew, to the new master after a failover (TR-9). After a fork the child's pools
    leave the parent's sockets alone and open their own (TR-13: redis-py's doing, held by a test).
    """

    def __init__(
        self, target: str | Redis, *, timeout_s: float, connect_timeout_s: float, block_s: float
    ) -> None:
        self._address = _address(target)
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._block_s = block_s
        self._commands = self._client(timeout_s)
        self._blocking = self._client(timeout_s + block_s)

    def _client(self, timeout_s: float) -> Redis:
        # a Unix socket knows no keep-alive
        alive: dict[str, Any] = {} if "path" in self._address else {"socket_keepalive": True}
        kind = self._address.get("connection_class", Connection)
        pool = ConnectionPool(
            **self._address,
            **alive,
            redis_connect_func=_greet if issubclass(kind, SSLConnection) else None,
            socket_timeout=timeout_s,
            socket_connect_timeout=self._connect_timeout_s,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            decode_responses=False,
            encoding="utf-8",
            protocol=2,
            driver_info=None,  # no CLIENT SETINFO: one more right the Redis user would need
        )
        return Redis(connection_pool=pool)

    @property
    def in_process(self) -> bool:
        """Whether this is fakeredis: only this process sees it, and it neither blocks nor has INFO."""
        return "server" in self._address

    # ------------------------------------------------------------------ calls

    def run(self, calls: Sequence[Call], hint: Sequence[str] | None = None) -> list[Any]:
        """Run scripts in one round trip; scripts the server does not know are loaded and sent again.

        ``hint`` is a command that goes along, and whose answer, be it a refusal, means nothing.
        """
        hints = [] if hint is None else [hint]
        answers = self._send([*(_evalsha(call) for call in calls), *hints])[: len(calls)]
        unknown = [i for i, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            texts = {calls[i].script.text for i in unknown}
            again = [("SCRIPT LOAD", text) for text in texts]
            again += [_evalsha(calls[i]) for i in unknown]
            for i, answer in zip(unknown, self._send(again)[len(texts) :], strict=True):
                answers[i] = answer
        return self._checked(answers)

    def ask(self, *commands: Sequence[str | int]) -> list[Any]:
        """Send plain commands in one round trip, without a transaction."""
        return self._checked(self._send(list(commands)))

    def block(self, command: str, *args: str, left_s: float, stopped: Stopped = never) -> Any:
        """Block on the server for the time left, ``block_s`` at most; None = nothing came, or ``stopped``.

        ``command`` is one that takes the seconds as its last argument; 0 would mean for ever.
        """
        seconds = self._seconds(left_s)
        try:
            if stopped is not never and not self.in_process:
                [answer] = self._checked(self._block_until(stopped, seconds, (command, *args, seconds)) or [None])
                return answer
            if stopped is not never:
                seconds = min(seconds, STOP_NOTICED_S)
            return self._blocking.execute_command(command, *args, seconds)  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            self.drop()
            raise unavailable(error) from error

    def block_and_run(
        self, command: Sequence[str], call: Call, *, left_s: float, stopped: Stopped = never
    ) -> Any:
        """:meth:`block` for the time left, and ``call`` as soon as that is over, in the same trip; its answer.

        Who is ``stopped`` meanwhile gets an empty answer, or what the script has done by then.
        """
        seconds = self._seconds(left_s)
        try:
            answers = self._block_until(stopped, seconds, (*command, seconds), _evalsha(call)) or [None, []]
        except (RedisError, OSError) as error:
            self.drop()
            raise unavailable(error) from error
        if isinstance(answers[1], NoScriptError):
            [answers[1]] = self.run([call])
        # What the script has handed out is not dropped for an error of the wait: the next one tells of it, too.
        handed_out = isinstance(answers[1], list) and answers[1]
        return handed_out or self._checked(answers)[1]

    def _block_until(self, stopped: Stopped, seconds: float, *commands: Sequence[Any]) -> list[Any] | None:
        """Send ``commands``, of which the first blocks, and look at the socket, and at ``stopped``, until the answers
        are there; None where none will come.

        Redis is asked once, however long it takes; who is stopped hangs up, and Redis forgets what it has not begun.
        """
        pool = self._blocking.connection_pool
        connection = pool.get_connection()
        deadline = time.monotonic() + seconds + self._timeout_s
        try:
            connection.send_packed_command(connection.pack_commands(commands))  # type: ignore[no-untyped-call]
            answers: list[Any] = []
            while len(answers) < len(commands):
                # Not by a look whether there is something to read: over TLS that may be no answer of Redis's.
                try:
                    answers.append(_answer(connection, STOP_NOTICED_S))
                except RedisTimeout:
                    if stopped():
                        return _last_words(connection, answers, len(commands))
                    if time.monotonic() > deadline:
                        raise
            return answers
        except BaseException:
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        finally:
            pool.release(connection)

    def _seconds(self, left_s: float) -> float:
        return round(max(0.001, min(left_s, self._block_s)), 3)

    def _send(self, commands: list[Any]) -> list[Any]:
        try:
            pipeline = self._commands.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
            return pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            self.drop()
            raise unavailable(error) from error

    def _checked(self, answers: list[Any]) -> list[Any]:
        for answer in answers:
            if isinstance(answer, Exception):
                self.drop()
                raise unavailable(answer) from answer
        return answers

    def subscriber(self) -> Redis:
        """The client whose connections wait for what is published."""
        return self._blocking

    # ------------------------------------------------------------------ connections

    def drop(self) -> None:
        """Close the idle connections; those in use find out by themselves."""
        for client in (self._commands, self._blocking):
            client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close everything."""
        for client in (self._commands, self._blocking):
            client.connection_pool.disconnect()


def doze(seconds: float, stopped: Stopped) -> None:
    """Sleep, but for a caller that is stopped meanwhile."""
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0 and not stopped():
        time.sleep(min(STOP_NOTICED_S, left_s))


def _answer(connection: Any, timeout_s: float) -> Any:
    """The next answer; one that is an error is given, not raised: others may follow it.

    Raises redis-py's TimeoutError where it has not come whole; then it may be asked for again.
    """
    try:
        return connection.read_response(timeout=timeout_s, disconnect_on_error=False)
    except ResponseError as error:
        return error


def _last_words(connection: Any, answers: list[Any], count: int) -> list[Any] | None:
    """Hang up, and take what Redis had answered by then: all it has done, it has said before it hears of that."""
    deadline = time.monotonic() + LAST_WORDS_S
    try:
        # Of the plain socket: that of TLS would understand no answer any more.
        socket.socket.shutdown(connection._sock, socket.SHUT_WR)
        while len(answers) < count:
            answers.append(_answer(connection, max(0.001, deadline - time.monotonic())))
    except (RedisError, OSError):
        return None
    finally:
        connection.disconnect()
    return answers


def _greet(connection: Any) -> None:
    """Read what a TLS server has to say at first: redis-py takes it for data that belongs to nobody, and hangs up."""
    connection.on_connect()
    connection.send_command("PING")
    with suppress(ResponseError):
        connection.read_response()


def _evalsha(call: Call) -> tuple[Any, ...]:
    return ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)


def _address(target: str | Redis) -> dict[str, Any]:
    """Return where to connect, from a URL or a client."""
    if isinstance(target, str):
        options = _parsed(target)
    else:
        pool = target.connection_pool
        if type(pool) not in (ConnectionPool, BlockingConnectionPool):
            raise TransportMisconfigured(
                "Give a URL or a plain Redis client; other pools cannot be copied.",
                pool=type(pool).__name__,
            )
        options = {**pool.connection_kwargs, "connection_class": pool.connection_class}
    if options.get("decode_responses"):
        raise TransportMisconfigured(
            "This Redis client decodes answers to text (decode_responses=True); RQ's data is binary, "
            "so give a client without it, or a URL."
        )
    return {name: options[name] for name in options if name in _KEPT or name.startswith("ssl")}


def _parsed(url: str) -> dict[str, Any]:
    try:
        options: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise TransportMisconfigured(f"This Redis URL cannot be read: {error}") from None
    return options
