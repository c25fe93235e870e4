"""What an attempt needs beside its input.

    credentials ........ the key as it lives in memory
    credential_store ... users' keys at rest, encrypted and bound to their owner
    prompts ............ which prompt template a job runs with
    safety ............. checks of input and output, and redaction of output
"""
