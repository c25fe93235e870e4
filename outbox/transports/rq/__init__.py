"""Tickets in RQ's data model on Redis; the only package that imports redis and rq.

    transport   RqTransport: the protocol, one round trip per batch
    calls       what is sent: each act as a script with its KEYS and ARGV
    batches     cuts a batch into short calls and puts the answers back in order
    scripts/    one Lua file per act; its head names KEYS, ARGV and the answer
    lua         loads them, puts shared parts in, knows their digests
    broker      every byte to and from Redis: clients, time-outs, one round trip per batch, errors
    faults      which answer of Redis means what; the only translation of foreign errors
    keys        RQ's key names under our prefix
    wire        a ticket as bytes: JSON, RQ's call format
    presence    who is there, from what the server tells
    checks      what must be true of the server, asked once at start
    ended       tells, and hears, that jobs have ended: publish and subscribe
    fake        the same scripts in process, on fakeredis
    acl         the Redis user a production needs, and nothing more

RQ's data model, not its work loop (design 9): ``rq info`` and dashboards read what is here, a stock
``rq worker --serializer json`` can run a job in an emergency, but no RQ retry, scheduler, callback,
maintenance or job time limit is used, and nothing in Redis decides a job's state (TR-5).
"""

from outbox.transports.rq.transport import RqTransport

__all__ = ["RqTransport"]
