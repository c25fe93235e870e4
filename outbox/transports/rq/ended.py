"""Hearing of ended jobs over Redis' publish and subscribe: nothing is kept, who does not listen costs nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from redis import Redis
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from outbox.transports.base import STOP_NOTICED_S, Stopped, never
from outbox.transports.rq.faults import unavailable

#: How long Redis may take to answer a subscription, in seconds.
_ANSWER_S: Final = 5.0


def announcement(channel: str, job_ids: Iterable[UUID]) -> tuple[str, ...]:
    """The command that tells whoever listens; ids and nothing else."""
    return ("PUBLISH", channel, ",".join(sorted({job_id.hex for job_id in job_ids})))


class RqEndedJobs:
    """See :class:`outbox.transports.base.EndedJobs`; a connection of its own."""

    def __init__(self, client: Redis, channel: str) -> None:
        """Raises ``TransportUnavailable``."""
        self._pubsub: Any = client.pubsub()  # type: ignore[no-untyped-call]
        try:
            self._pubsub.subscribe(channel)
            # Until Redis has answered, what another connection publishes may still come first.
            if self._pubsub.get_message(timeout=_ANSWER_S) is None:
                raise RedisTimeout("no answer to SUBSCRIBE")
        except (RedisError, OSError) as error:
            self.close()
            raise unavailable(error) from error

    def wait(self, timeout_ms: int, stopped: Stopped = never) -> frozenset[UUID]:
        """See :meth:`EndedJobs.wait`."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            heard = self._look(left_s if stopped is never else min(left_s, STOP_NOTICED_S))
            if heard or left_s <= 0 or stopped():
                return heard

    def _look(self, seconds: float) -> frozenset[UUID]:
        try:
            message = self._pubsub.get_message(ignore_subscribe_messages=True, timeout=seconds)
        except (RedisError, OSError) as error:
            raise unavailable(error) from error
        return frozenset() if message is None else _ids(message["data"])

    def close(self) -> None:
        """See :meth:`EndedJobs.close`."""
        self._pubsub.close()


def _ids(data: object) -> frozenset[UUID]:
    """What stands in a message; nothing where it is none of ours."""
    try:
        return frozenset(UUID(hex=word) for word in bytes(data).decode().split(","))  # type: ignore[call-overload]
    except (ValueError, TypeError):
        return frozenset()
