"""Our outbox repository keeps the promises of the suite, on every database."""

from __future__ import annotations

import pytest

from outbox.base.db import UnitOfWork
from outbox.conformance import OutboxConformance


class TestOutbox(OutboxConformance):
    @pytest.fixture
    def uow(self, shared_uow: UnitOfWork) -> UnitOfWork:
        return shared_uow
