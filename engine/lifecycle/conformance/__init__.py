"""The promises of the lifecycle repository as a test suite, for ours and for one of yours.

    from engine.lifecycle.conformance import LifecycleConformance

    class TestMyLifecycle(LifecycleConformance):
        @pytest.fixture
        def uow(self) -> UnitOfWork: ...          # on a database with all tables
        @pytest.fixture
        def lifecycle(self, clock) -> AiJobLifecycleRepository:
            return MyLifecycle(clock)             # default: ours

    words .... jobs in every situation, and everything that may be tried on them
    moves .... every act in every situation
    claims ... who may claim, what counts as an attempt, epochs and delivery numbers
    untouched  claims without a look: of a new job, and of no other
    fence .... what a lost claim may not write, and how it learns why

Needs pytest alone. For readable failures: ``pytest.register_assert_rewrite("engine.lifecycle.conformance")``.
"""

from engine.lifecycle.conformance.claims import ClaimPromises
from engine.lifecycle.conformance.fence import FencePromises
from engine.lifecycle.conformance.moves import MovePromises
from engine.lifecycle.conformance.untouched import UntouchedPromises

__all__ = ["LifecycleConformance"]


class LifecycleConformance(MovePromises, ClaimPromises, UntouchedPromises, FencePromises):
    """All promises; subclass it, name the class ``Test...`` and supply the fixture ``uow``."""
