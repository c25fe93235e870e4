"""Children are real, and none outlives its test."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.processes import Children
from tests.support.server import is_alive
from tests.support.wait import eventually

KILLED = -signal.SIGKILL


def say(word: str, times: int) -> None:
    print(word * times)


def wait_for_ever() -> None:
    print(f"waiting {os.getpid()}")
    signal.pause()


def start_and_never_end() -> None:
    """What a test session does when it is killed: it leaves a child behind."""
    children = Children()
    child = children.call(wait_for_ever)
    print(child.wait_for_output("waiting"))
    signal.pause()


def test_function_runs_in_another_process_with_its_arguments(children: Children) -> None:
    child = children.call(say, "ab", 2)

    assert child.check() == "abab\n"
    assert child.pid != os.getpid()


def test_failing_child_tells_its_output(children: Children) -> None:
    child = children.python("-c", "raise SystemExit('no luck')")

    with pytest.raises(AssertionError, match="no luck"):
        child.check()


def test_lines_can_be_sent_to_a_child(children: Children) -> None:
    child = children.python("-c", "print('got', input())")

    child.send("hello")

    assert child.check() == "got hello\n"


def test_killed_child_is_collected(children: Children) -> None:
    child = children.call(wait_for_ever)
    child.wait_for_output("waiting")

    assert child.kill() == KILLED
    assert not is_alive(child.pid)


def test_frozen_child_does_nothing_until_thawed(children: Children) -> None:
    child = children.python("-c", "print('ready'); input(); print('done')")
    child.wait_for_output("ready")
    child.freeze()

    child.send("go")

    assert "done" not in child.output
    child.thaw()
    child.wait_for_output("done")
    assert child.wait() == 0


def test_frozen_child_can_be_killed(children: Children) -> None:
    child = children.call(wait_for_ever)
    child.wait_for_output("waiting")
    child.freeze()

    assert child.kill() == KILLED


def test_settings_of_this_machine_do_not_reach_a_child(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIJOBS_DATABASE_URL", "sqlite:///of-somebody.db")
    show = "import os; print([n for n in os.environ if n.startswith('AIJOBS_')])"

    assert children.python("-c", show).check() == "[]\n"
    assert children.python("-c", show, env={"AIJOBS_X": "1"}).check() == "['AIJOBS_X']\n"


def test_child_of_a_killed_test_session_is_killed_too(children: Children) -> None:
    session = children.call(start_and_never_end)
    orphan = int(session.wait_for_output("waiting").split()[1])

    session.kill()

    eventually(lambda: not is_alive(orphan), message="the orphan is gone")


def test_eventually_gives_up_with_the_last_answer() -> None:
    with pytest.raises(AssertionError, match="moon; last answer: 0"):
        eventually(lambda: 0, timeout=0.01, message="moon")


def test_eventually_returns_the_first_truthy_answer() -> None:
    answers = iter([None, "", "yes", "later"])

    assert eventually(lambda: next(answers)) == "yes"
