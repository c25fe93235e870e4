"""THE ROW'S STATE, AND THE ONLY WRITER OF IT.

    states ........ queued -> running -> succeeded | failed | cancelled, as data
    models ........ ai_job, its snapshot, output, claims and receipts
    lease ......... a worker's right to a job: the fence of every later write
    claims ........ may this job be claimed, and why: a pure decision
    candidates .... the rows a claim looks at, read once
    claim_log ..... every start of a job, and how it ended
    repository .... AiJobLifecycleRepository: one method per move, each in its caller's transaction
    snapshots ..... the stored input;   outputs ... the stored result
    receipts ...... what handlers committed themselves, once for each operation
    views ......... reading jobs
    circumstances . what an explanation is made from and what it says
    explain ....... why a job is where it is, and what happens next by itself: one pure function
    queues ........ which queues are paused;   audit ... who did what
    documents ..... how values read as JSON at every edge
"""
