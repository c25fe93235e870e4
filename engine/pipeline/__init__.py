"""FROM A DELIVERY TO A COMMITTED RESULT, in this order:

    1  prepare ..... definition known? claim the rows, read them and their inputs   (a batch, one transaction)
    2  resolve ..... snapshot -> input, credential, prompt
    3  execute ..... safety, handler or prompt + gateway, validation, redaction, hash, all under a deadline
    4  project ..... projector, artifacts, usage, mark_succeeded, terminal event    (the final transaction)
    5  complete .... telemetry; can never fail the job

    work ........... what a stage is given: the claimed job, and what an abort means
    context ........ JobContext, what a handler sees
    commits ........ what a handler commits itself, once in the job's life: lease, look-up, change, receipt
    gateway ........ the metered way to a model: intent, call, settlement
    retry .......... what follows a failed attempt: a pure decision, and the only place of retries
    settle ......... writes what was decided: retry in place, park, fail, cancel, hand back
    batcher ........ what arrives together shares a transaction
    outages ........ what must be written is written through an outage of the database
    heartbeat ...... keeps all leases of a process with one statement
    engine ......... AiJobExecutionEngine, the attempt loop over the stages
"""
