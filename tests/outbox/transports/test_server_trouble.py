"""A real Redis that is silent, gone, emptied, full, a replica or locked: TR-3, TR-9, TR-10, TR-11, TR-13."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import pytest
import redis
from redis._parsers.base import BaseParser

from outbox.errors import TransportError, TransportMisconfigured, TransportUnavailable
from outbox.transports.base import Delivery, PutResult, Settlement, Ticket
from outbox.transports.conformance.words import (
    LEASE_MS,
    NOON,
    PATIENCE_MS,
    QUEUE,
    WORKER,
    Conversation,
    again,
    make_ticket,
)
from outbox.transports.rq import RqTransport
from outbox.transports.rq.faults import reason_of
from tests.support.processes import Children
from tests.support.proxy import TcpProxy
from tests.support.servers import RedisServer, free_port
from tests.support.wait import eventually

DELIVERY = Delivery(make_ticket(), "execution")

#: Every act of the protocol that speaks to Redis.
ACTS: dict[str, Callable[[RqTransport], Any]] = {
    "put_many": lambda t: t.put_many([make_ticket()]),
    "depth": lambda t: t.depth([QUEUE]),
    "wait": lambda t: t.wait(QUEUE, 200),
    "wait without time": lambda t: t.wait(QUEUE, 0),
    "claim": lambda t: t.claim(QUEUE, 1, WORKER, LEASE_MS),
    "claim that waits": lambda t: t.claim(QUEUE, 1, WORKER, LEASE_MS, wait_ms=200),
    "heartbeat": lambda t: t.heartbeat(WORKER, [DELIVERY], LEASE_MS),
    "finish_many": lambda t: t.finish_many(WORKER, [(DELIVERY, Settlement.FINISHED)]),
    "defer_many": lambda t: t.defer_many([(DELIVERY, 1_000)]),
    "recover": lambda t: t.recover(QUEUE),
    "alive": lambda t: t.alive([(QUEUE, "synthetic", DELIVERY.ticket.job_id)]),
    "cancel": lambda t: t.cancel(QUEUE, "synthetic", DELIVERY.ticket.job_id),
    "wake": lambda t: t.wake("dispatcher"),
    "wait_wake": lambda t: t.wait_wake(["dispatcher"], 200),
    "register_worker": lambda t: t.register_worker(WORKER, [QUEUE]),
    "unregister_worker": lambda t: t.unregister_worker(WORKER),
    "workers": lambda t: t.workers(),
    "register_dispatcher": lambda t: t.register_dispatcher("d"),
    "dispatchers": lambda t: t.dispatchers(),
    "check": lambda t: t.check(),
}
acts = pytest.mark.parametrize("act", list(ACTS.values()), ids=list(ACTS))


def reason(act: Callable[[], Any]) -> str:
    """Return why Redis cannot be used for the act."""
    with pytest.raises(TransportUnavailable) as caught:
        act()
    return caught.value.reason


class HalfAnswer:
    """A server that knows nothing, answers the look before the wait and half of the wait, and is silent then."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.silent = threading.Event()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        # Wakes up who accepts.
        socket.create_connection(("127.0.0.1", self.port)).close()
        for thread in self._threads:
            thread.join(PATIENCE_MS / 1000)
        self._listening.close()

    def _begin(self, act: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=act, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while not self._over.is_set():
            connection, _ = self._listening.accept()
            self._begin(self._answer, connection)

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while asked := connection.recv(65_536):
                if b"BLMOVE" in asked:
                    connection.sendall(b"$-1\r\n")
                    self.silent.set()
                    self._over.wait(PATIENCE_MS / 1000)
                    return
                connection.sendall(b"*0\r\n")


@pytest.fixture
def transport(redis_server: RedisServer) -> Iterator[RqTransport]:
    transport = RqTransport(redis_server.url, timeout_s=0.3, connect_timeout_s=0.3, block_s=0.1)
    yield transport
    transport.close()


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[TcpProxy]:
    with TcpProxy(redis_server.address) as proxy:
        yield proxy


@pytest.fixture
def through_proxy(redis_server: RedisServer, proxy: TcpProxy) -> Iterator[RqTransport]:
    transport = RqTransport(proxy.url(redis_server.url), timeout_s=2)
    yield transport
    transport.close()


class TestTR3NothingIsRepeatedByTheLibrary(Conversation):
    @acts
    def test_a_silent_server_makes_an_error_and_not_a_hang(
        self, transport: RqTransport, redis_server: RedisServer, act: Callable[[RqTransport], Any]
    ) -> None:
        transport.depth([QUEUE])  # a connection from before
        redis_server.pause()

        assert reason(lambda: act(transport)) == "timeout"

    def test_a_lost_answer_is_not_asked_for_again(
        self,
        through_proxy: RqTransport,
        proxy: TcpProxy,
        redis_client: redis.Redis,
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(6)]
        self.put(through_proxy, *tickets)
        self.finish(through_proxy, *self.claim(through_proxy, 1))  # all scripts are loaded
        redis_client.config_resetstat()
        lost = proxy.drop_answers_once(b"EVALSHA")

        assert reason(lambda: self.claim(through_proxy, 2)) == "connection"

        lost.wait()
        assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
        assert through_proxy.depth([QUEUE]) == {QUEUE: 3}

    def test_a_claim_that_waits_is_one_trip_and_one_script(
        self, through_proxy: RqTransport, redis_client: redis.Redis
    ) -> None:
        self.put(through_proxy, make_ticket())
        self.drain(through_proxy)  # all scripts are loaded
        redis_client.config_resetstat()
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(through_proxy.claim, QUEUE, 2, WORKER, LEASE_MS, wait_ms=PATIENCE_MS)
            eventually(lambda: redis_client.info("clients")["blocked_clients"] == 1)
            self.put(through_proxy, make_ticket())
            assert len(waiting.result()) == 1

        # What was there at first, the put, and what the wait had brought along.
        assert redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] == 3

    @pytest.mark.parametrize("forget", ["script_flush", "flushall"])
    def test_a_claim_that_waits_outlives_what_redis_forgets(
        self, through_proxy: RqTransport, redis_client: redis.Redis, forget: str
    ) -> None:
        self.put(through_proxy, make_ticket())
        self.drain(through_proxy)
        ticket = make_ticket()
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(through_proxy.claim, QUEUE, 2, WORKER, LEASE_MS, wait_ms=PATIENCE_MS)
            eventually(lambda: redis_client.info("clients")["blocked_clients"] == 1)
            getattr(redis_client, forget)()
            self.put(through_proxy, ticket)

            assert [delivery.ticket for delivery in waiting.result()] == [ticket]

    def test_what_was_handed_out_outweighs_an_error_of_the_wait(
        self, redis_server: RedisServer, redis_client: redis.Redis
    ) -> None:
        """A user who may run scripts and not wait: the next claim says so, this one has tickets in hand."""
        redis_client.acl_setuser(
            "half", enabled=True, nopass=True, keys=["*"], channels=["*"], commands=["+@all", "-blmove"]
        )
        half = RqTransport(redis_server.url.replace("redis://", "redis://half:any@"))
        ticket = make_ticket()

        def stopped() -> bool:
            # Asked after the first look at the queue, and before the wait.
            self.put(half, ticket)
            return False

        claimed = half.claim(QUEUE, 1, WORKER, LEASE_MS, wait_ms=PATIENCE_MS, stopped=stopped)
        assert [delivery.ticket for delivery in claimed] == [ticket]
        with pytest.raises(TransportError):
            half.claim(QUEUE, 1, WORKER, LEASE_MS, wait_ms=PATIENCE_MS)
        half.close()

    def test_a_stop_does_not_wait_for_the_rest_of_an_answer(self) -> None:
        """A server, or a proxy before it, that falls silent between two answers."""
        stop = threading.Event()
        with HalfAnswer() as server:
            transport = RqTransport(f"redis://127.0.0.1:{server.port}", timeout_s=PATIENCE_MS / 1000)
            with ThreadPoolExecutor(1) as thread:
                waiting = thread.submit(
                    transport.claim, QUEUE, 1, WORKER, LEASE_MS, wait_ms=PATIENCE_MS, stopped=stop.is_set
                )
                assert server.silent.wait(PATIENCE_MS / 1000)
                stop.set()
                assert waiting.result(PATIENCE_MS / 4000) == []
            transport.close()

    def test_what_a_lost_claim_took_comes_back(
        self, through_proxy: RqTransport, proxy: TcpProxy
    ) -> None:
        self.put(through_proxy, make_ticket())
        self.drain(through_proxy)  # all scripts are loaded
        tickets = [make_ticket(NOON + i) for i in range(3)]
        self.put(through_proxy, *tickets)
        proxy.drop_answers_once(b"EVALSHA")
        with pytest.raises(TransportUnavailable):
            self.claim(through_proxy, 2)
        assert through_proxy.depth([QUEUE]) == {QUEUE: 1}

        through_proxy.advance(LEASE_MS)
        through_proxy.recover(QUEUE)

        assert self.drain(through_proxy) == tickets

    def test_a_put_whose_answer_was_lost_can_be_repeated(
        self, through_proxy: RqTransport, proxy: TcpProxy
    ) -> None:
        self.put(through_proxy, make_ticket(NOON - 1))
        tickets = [make_ticket(NOON + i) for i in range(3)]
        proxy.drop_answers_once(b"EVALSHA")
        with pytest.raises(TransportUnavailable):
            self.put(through_proxy, *tickets)

        assert self.put(through_proxy, *tickets) == [PutResult.DUPLICATE] * 3
        assert self.drain(through_proxy)[1:] == tickets

    def test_a_finish_whose_answer_was_lost_can_be_repeated(
        self, through_proxy: RqTransport, proxy: TcpProxy
    ) -> None:
        ticket = make_ticket()
        self.put(through_proxy, make_ticket(), ticket)
        first, second = self.claim(through_proxy)
        self.finish(through_proxy, first)
        proxy.drop_answers_once(b"EVALSHA")
        with pytest.raises(TransportUnavailable):
            self.finish(through_proxy, second)

        assert self.finish(through_proxy, second) == [False]
        assert not self.is_alive(through_proxy, ticket)

    def test_a_given_client_lends_its_address_and_not_its_habits(
        self, redis_server: RedisServer
    ) -> None:
        client = redis.Redis(port=redis_server.port, socket_timeout=60)
        assert client.connection_pool.connection_kwargs["retry"]._retries > 0

        transport = RqTransport(client, timeout_s=1.5)

        for ours in (transport._broker._commands, transport._broker._blocking):
            settings = ours.connection_pool.connection_kwargs
            assert settings["retry"]._retries == 0
            assert settings["socket_timeout"] < 60
        assert self.put(transport, make_ticket()) == [PutResult.NEW]
        transport.close()


