"""The promises of the outbox repository as a test suite, for ours and for one of yours.

    from outbox.conformance import OutboxConformance

    class TestMyOutbox(OutboxConformance):
        @pytest.fixture
        def uow(self) -> UnitOfWork: ...          # on a database with all tables
        @pytest.fixture
        def outbox(self, clock) -> OutboxRepository:
            return MyOutbox(clock)                # default: ours

    words .... events in every state, and everything that may be tried on them
    moves .... every act in every state, claims that end, refusals, retention
    claims ... which events a dispatcher is given, in which order, each to one dispatcher

Needs pytest alone. For readable failures: ``pytest.register_assert_rewrite("outbox.conformance")``.
"""

from outbox.conformance.claims import ClaimPromises
from outbox.conformance.moves import MovePromises

__all__ = ["OutboxConformance"]


class OutboxConformance(MovePromises, ClaimPromises):
    """All promises; subclass it, name the class ``Test...`` and supply the fixture ``uow``."""
