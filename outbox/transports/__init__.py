"""How a ticket travels from the dispatcher to a worker; on the way everything may be lost.

    base         the protocol, its values, and what each method promises
    memory       in this process only: tests, demos, embedded use
    listeners    who hears of ended jobs inside one process
    rq/          RQ's keys on Redis (the only place that imports redis and rq), or on fakeredis
    factory      open_transport("redis://..." | "memory://" | "fakeredis://...")
    conformance  the promises as a test suite, for these transports and for yours

The transport is fast and expendable: SQL decides, a ticket is only a wake-up hint (design 9). It
may deliver twice, late or not at all; the claim in the database is the guard, upkeep the net below.
"""