class TestTR9FailoverAndRestart(Conversation):
    @acts
    def test_a_server_that_is_gone_makes_a_transport_error(
        self, act: Callable[[RqTransport], Any]
    ) -> None:
        transport = RqTransport(f"redis://127.0.0.1:{free_port()}", connect_timeout_s=1)

        assert reason(lambda: act(transport)) == "connection"

    def test_work_goes_on_after_a_restart_that_lost_everything(
        self, transport: RqTransport, redis_server: RedisServer
    ) -> None:
        ticket = make_ticket()
        transport.register_worker(WORKER, [QUEUE])
        self.put(transport, ticket)
        delivery = self.claim_one(transport)

        redis_server.kill()
        redis_server.start()

        # the connection from before may be noticed by the first call only
        eventually(lambda: _answers(lambda: transport.depth([QUEUE])))
        assert self.beat(transport, delivery).lost == {delivery.execution_id}
        assert [worker.name for worker in transport.workers()] == [WORKER]
        assert self.finish(transport, delivery) == [False]
        assert not self.is_alive(transport, ticket)
        assert self.put(transport, again(ticket, 2)) == [PutResult.NEW]
        assert self.finish(transport, self.claim_one(transport)) == [True]

    def test_ob_9_a_flush_loses_tickets_and_nothing_else(
        self, transport: RqTransport, redis_server: RedisServer
    ) -> None:
        tickets = [make_ticket(NOON + i) for i in range(20)]
        self.put(transport, *tickets)
        redis_server.flush()  # data and scripts

        alive = transport.alive([(t.queue_name, t.job_type, t.job_id) for t in tickets])
        newer = [again(ticket, 2) for ticket in tickets]

        assert alive == [False] * 20
        assert self.put(transport, *newer) == [PutResult.NEW] * 20
        assert self.drain(transport) == newer

    def test_forgotten_scripts_are_loaded_in_the_same_call(
        self, transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        transport.register_worker(WORKER, [QUEUE])
        self.put(transport, make_ticket())
        delivery = self.claim_one(transport)

        redis_client.script_flush()

        assert self.beat(transport, delivery).lost == frozenset()
        assert self.put(transport, *(make_ticket() for _ in range(80))) == [PutResult.NEW] * 80

    def test_a_replica_is_left_as_soon_as_it_says_so(
        self, redis_server: RedisServer, own_redis: RedisServer
    ) -> None:
        """After a failover the name leads elsewhere, but an old connection still ends at the old master."""
        with TcpProxy(redis_server.address) as proxy:
            transport = RqTransport(proxy.url(redis_server.url))
            self.put(transport, make_ticket())
            with redis_server.client() as old_master:
                old_master.replicaof("127.0.0.1", str(free_port()))
                proxy.target = own_redis.address

                assert reason(lambda: self.put(transport, make_ticket())) == "readonly"
                assert self.put(transport, make_ticket()) == [PutResult.NEW]

                with own_redis.client() as new_master:
                    assert new_master.llen(f"rq:queue:{QUEUE}") == 1
                old_master.replicaof("NO", "ONE")
            transport.close()

    @pytest.mark.parametrize("name", ["put_many", "claim", "heartbeat", "recover", "wake", "wait"])
    def test_a_read_only_server_takes_no_write(
        self, transport: RqTransport, own_redis: RedisServer, name: str
    ) -> None:
        transport = RqTransport(own_redis.url)
        ticket = make_ticket()
        self.put(transport, ticket)
        held = self.claim_one(transport)
        self.put(transport, make_ticket())
        acts = {**ACTS, "heartbeat": lambda t: t.heartbeat(WORKER, [held], LEASE_MS)}
        with own_redis.client() as client:
            client.replicaof("127.0.0.1", str(free_port()))

        assert reason(lambda: acts[name](transport)) == "readonly"
        assert transport.check() == [
            "This Redis is a replica and takes no writes; give the address of the master."
        ]
        transport.close()

    def test_a_replica_without_a_master_is_unavailable(self, own_redis: RedisServer) -> None:
        transport = RqTransport(own_redis.url)
        with own_redis.client() as client:
            client.config_set("replica-serve-stale-data", "no")
            client.replicaof("127.0.0.1", str(free_port()))

        assert reason(lambda: transport.depth([QUEUE])) == "masterdown"
        transport.close()

    def test_a_cluster_without_slots_is_unavailable(self, bare_cluster: RedisServer) -> None:
        transport = RqTransport(bare_cluster.url, prefix="{aijobs}")

        assert reason(lambda: transport.depth([QUEUE])) == "clusterdown"
        transport.close()

    def test_a_sleeper_hears_that_its_server_died(
        self, transport: RqTransport, redis_server: RedisServer, redis_client: redis.Redis
    ) -> None:
        with ThreadPoolExecutor(1) as thread:
            sleeper = thread.submit(transport.wait, QUEUE, PATIENCE_MS)
            eventually(lambda: redis_client.info("clients")["blocked_clients"] == 1)

            redis_server.kill()

            assert reason(sleeper.result) == "connection"

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            ("LOADING Redis is loading the dataset in memory", "loading"),
            ("READONLY You can't write against a read only replica.", "readonly"),
            ("MASTERDOWN Link with MASTER is down", "masterdown"),
            ("CLUSTERDOWN Hash slot not served", "clusterdown"),
            ("TRYAGAIN Multiple keys request during rehashing of slot", "tryagain"),
            ("OOM command not allowed when used memory > 'maxmemory'.", "oom"),
            ("NOAUTH Authentication required.", "auth"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "auth"),
            ("NOPERM this user has no permissions to run the 'evalsha' command", "auth"),
            ("MOVED 3999 127.0.0.1:6381", "moved"),
            ("BUSY Redis is busy running a script.", "busy"),
            ("MISCONF Redis is configured to save RDB snapshots", "misconf"),
            ("NOREPLICAS Not enough good replicas to write.", "noreplicas"),
            ("ERR max number of clients reached", "connection"),
            ("ERR something new", "error"),
            # servers before 7 wrap what a script's command answered
            ("ERR Error running script (call to f_1): @user_script:1: -READONLY You", "readonly"),
            ("ERR Error running script (call to f_1): @user_script:1: -OOM command", "oom"),
        ],
    )
    def test_every_answer_has_its_word(self, answer: str, expected: str) -> None:
        assert reason_of(BaseParser.parse_error(answer)) == expected


