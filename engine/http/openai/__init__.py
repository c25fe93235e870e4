"""THE OPENAI-COMPATIBLE ROUTE: a chat request becomes a durable job, and the job's end its answer.

    router ...... /v1/chat/completions and /v1/models
    request ..... what a client may ask for, and the job's payload it becomes
    job ......... makes the job of a request, or attaches to the one an interrupted request had made
    answer ...... the completion object, from the job's output: the same bytes whoever asks
    stream ...... the same as chunks, while the answer is being made
    transcript .. what was sent, and what may follow
    failure ..... errors in OpenAI's shape
    offer ....... which models are offered

Promise: a request that is repeated with its Idempotency-Key never makes a second job while the first is good.
"""
