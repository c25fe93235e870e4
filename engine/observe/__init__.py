"""WHAT A DAEMON SAYS ABOUT ITSELF, to people and to the program that started it.

    facts ...... telemetry as log lines: a level per fact, ids and numbers only
    logs ....... logging of a daemon: readable lines on a terminal, one JSON object a line elsewhere
    tracing .... W3C trace context, where OpenTelemetry is installed
    notify ..... READY and STOPPING for systemd
    metrics .... what Prometheus is told: counters of this process, gauges of the database and Redis
    readiness .. whether this process can do its work, by what it did lately
    redis_watch  once that Redis is away, once that it is back
    probe ...... both over HTTP, for a daemon that serves nothing else

Promise: no input, output, key or user id reaches a log (design 1). So foreign errors are logged by their
kind and place, never by their text, and a fact is logged by the fields that are known to be ids.
"""
