"""HOW A FACT LEAVES THE DATABASE, and is received once.

    base/ ........ what a transaction stands on: database, clock, canonical JSON, loops
    events ....... the facts: names and payloads of outbox events
    states ....... pending -> processing -> published | dead | obsolete, as data
    models ....... the tables outbox_event and inbox_event
    repository ... every statement on outbox_event, each in its caller's transaction
    dispatcher ... one round: read due rows, claim, put tickets on Redis, mark
    inbox ........ a foreign event is received once
    transports/ .. what carries a ticket to a worker; expendable, never the truth

The promise: an event is written in the transaction that made it true, and is handed on at least once
after that transaction committed (design 8).
"""
