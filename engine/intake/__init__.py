"""HOW A JOB COMES IN: the one door, and the transaction it opens or joins.

    commands .... what a caller asks for, and what it gets
    checks ...... every field is judged before anything is written
    draft ....... a checked request: job row, snapshot and event, ready to be inserted
    joining ..... whose transaction it is, and what may go wrong in it
    wake ........ the hint after the outermost commit
    admission ... limits per user, under the lock of the user's counter
    service ..... AiJobService: create_job, request_cancel, retry_as_new, get, wait
"""
