import pytest

from tests.support.worlds import *  # noqa: F403 - the fixtures of this folder

pytest.register_assert_rewrite("outbox.conformance")
