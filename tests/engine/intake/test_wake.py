"""The hint after a commit is sent by a thread that nobody waits for, except whoever closes what it uses."""

from __future__ import annotations

import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from engine.intake import wake
from engine.intake.wake import WakeHint, dispatcher_channel, gap_s
from outbox.base.ids import new_id
from outbox.transports.base import Ticket
from outbox.transports.memory import MemoryTransport
from outbox.transports.rq import RqTransport
from outbox.transports.rq.acl import DIRECT_COMMANDS, SCRIPT_COMMANDS
from outbox.transports.rq.keys import Keys
from tests.support.forked import exit_code_of
from tests.support.servers import RedisServer


def make_ticket(queue_name: str = "a") -> Ticket:
    return Ticket(new_id(), "synthetic", queue_name, delivery_no=1, deliver_score=0, created_at_ms=0)


class SlowTransport(MemoryTransport):
    """Takes its time over a hint, and says whether it was closed meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.sending = threading.Event()
        self.go_on = threading.Event()
        self.closed_meanwhile = False
        self.sent = threading.Event()

    def wake(self, channel: str) -> None:
        self.sending.set()
        self.go_on.wait(10)
        super().wake(channel)
        self.sent.set()

    def close(self) -> None:
        self.closed_meanwhile = self.sending.is_set() and not self.sent.is_set()


def test_the_transport_is_not_closed_under_the_hands_of_a_hint() -> None:
    transport = SlowTransport()
    hint = WakeHint(transport)
    hint.send(["a"])
    assert transport.sending.wait(10)

    def close() -> None:
        hint.close()
        transport.close()

    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.1)
    transport.go_on.set()
    closing.join(10)

    assert transport.sent.wait(10)
    assert not transport.closed_meanwhile


def test_a_hint_that_nobody_asked_for_is_closed_at_once() -> None:
    WakeHint(MemoryTransport()).close()


def test_a_program_that_ends_after_its_last_job_has_sent_its_hint() -> None:
    transport = SlowTransport()
    transport.go_on.set()
    hint = WakeHint(transport)
    hint.send(["a"])
    assert transport.sending.wait(10)
    # It rests between two hints now; this one is asked for meanwhile.
    hint.send(["b"])
    hint.close()

    assert transport.wait_wake([dispatcher_channel("b")], 0) == dispatcher_channel("b")


def test_a_hint_names_each_queue_once() -> None:
    transport = MemoryTransport()
    hint = WakeHint(transport)
    for _ in range(3):
        hint.send(["a", "b"])
        hint.send(["b"])
    hint.close()

    channels = [dispatcher_channel(queue) for queue in ("a", "b", "c")]
    assert [transport.wait_wake(channels, 0) for _ in range(3)] == [*channels[:2], None]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_sends_hints_of_its_own() -> None:
    """TR-13. Servers that load the application before they fork leave their threads behind."""
    transport = MemoryTransport()
    hint = WakeHint(transport)
    hint.send(["a"])
    assert transport.wait_wake([dispatcher_channel("a")], 10_000)

    def child() -> None:
        hint.send(["b"])
        sys.exit(0 if transport.wait_wake([dispatcher_channel("b")], 10_000) else 1)

    assert exit_code_of(child) == 0
    hint.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_in_the_middle_of_a_send_can_send() -> None:
    """TR-13. The thread that holds the lock is not in the child, and its job's ticket is the parent's to put."""
    transport = MemoryTransport()
    hint = WakeHint(transport)
    inside, go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[str]:
        inside.set()
        go_on.wait(30)
        yield "a"

    sending = threading.Thread(target=hint.send, args=[slowly(), [make_ticket(queue_name="a")]])
    sending.start()
    assert inside.wait(10)

    def child() -> None:
        hint.send([], [make_ticket(queue_name="b")])
        hint.close()
        sys.exit(0 if transport.depth(["a", "b"]) == {"a": 0, "b": 1} else 1)

    try:
        assert exit_code_of(child) == 0
    finally:
        go_on.set()
        sending.join()
        hint.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_was_closed_before_a_fork_is_closed_after_it() -> None:
    transport = MemoryTransport()
    hint = WakeHint(transport)
    hint.close()

    def child() -> None:
        hint.send(["a"])
        hint.close()
        sys.exit(1 if transport.wait_wake([dispatcher_channel("a")], 0) else 0)

    assert exit_code_of(child) == 0


def test_a_creator_without_rights_to_queues_still_gives_its_hint(redis_server: RedisServer) -> None:
    """ADR 15. Its users may wake dispatchers and nothing else."""
    channel = dispatcher_channel("a")
    commands = [f"+{command}" for command in (*DIRECT_COMMANDS, *SCRIPT_COMMANDS)]
    with redis_server.client() as admin:
        admin.execute_command(
            "ACL", "SETUSER", "creator", "reset", "on", ">quiet", f"~{Keys('rq').channel(channel)}", *commands
        )
        transport = RqTransport(redis_server.url.replace("redis://", "redis://creator:quiet@"))
        hint = WakeHint(transport)
        hint.send([], [make_ticket(queue_name="a")])
        hint.close()
        transport.close()
        admin.acl_deluser("creator")

    everybody = RqTransport(redis_server.url)
    assert everybody.wait_wake([channel], 0) == channel
    everybody.close()


def test_a_queue_with_a_foreign_key_in_its_place_hinders_no_other(redis_server: RedisServer) -> None:
    queues = ["a", "b", "c", "d"]
    transport = RqTransport(redis_server.url)
    hint = WakeHint(transport)
    with redis_server.client() as foreigner:
        for queue in queues[:3]:
            foreigner.set(Keys("rq").queue(queue), "no list")
    hint.send([], [make_ticket(queue_name=queue) for queue in queues])
    hint.close()

    channels = [dispatcher_channel(queue) for queue in queues]
    assert transport.depth(["d"]) == {"d": 1}
    assert [transport.wait_wake(channels, 0) for _ in queues] == [*channels[:3], None]
    transport.close()


def test_tickets_that_nobody_takes_do_not_pile_up() -> None:
    """Redis may be silent for as long as it likes, and so may a process that goes on after its end."""
    hint = WakeHint(MemoryTransport())
    hint.close()
    few = [make_ticket() for _ in range(16)]
    hint.send([], few)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            hint.send([], list(few))
        kept, _most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000


def test_nothing_is_sent_after_the_end() -> None:
    transport = MemoryTransport()
    hint = WakeHint(transport)
    hint.close()
    hint.send(["a"])
    assert transport.wait_wake([dispatcher_channel("a")], 0) is None


def test_a_process_that_can_start_no_thread_goes_on_without_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1. The job is committed by then: an error would say that there is none."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    transport = MemoryTransport()
    hint = WakeHint(transport)
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuse)
        hint.send(["a"])
    hint.send(["b"])
    hint.close()

    channels = [dispatcher_channel(queue) for queue in ("a", "b")]
    assert [transport.wait_wake(channels, 0) for _ in range(2)] == channels


#: Sends "b" while the thread rests after "a", and ends.
_SCRIPT = """
import sys
from engine.intake.wake import WakeHint, dispatcher_channel
from outbox.transports.rq import RqTransport

