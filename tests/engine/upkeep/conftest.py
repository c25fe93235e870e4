from tests.support.worlds import *  # noqa: F403 - the fixtures of this folder
