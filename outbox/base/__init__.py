"""WHAT A TRANSACTION STANDS ON: shared ground, below everything that knows jobs or events.

    types ....... column types that mean the same on every database
    db .......... the declarative Base, engines prepared for our rules, the unit of work
    clock ....... the database's clock, as SQL; the only place that may look at a host's
    bulk ........ many rows in one INSERT, compiled once
    canonical ... one byte string per JSON value (RFC 8785), and digests
    ids ......... UUIDv7, made before the insert
    loop ........ a loop is one round plus a runner
    backoff ..... growing waits with jitter, as a pure function
    telemetry ... facts are emitted, others format them
"""
