"""A slip in the name of a setting is found, whether it came from the environment or from code."""

from __future__ import annotations

import os
from typing import Any

import pytest

from engine import Settings
from engine.config import unknown_variables, variables
from engine.errors import SettingsError


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AIJOBS_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AIJOBS_REDDIS_URL", "AIJOBS_REDIS_URL"),
        ("AIJOBS_DISPATCH__BATCH", "AIJOBS_DISPATCHER__BATCH"),
        ("aijobs_databse_url", "AIJOBS_DATABASE_URL"),
    ],
)
def test_a_variable_that_nobody_reads_is_told_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(name, "x")

    [told] = unknown_variables()

    assert told == f"{name} is set, and no setting has this name; did you mean {meant}?"


def test_a_name_that_is_near_to_none_is_told_without_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIJOBS_XYZZY", "x")

    assert unknown_variables() == ["AIJOBS_XYZZY is set, and no setting has this name"]


def test_what_every_setting_reads_is_no_slip(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables():
        monkeypatch.setenv(name, "x")

    assert unknown_variables() == []


@pytest.mark.parametrize("name", ["AIJOBS_SERVICE_HOST", "AIJOBS_PORT", "AIJOBS_PORT_8321_TCP_ADDR"])
def test_what_kubernetes_sets_beside_a_service_is_no_slip(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:8321")

    assert unknown_variables() == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"databse_url": "x"}, "databse_url: there is no such setting; did you mean database_url?"),
        ({"xyzzy": "x"}, "xyzzy: there is no such setting"),
        ({"dispatcher": {"bacth": 1}}, "AIJOBS_DISPATCHER__BACTH: there is no such setting; did you mean"),
        ({"dispatcher": {"batch": 0}}, "AIJOBS_DISPATCHER__BATCH"),
    ],
)
def test_a_wrong_keyword_is_an_error_of_ours_that_names_it(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**given)

    assert says in str(caught.value)


def test_a_slip_among_nested_variables_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIJOBS_DISPATCHER__BACTH", "1")

    with pytest.raises(SettingsError, match="did you mean AIJOBS_DISPATCHER__BATCH"):
        Settings()
