"""THE OPERATOR'S API, under ``/admin-api/ai``: whoever has the scope ``admin``; internal errors for SUPER_ADMIN alone.

router ... puts the parts together
acts ..... one act of an operator: done and written down in one transaction, or refused and written down
jobs ..... list, look at, retry, cancel;   bulk ... the same for all that match, with a dry run
outbox ... counts, list, redeliver, discard
queues ... depth, oldest, pause, resume;   fleet ... workers, types, audit
"""
