"""RECOVERY WITHOUT PEOPLE, and what is left for people: a role that any process may carry (design 11, WL-6).

    decision .... what is to happen to an overdue job: a pure function
    upkeep ...... one round: take-over, redelivery, expired claims, retention
    inspection .. everything on record about one job, and why it is where it is
    timeline .... that record in order of time
    acts ........ an act of a person and its record in the audit, in one transaction
    operations .. what an operator may do with an outbox event: deliver again, or give up
"""
