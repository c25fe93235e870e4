"""The transport's promises as a test suite, for the transports here and for yours.

    from outbox.transports.conformance import TransportConformance

    class TestMyTransport(TransportConformance):
        @pytest.fixture
        def transport(self) -> Iterator[SteerableTransport]:
            yield MyTransport(...)        # fresh and empty, with ``advance(ms)`` for its clock

        @pytest.fixture
        def peer(self, transport):        # another client of the same broker; default: the same one
            return MyTransport(...)

One file per chapter: put, claim, defer, alive (and cancel), wait (and wake), presence, threads; the
words they speak in are in ``words``. Needs pytest alone. For readable failures, ask pytest to rewrite
the assertions: ``pytest.register_assert_rewrite("outbox.transports.conformance")`` in a conftest.
"""

from outbox.transports.conformance.alive import AlivePromises
from outbox.transports.conformance.claim import ClaimPromises
from outbox.transports.conformance.defer import DeferPromises
from outbox.transports.conformance.presence import PresencePromises
from outbox.transports.conformance.put import PutPromises
from outbox.transports.conformance.threads import ConcurrencyPromises
from outbox.transports.conformance.wait import WaitPromises

__all__ = ["TransportConformance"]


class TransportConformance(
    PutPromises,
    ClaimPromises,
    DeferPromises,
    AlivePromises,
    WaitPromises,
    PresencePromises,
    ConcurrencyPromises,
):
    """All promises; subclass it, name the class ``Test...`` and supply the fixture ``transport``."""
