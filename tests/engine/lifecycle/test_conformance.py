"""Our lifecycle repository keeps the promises of the suite, on every database."""

from __future__ import annotations

import pytest

from engine.lifecycle.conformance import LifecycleConformance
from outbox.base.db import UnitOfWork


class TestLifecycle(LifecycleConformance):
    @pytest.fixture
    def uow(self, shared_uow: UnitOfWork) -> UnitOfWork:
        return shared_uow
