"""The names of all keys: RQ's own, under a prefix of our choice.

RQ reads its prefix once, from RQ_KEY_PREFIX at import, so two prefixes in one process are impossible
through RQ's classes; that is why the names are built here. Stock tools see another prefix than "rq"
when they are started with ``RQ_KEY_PREFIX=<prefix>``. A prefix with a hash tag (``{aijobs}``) keeps
all keys in one slot, which the scripts need on a Redis Cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from outbox.errors import TransportMisconfigured

#: What RQ itself allows; none of these characters has a meaning in an ACL key pattern.
_PREFIX = re.compile(r"[A-Za-z0-9_.:{}-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")


@dataclass(frozen=True)
class Keys:
    """Every key of one transport; nothing stands outside the prefix (X85)."""

    prefix: str

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise TransportMisconfigured(
                "A key prefix holds up to 64 letters, digits and _ . : - { }.", prefix=self.prefix
            )

    @cached_property
    def queues(self) -> str:
        """The set of known queues."""
        return f"{self.prefix}:queues"

    @cached_property
    def workers(self) -> str:
        """The set of known workers."""
        return f"{self.prefix}:workers"

    @cached_property
    def dispatchers(self) -> str:
        """The set of known dispatchers; not among the workers, for whom RQ's tools show queues."""
        return f"{self.prefix}:dispatchers"

    @cached_property
    def suspended(self) -> str:
        """Present while ``rq suspend`` stops the workers."""
        return f"{self.prefix}:suspended"

    def job(self, ticket_id: str) -> str:
        """The hash of a ticket."""
        return f"{self.prefix}:job:{ticket_id}"

    def cancel_hint(self, job_id: UUID) -> str:
        """The cancel hint of a job; the scripts find it by the last 32 characters of a ticket id."""
        return f"{self.prefix}:job:cancel:{job_id.hex}"

    def queue(self, queue: str) -> str:
        """The list of waiting tickets."""
        return f"{self.prefix}:queue:{queue}"

    def registry(self, kind: str, queue: str) -> str:
        """One of RQ's registries: wip (started), scheduled, finished, failed, canceled."""
        return f"{self.prefix}:{kind}:{queue}"

    def worker(self, worker: str) -> str:
        """The hash of a worker."""
        return f"{self.prefix}:worker:{checked_name(worker)}"

    def dispatcher(self, dispatcher: str) -> str:
        """The hash of a dispatcher."""
        return f"{self.prefix}:dispatcher:{checked_name(dispatcher)}"

    def worker_executions(self, worker: str) -> str:
        """The set of a worker's executions."""
        return f"{self.prefix}:worker:{checked_name(worker)}:executions"

    def workers_of(self, queue: str) -> str:
        """The set of a queue's workers."""
        return f"{self.prefix}:workers:{queue}"

    @cached_property
    def ended(self) -> str:
        """The publish channel on which whoever waits hears of ended jobs."""
        return f"{self.prefix}:ended"

    def channel(self, channel: str) -> str:
        """The token of a wake channel."""
        return f"{self.prefix}:wake:{checked_name(channel)}"


def checked_name(name: str) -> str:
    """Return a worker or channel name, or refuse it: names end up in keys."""
    if not _NAME.fullmatch(name):
        raise TransportMisconfigured(
            "A name holds up to 128 letters, digits and _ . : @ -.", name=name
        )
    return name
