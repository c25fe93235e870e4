"""What daemons log: ids and kinds, never what people or models wrote."""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import OutputInvalid
from engine.observe.facts import LOGGED, level_of, log_fact
from engine.observe.logs import ConsoleFormatter, Format, set_up
from engine.observe.notify import Supervisor
from outbox.base.telemetry import Telemetry

SECRET = "my diary: \x1b[2J sk-123"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def logging_to() -> Iterator[Callable[..., None]]:
    """`set_up`, undone after the test."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    levels = {name: logging.getLogger(name).level for name in ("openai", "sqlalchemy", "httpx2")}
    yield set_up
    root.handlers[:], root.level = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


# -- facts ---------------------------------------------------------------------------------------


def test_a_fact_is_logged_with_its_ids(logging_to: Callable[..., None]) -> None:
    stream = io.StringIO()
    logging_to(format="json", stream=stream)
    telemetry = Telemetry()
    telemetry.listen(log_fact)

    telemetry.emit("job.succeeded", job_id="0197", queue="ai-background", run_ms=12)

    [line] = lines_of(stream)
    assert (line["event"], line["level"], line["logger"]) == ("job.succeeded", "info", "aijobs.facts")
    assert (line["job_id"], line["queue"], line["run_ms"]) == ("0197", "ai-background", 12)


def test_a_field_that_is_not_known_to_be_an_id_is_left_out(logging_to: Callable[..., None]) -> None:
    stream = io.StringIO()
    logging_to(format="json", level=logging.DEBUG, stream=stream)

    log_fact("job.created", {"count": 1, "payload": SECRET, "user_id": "u1", "output": SECRET, "job_id": "7"})

    [line] = lines_of(stream)
    assert set(line) == {"time", "level", "logger", "event", "job_id"}
    assert not {"payload", "user_id", "output", "input", "key", "secret"} & set(LOGGED)


def test_what_did_not_happen_is_not_logged(logging_to: Callable[..., None]) -> None:
    """As when a repeated request found its job: none was created."""
    stream = io.StringIO()
    logging_to(format="json", level=logging.DEBUG, stream=stream)

    log_fact("job.created", {"count": 0})
    log_fact("job.created", {"count": 2})

    [line] = lines_of(stream)
    assert (line["event"], line["count"]) == ("job.created", 2)


@pytest.mark.parametrize(
    ("fact", "level"),
    [
        ("job.succeeded", logging.INFO),
        ("job.failed", logging.WARNING),
        ("lease.lost", logging.WARNING),
        ("outbox.dead", logging.ERROR),
        ("delivery.stale", logging.DEBUG),
    ],
)
def test_facts_have_the_level_of_what_they_ask_for(fact: str, level: int) -> None:
    assert level_of(fact) == level


# -- lines ---------------------------------------------------------------------------------------


def raise_foreign() -> None:
    raise ValueError(f"could not parse {SECRET}")


@pytest.mark.parametrize("format_", ["json", "console"])
def test_a_foreign_error_is_logged_by_kind_and_place_never_by_its_text(
    logging_to: Callable[..., None], format_: Format
) -> None:
    stream = io.StringIO()
    logging_to(format=format_, stream=stream)

    try:
        raise_foreign()
    except ValueError:
        logging.getLogger("aijobs.test").exception("a handler failed")

    text = stream.getvalue()
    assert "ValueError" in text
    assert "test_logs.py" in text
    assert "in raise_foreign" in text
    assert "diary" not in text
    assert "sk-123" not in text


def test_an_error_of_ours_is_logged_with_its_code_and_text(logging_to: Callable[..., None]) -> None:
    stream = io.StringIO()
    logging_to(format="json", stream=stream)

    try:
        raise OutputInvalid("cards: at least 1 item")
    except OutputInvalid:
        logging.getLogger("aijobs.test").exception("no use")

    assert lines_of(stream)[0]["error"] == "OutputInvalid [VALIDATION_OUTPUT]: cards: at least 1 item"


def test_a_line_cannot_steer_the_terminal_or_begin_another_line() -> None:
    record = logging.LogRecord("aijobs.x", logging.INFO, "", 0, "a\nb\x1b[2Jc", (), None)

    text = ConsoleFormatter(color=False).format(record)

    assert "\n" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("stream", "is_json"), [(io.StringIO(), True), (Terminal(), False)], ids=["pipe", "terminal"]
)
def test_auto_is_for_people_on_a_terminal_and_for_programs_elsewhere(
    logging_to: Callable[..., None], stream: io.StringIO, is_json: bool
) -> None:
    logging_to(stream=stream)

    logging.getLogger("aijobs.test").info("hello")

    assert stream.getvalue().startswith("{") == is_json


def test_no_colour_without_a_terminal_and_none_when_not_wanted(logging_to: Callable[..., None]) -> None:
    pipe, terminal = io.StringIO(), Terminal()
    logging_to(format="console", stream=pipe)
    logging.getLogger("aijobs.test").warning("x")
    logging_to(format="console", color=False, stream=terminal)
    logging.getLogger("aijobs.test").warning("x")

    assert "\x1b" not in pipe.getvalue() + terminal.getvalue()


def test_libraries_that_print_requests_stay_quiet_at_every_level(logging_to: Callable[..., None]) -> None:
    stream = io.StringIO()
    logging_to(format="json", level=logging.DEBUG, stream=stream)

    for name in ("openai._base_client", "httpx2", "sqlalchemy.engine"):
        logging.getLogger(name).debug("Request options: %s", SECRET)
        logging.getLogger(name).info("Request options: %s", SECRET)

    assert stream.getvalue() == ""


# -- the supervisor ------------------------------------------------------------------------------


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(path)
        channel.settimeout(5)
        yield path, channel


def test_a_supervisor_hears_that_the_process_is_ready_and_that_it_stops(
    listening: tuple[str, socket.socket],
) -> None:
    path, channel = listening
    supervisor = Supervisor(path)

    supervisor.ready("worker")
    supervisor.stopping("worker")

    assert channel.recv(1_000) == b"READY=1\nSTATUS=worker"
    assert channel.recv(1_000) == b"STOPPING=1\nSTATUS=worker"


def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(b"\0aijobs-test-notify-%d" % id(channel))
        channel.settimeout(5)
        name = channel.getsockname()

        Supervisor("@" + name[1:].decode()).ready("x")

        assert channel.recv(1_000).startswith(b"READY=1")


@pytest.mark.parametrize("address", [None, "", "/nowhere/at/all"])
def test_a_supervisor_that_does_not_listen_is_no_reason_to_fail(address: str | None) -> None:
    Supervisor(address).ready("worker")
