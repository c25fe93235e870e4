"""A PREVIEW OF AN ANSWER while it is being made: best effort, marked by epoch (design 12).

    models ... the table stream_chunk
    store .... append, read after a place, drop
    writer ... takes pieces from a running attempt and stores them in batches; can never fail or slow the attempt

The committed output is the truth. A reader that sees a higher epoch drops what it has of the lower one: it was
the text of an attempt that was given up.
"""
