"""EVENTS OF OTHER SYSTEMS: ``POST /channels/{channel}/{project}/{instance}`` makes one job of each, however often it
arrives (ADR-114 D1, EW-1 to EW-5).

    registry ........ which channels an application takes, their secrets, and the function that makes a job of an event
    router .......... the route: check, read, take, answer
    taking .......... event row, dedupe digest and job in one transaction
    event ........... what a mapping function sees
    kinds ........... every kind of channel by name
    signatures ...... secrets compared in constant time
    telegram, alertmanager, gitea, line, api ... how each signs its deliveries, and what an event's id is
"""