class TestTR10OutOfMemory(Conversation):
    def test_a_full_server_blames_no_ticket_and_can_still_be_drained(
        self, transport: RqTransport, own_redis: RedisServer
    ) -> None:
        transport = RqTransport(own_redis.url)
        ticket, late = make_ticket(), make_ticket(NOON + 1)
        transport.register_worker(WORKER, [QUEUE])
        self.put(transport, ticket)
        with own_redis.client() as client:
            client.config_set("maxmemory", "1")

            assert reason(lambda: self.put(transport, late)) == "oom"
            delivery = self.claim_one(transport)
            assert delivery.ticket == ticket
            assert self.finish(transport, delivery) == [True]

            client.config_set("maxmemory", "0")
        assert self.put(transport, late) == [PutResult.NEW]
        transport.close()

    def test_an_evicting_server_is_reported_at_start(self, own_redis: RedisServer) -> None:
        transport = RqTransport(own_redis.url)
        with own_redis.client() as client:
            client.config_set("maxmemory-policy", "allkeys-lru")

        [problem] = transport.check()

        assert "noeviction" in problem
        transport.close()


class TestTR11DecodedAnswers:
    def test_a_client_that_decodes_is_refused_at_start(self, redis_server: RedisServer) -> None:
        with (
            redis_server.client(decode_responses=True) as client,
            pytest.raises(TransportMisconfigured, match="decode_responses"),
        ):
            RqTransport(client)

    def test_a_url_that_decodes_is_refused_at_start(self, redis_server: RedisServer) -> None:
        with pytest.raises(TransportMisconfigured, match="decode_responses"):
            RqTransport(f"{redis_server.url}?decode_responses=true")

    def test_a_pool_that_cannot_be_copied_is_refused_at_start(self) -> None:
        sentinel = redis.Sentinel([("127.0.0.1", 1)])

        with pytest.raises(TransportMisconfigured, match="plain"):
            RqTransport(sentinel.master_for("main"))


