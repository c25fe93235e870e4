"""HOW FAST IT IS, beside what people would pick instead, in one run on one machine.

    __main__ .... the command: rows, rounds, a table, JSON
    servers ..... private MariaDB or PostgreSQL and Redis at default durability
    systems ..... what is measured: the engine, a hand-written outbox with RQ, public queues
    rows ........ what is asked of them, one function a row;  growth ... how cost grows
    counters .... what the servers counted: statements, commits, commands, round trips, CPU
    programs .... child processes: started, watched (memory, CPU), stopped
    ticks ....... every job leaves a time in a file, so that all systems are timed the same way
    figures ..... medians and spreads
    report ...... a table for people, Markdown for docs/performance.md
    ours, naive, peers/ ... the programs that run in the children
"""
