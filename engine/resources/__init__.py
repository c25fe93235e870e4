"""What an attempt needs beside its input.

    credentials ........ the key as it lives in memory
    credential_store ... users' keys at rest, encrypted and bound to their owner
    envelope ........... how they are encrypted
    resolver ........... from what a job says to its key
    prompts ............ which prompt template a job runs with
    safety ............. checks of input and output
    redaction .......... takes addresses and keys out of an output

Promises: a key is readable only in a worker's memory, and only for the user who stored it.
"""
