"""A job's life as server-sent events, read by a client that comes and goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from engine.http.events import Place, piece_events
from engine.lifecycle.lease import Lease
from engine.streams.store import Piece
from registry.job import JobView
from tests.engine.http.conftest import World
from tests.engine.http.test_jobs import start, succeed
from tests.support.wait import eventually


@dataclass
class Event:
    name: str
    data: Any
    id: str


class Reader:
    """Reads one stream of events."""

    def __init__(self, world: World, job: JobView, last: str | None = None) -> None:
        self._client = world.client()
        headers = {} if last is None else {"last-event-id": last}
        request = self._client.build_request(
            "GET", f"/api/ai/jobs/{job.id}/events", headers=headers
        )
        self.response = self._client.send(request, stream=True)
        self._lines = self.response.iter_lines()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._client.close()

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        for line in self._lines:
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield Event(fields["event"], json.loads(fields["data"]), fields["id"])
                fields = {}
            else:
                fields = {}

    def take(self) -> Event:
        return next(iter(self))


def report(world: World, lease: Lease, percent: int) -> None:
    world.app.uow.run(
        lambda conn: world.app.lifecycle.report_progress(conn, lease, percent, "half way")
    )


def show(world: World, job: JobView, epoch: int, *texts: str, start_at: int = 1) -> None:
    pieces = [Piece(epoch, start_at + n, text) for n, text in enumerate(texts)]
    world.app.uow.run(lambda conn: world.edge.streams.append(conn, job.id, pieces))


def test_life_of_a_job_is_told_in_order_and_the_server_ends_the_stream(each_world: World) -> None:
    job = each_world.create()
    with Reader(each_world, job) as reader:
        assert reader.response.headers["content-type"].startswith("text/event-stream")
        first = reader.take()
        lease = start(each_world, job)
        running = reader.take()
        report(each_world, lease, 40)
        progress = reader.take()
        each_world.app.uow.run(lambda conn: each_world.app.lifecycle.mark_succeeded(conn, [lease]))
        rest = list(reader)

    assert (first.name, first.data["lifecycleStatus"]) == ("status", "queued")
    assert (running.name, running.data["lifecycleStatus"]) == ("status", "running")
    assert (progress.name, progress.data) == ("progress", {"progress": 40, "note": "half way"})
    assert [event.name for event in rest] == ["status", "done"]
    assert rest[-1].data["jobId"] == str(job.id)
    assert rest[-1].data["result"] == {"artifactCount": 0, "artifacts": []}


def test_reader_that_comes_back_is_told_what_it_missed_and_nothing_twice(world: World) -> None:
    job = world.create()
    with Reader(world, job) as reader:
        place = reader.take().id
    lease = start(world, job)
    report(world, lease, 10)
    report(world, lease, 20)
    with Reader(world, job, place) as reader:
        missed = reader.take()
        assert (missed.name, missed.data["progress"]) == ("status", 20)
    with Reader(world, job, missed.id) as reader:
        report(world, lease, 30)
        assert reader.take().data == {"progress": 30, "note": "half way"}


def test_reader_that_has_had_everything_is_told_so(world: World) -> None:
    job = world.create()
    succeed(world, job)
    with Reader(world, job) as reader:
        last = list(reader)[-1]
    with Reader(world, job, last.id) as reader:
        assert reader.response.status_code == 204
    with Reader(world, job, "nonsense") as reader:
        assert [event.name for event in reader] == ["status", "done"]


def test_text_is_shown_as_it_comes_and_void_when_another_attempt_begins(each_world: World) -> None:
    job = each_world.create(
        job_type="chat_completion",
        payload={"messages": [{"role": "user", "content": "x"}], "stream": True},
    )
    lease = start(each_world, job)
    with Reader(each_world, job) as reader:
        assert reader.take().name == "status"
        show(each_world, job, lease.epoch, "Once ", "upon")
        first = [reader.take(), reader.take()]
        show(each_world, job, lease.epoch + 1, "There was")
        second = [reader.take(), reader.take()]
        show(each_world, job, lease.epoch, "late words of the first", start_at=3)
        each_world.app.uow.run(lambda conn: each_world.app.lifecycle.mark_succeeded(conn, [lease]))
        rest = list(reader)

    assert [event.data for event in first] == [
        {"epoch": 1, "text": "Once "},
        {"epoch": 1, "text": "upon"},
    ]
    assert [event.name for event in second] == ["restart", "delta"]
    assert second[1].data == {"epoch": 2, "text": "There was"}
    assert [event.name for event in rest] == ["status", "done"]

    with Reader(each_world, job, first[0].id) as reader:
        names = [event.name for event in reader]
    assert names == ["delta", "delta", "restart", "delta", "status", "done"]


def test_stream_ends_cleanly_when_the_server_stops(own_world: World) -> None:
    job = own_world.create()
    with Reader(own_world, job) as reader:
        reader.take()
        own_world.server.stop()

        assert list(reader) == []


def test_one_look_at_the_database_serves_all_who_wait(own_world: World) -> None:
    job = own_world.create()
    asked: list[str] = []
    sa.event.listen(
        own_world.app.database, "before_cursor_execute", lambda *args: asked.append(args[2])
    )
    readers = [Reader(own_world, job) for _ in range(10)]
    for reader in readers:
        reader.take()
    asked.clear()
    eventually(lambda: len([a for a in asked if "ai_job" in a]) >= 5)
    looks = [a for a in asked if "ai_job" in a]
    start(own_world, job)
    for reader in readers:
        assert reader.take().data["lifecycleStatus"] == "running"
        reader.__exit__()

    # ten readers that each asked would have asked ten times as often
    assert len(looks) < 40


@pytest.mark.parametrize(
    ("place", "piece", "names"),
    [
        (Place(), Piece(1, 1, "a"), ["delta"]),
        (Place(epoch=1, seq=1), Piece(1, 2, "b"), ["delta"]),
        (Place(epoch=1, seq=1), Piece(2, 1, "b"), ["restart", "delta"]),
        (Place(epoch=2, seq=0), Piece(1, 9, "late"), []),
    ],
)
def test_what_a_piece_means_to_a_reader(place: Place, piece: Piece, names: list[str]) -> None:
    assert [name for _, name, _ in piece_events(place, piece)] == names


@pytest.mark.parametrize(
    "text", ["", "x", "queued-0-0-0", "queued-a-0-0-0", "queued-0-0-0-0-0", "é"]
)
def test_place_that_is_none_of_ours_is_the_beginning(text: str) -> None:
    assert Place.read(text) == Place()


def test_place_survives_the_way_to_the_client_and_back() -> None:
    place = Place("running", 3, 40, 2, 17)

    assert Place.read(str(place)) == place
