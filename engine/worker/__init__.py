"""THE PROCESS THAT WORKS: any number of them, started per queue.

    identity .... who this process is, for people
    fetcher ..... from free slots to claimed work, a batch at a time
    pauses ...... which queues hand out nothing
    tickets ..... takes finished tickets off Redis, a batch at a time
    loops ....... loops whose rounds tell whether the process gets on
    eventloop ... a loop whose end no handler can put off
    process ..... WorkerProcess: fetchers, engine, heartbeat, recovery, and how it stops
    entry ....... what a stock ``rq worker`` runs in an emergency
"""
