"""WHAT A TRANSACTION STANDS ON: shared ground, below everything that knows jobs or events.

    types ....... column types that mean the same on every database
    tables ...... what every table is made of: one MetaData, MySQL's options, NOT NULL
    db .......... engines prepared for our rules, the unit of work
    failures .... what a database error means: run the unit again, connection lost, or neither
    idle ........ the server ends a transaction that stands still
    verify ...... what is wrong with a server or a connection, asked once at start
    clock ....... the database's clock, as SQL; the only place that may look at a host's
    bulk ........ many rows in one INSERT, compiled once
    later ....... writes that travel with their COMMIT
    outcome ..... what became of a caller's transaction, told to those who wait for it
    drivers ..... what a driver is told beyond its URL, and one TLS context for all its connections
    clean ....... no connection goes back to the pool with a transaction open
    canonical ... one byte string per JSON value (RFC 8785), and digests
    documents ... from a validated model to those bytes
    unindexed ... a column that may narrow a change by key and must not choose its way
    ids ......... UUIDv7, made before the insert
    loop ........ a loop is one round plus a runner
    backoff ..... growing waits with jitter, as a pure function
    signals ..... told on a thread, whichever thread the kernel hands them to
    points ...... where a drill may kill a process; nothing in production
    telemetry ... facts are emitted, others format them
"""
