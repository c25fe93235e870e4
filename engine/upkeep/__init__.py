"""RECOVERY WITHOUT PEOPLE: a role that any process may carry, several at a time (design 11, WL-6).

    decision .... what is to happen to an overdue job: a pure function
    upkeep ...... one round: take-over, redelivery, expired claims, retention
"""