transport = RqTransport(sys.argv[1])
hint = WakeHint(transport)
hint.send(["a"])
assert transport.wait_wake([dispatcher_channel("a")], 20_000)
hint.send(["b"])
"""


def test_a_script_that_ends_without_closing_anything_has_sent_its_last_hint(redis_server: RedisServer) -> None:
    subprocess.run([sys.executable, "-c", _SCRIPT, redis_server.url], check=True, timeout=60)

    transport = RqTransport(redis_server.url)
    assert transport.wait_wake([dispatcher_channel("b")], 0) == dispatcher_channel("b")
    transport.close()


def test_a_gap_grows_with_what_was_created_and_stays_far_below_a_poll() -> None:
    gaps = [gap_s(commits) for commits in (0, 1, 5, 50, 10**9)]
    assert gaps == sorted(gaps)
    assert gaps[1] < gaps[2] < gaps[-1] == gaps[-2]
    # Whoever creates twenty a second never waits for company.
    assert gap_s(1) < 0.05 <= gaps[-1] < 0.1


def test_a_gap_is_as_long_as_the_round_before_it_was_large(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: list[int] = []

    def remember(commits: int) -> float:
        gathered.append(commits)
        return 0.0

    monkeypatch.setattr(wake, "gap_s", remember)
    transport = SlowTransport()
    hint = WakeHint(transport)
    hint.send(["a"])
    assert transport.sending.wait(10)
    for _ in range(5):
        hint.send(["b"])
    transport.go_on.set()
    assert transport.wait_wake([dispatcher_channel("b")], 10_000)
    hint.close()
    assert [commits for commits in gathered if commits] == [1, 5]
