"""ONE KEY, ONE RUN: a request that is sent again gets the answer of the first one (AH-1 to AH-6, X46 to X59).

    errors .... the key is malformed, in use, used up, or its outcome is unknown
    request ... what identifies a request: its key, its scope, its fingerprint
    record .... what is known about a key, and the stored answer
    guard ..... what follows for a request that comes with that key: a pure decision
    models .... the table idempotency_record
    store ..... every statement on it: claim, renew, link, complete, let go, purge

Promises: a claim is taken before anything runs and only by one; every later write names its token; another
body is refused before anything else is looked at; a claim is taken over only after its lease was missed.
Left to others: HTTP (engine.http.idempotency), and the answer of a job (the job's own row).
"""