class TestTR13Forks:
    def test_forked_children_neither_use_nor_close_the_parents_connections(
        self, redis_server: RedisServer, children: Children
    ) -> None:
        assert children.call(fork_twenty, redis_server.url).check(60).strip() == "sound"


def fork_twenty(url: str) -> None:
    """In a process of its own: use a transport, fork 20 children that use it too, use it again.

    Meanwhile threads of the parent use it, so that a child inherits it in the middle of their calls.
    """
    transport = RqTransport(url)
    transport.put_many([make_ticket()])
    over = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        busy = [threads.submit(_ask_until, over, transport) for _ in range(2)]
        pids = [_fork(lambda n=n: _child(transport, n)) for n in range(20)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        over.set()
        answers = [future.result() for future in busy]
    codes += [0 if sound else 3 for sound in answers]
    sound = codes == [0] * 22 and transport.depth([QUEUE]) == {QUEUE: 1}
    print("sound" if sound else (codes, transport.depth([QUEUE])))


def _ask_until(over: threading.Event, transport: RqTransport) -> bool:
    answers = set()
    while not over.is_set():
        answers.add(transport.depth([QUEUE])[QUEUE])
    return answers == {1}


def _fork(child: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = 0 if child() else 2
    finally:
        os._exit(code)


def _child(transport: RqTransport, number: int) -> bool:
    queue = f"queue-{number}"
    tickets: list[Ticket] = [make_ticket(NOON + i, queue_name=queue) for i in range(10)]
    for ticket in tickets:
        transport.put_many([ticket])
    deliveries = transport.claim(queue, 64, f"w{number}", LEASE_MS)
    settled = transport.finish_many(f"w{number}", [(d, Settlement.FINISHED) for d in deliveries])
    return [d.ticket for d in deliveries] == tickets and all(settled)


class TestAccess(Conversation):
    def test_a_wrong_password_is_broker_wide_trouble(self) -> None:
        with RedisServer(options={"requirepass": "right"}) as server:
            good = server.url.replace("redis://", "redis://:right@")
            bad = server.url.replace("redis://", "redis://:wrong@")
            transports = [RqTransport(url) for url in (server.url, bad, good)]

            assert reason(lambda: transports[0].depth([QUEUE])) == "auth"
            assert reason(lambda: transports[1].depth([QUEUE])) == "auth"
            assert transports[2].depth([QUEUE]) == {QUEUE: 0}
            for transport in transports:
                transport.close()

    def test_errors_never_show_the_password(self) -> None:
        transport = RqTransport(f"redis://user:hush-hush@127.0.0.1:{free_port()}")

        with pytest.raises(TransportError) as caught:
            transport.depth([QUEUE])

        assert "hush-hush" not in f"{caught.value} {caught.value.details} {caught.value.__cause__}"

    def test_one_transport_has_one_connection_per_thread_at_most(
        self, rq_transport: RqTransport, redis_client: redis.Redis
    ) -> None:
        barrier = threading.Barrier(4)

        def ask() -> None:
            barrier.wait()
            for _ in range(20):
                rq_transport.depth([QUEUE])

        with ThreadPoolExecutor(4) as threads:
            for future in [threads.submit(ask) for _ in range(4)]:
                future.result()

        assert redis_client.info("clients")["connected_clients"] <= 1 + 4


def _answers(act: Callable[[], Any]) -> bool:
    try:
        act()
    except TransportUnavailable:
        return False
    return True
