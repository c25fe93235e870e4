"""Every error of the project has a stable code and says in one sentence what happened."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict

from registry.errors import AiJobsError
from tests.architecture.source import project

SENTENCE = re.compile(r"[A-Z`][^\n]*\.")


def error_classes() -> set[type[AiJobsError]]:
    """All error classes of the modules named `errors`."""
    found = set()
    for module in project():
        if module.name.rpartition(".")[2] == "errors":
            members = vars(importlib.import_module(module.name)).values()
            found |= {m for m in members if isinstance(m, type) and issubclass(m, AiJobsError)}
    return found


def test_every_error_has_a_code_in_capitals() -> None:
    wrong = [c for c in error_classes() if not re.fullmatch(r"[A-Z][A-Z0-9_]+", c.code)]

    assert wrong == []


def test_errors_that_share_a_code_agree_whether_to_try_again() -> None:
    answers = defaultdict(set)
    for error in error_classes():
        answers[error.code].add(error.retryable)

    assert {code for code, retryable in answers.items() if len(retryable) > 1} == set()


def test_every_error_says_what_happened_in_its_first_line() -> None:
    wrong = [
        c.__name__
        for c in error_classes()
        if not SENTENCE.fullmatch((c.__doc__ or "").strip().partition("\n")[0])
    ]

    assert wrong == []


def test_error_without_a_text_says_its_sentence() -> None:
    for error in error_classes():
        try:
            text = str(error())
        except TypeError:
            # needs arguments of its own
            continue
        assert text, error.__name__
