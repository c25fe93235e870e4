"""``GET /jobs/{job_id}/events``: a job's life as server-sent events, resumable at any place.

The id of an event says how far its reader is (:class:`Place`), so a reconnect is told what it missed and nothing
twice. The database is the source; what is shown of an answer in the making is a preview, and after the start of
another attempt a ``restart`` says that the text so far is void.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from engine.http.bodies import job_status
from engine.http.edge import Edge
from engine.http.errors import NothingMore
from engine.http.routes import ProblemRoute
from engine.http.watch import MAX_S, PERIOD_S
from engine.streams.store import Piece
from projectors import artifacts
from registry.catalog.chat_completion import DEFINITION as CHAT
from registry.job import JobView, LifecycleStatus

#: How long a client should wait before it comes back, in ms.
RETRY_MS: Final = 2_000
#: How often pieces are looked for where none were seen yet, in seconds.
_SELDOM_S: Final = 1.0
_PLACE: Final = re.compile(r"([a-z]+)-(\d{1,9})-(\d{1,3})-(\d{1,9})-(\d{1,9})")


LastEvent = Annotated[str | None, Header(alias="Last-Event-ID")]


class FollowRoute(ProblemRoute):
    """A route of events: a reader that has had everything is told so, which ends its reconnecting."""

    def render(self, request: Request, error: Exception) -> Response:
        """204 without a body for :class:`NothingMore`."""
        if isinstance(error, NothingMore):
            return Response(status_code=204)
        return super().render(request, error)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a reader is: the state and progress it knows, and the last piece of text it has."""

    status: str = "none"
    claim: int = 0
    progress: int = 0
    epoch: int = 0
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.status}-{self.claim}-{self.progress}-{self.epoch}-{self.seq}"

    @classmethod
    def read(cls, text: str | None) -> Place:
        """The place an event id stands for; the beginning where it is none of ours."""
        found = _PLACE.fullmatch(text or "")
        return cls(found.group(1), *map(int, found.groups()[1:])) if found else cls()

    def after_state(self, job: JobView) -> Place:
        """The place once the reader knows the job's state and progress."""
        return replace(
            self, status=job.lifecycle_status.value, claim=job.epoch, progress=job.progress
        )

    def after_piece(self, piece: Piece) -> Place:
        """The place once the reader has ``piece``."""
        return replace(self, epoch=piece.epoch, seq=piece.seq)


#: A place after an event, the event's name, and its data.
News = tuple[Place, str, dict[str, Any]]


def state_events(place: Place, job: JobView) -> Iterator[News]:
    """What a reader at ``place`` has not heard about the state of ``job``."""
    now = place.after_state(job)
    if (place.status, place.claim) != (now.status, now.claim):
        yield now, "status", _state(job)
    elif place.progress != now.progress:
        yield now, "progress", {"progress": job.progress, "note": job.progress_note}


def piece_events(place: Place, piece: Piece) -> Iterator[News]:
    """What a reader at ``place`` is told of the next piece of text; of an attempt given up, nothing."""
    if piece.epoch < place.epoch:
        return
    if piece.epoch > place.epoch > 0:
        yield replace(place, epoch=piece.epoch, seq=0), "restart", {"epoch": piece.epoch}
    yield place.after_piece(piece), "delta", {"epoch": piece.epoch, "text": piece.text}


def _state(job: JobView) -> dict[str, Any]:
    return {
        "lifecycleStatus": job.lifecycle_status.value,
        "waitKind": job.wait_kind,
        "attempt": job.attempt_count,
        "epoch": job.epoch,
        "progress": job.progress,
        "note": job.progress_note,
        "cancelRequested": job.cancel_requested_at is not None,
    }


class Follower:
    """One reader of one job's events."""

    def __init__(self, edge: Edge, job: JobView, place: Place) -> None:
        self._edge = edge
        self._job = job
        self._place = place
        self._next_look = 0.0

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """What has happened and what happens, until the job has ended or the server stops."""
        yield ServerSentEvent(comment="aijobs", retry=RETRY_MS)
        within_s = PERIOD_S if self._streams else MAX_S
        async with self._edge.watch.watch(self._job.id, within_s=within_s) as watcher:
            while True:
                async for event in self._news():
                    yield event
                if self._job.is_final:
                    yield await self._done()
                    return
                if self._edge.watch.closing:
                    return
                self._job = await watcher.next(self._job, self._period())

    async def _news(self) -> AsyncIterator[ServerSentEvent]:
        """What is new: text before the state that ends it, a state before the text that it begins."""
        # Read after the state, so that none of a finished answer is missed.
        pieces = await self._pieces()
        if not self._job.is_final:
            for news in state_events(self._place, self._job):
                yield self._told(news)
        for piece in pieces:
            for news in piece_events(self._place, piece):
                yield self._told(news)
        if self._job.is_final:
            for news in state_events(self._place, self._job):
                yield self._told(news)

    def _told(self, news: News) -> ServerSentEvent:
        self._place, name, data = news
        return ServerSentEvent(event=name, data=data, id=str(self._place))

    async def _pieces(self) -> list[Piece]:
        now = asyncio.get_running_loop().time()
        if self._job.lifecycle_status is LifecycleStatus.QUEUED or now < self._next_look:
            return []
        place = self._place
        found = await self._edge.read(
            lambda conn: self._edge.streams.after(conn, self._job.id, place.epoch, place.seq)
        )
        self._next_look = 0.0 if found or self._streams else now + _SELDOM_S
        return found

    @property
    def _streams(self) -> bool:
        return self._place.seq > 0 or self._job.job_type == CHAT.job_type

    def _period(self) -> float:
        running = self._job.lifecycle_status is LifecycleStatus.RUNNING
        return PERIOD_S if running and self._streams else _SELDOM_S if running else 15.0

    async def _done(self) -> ServerSentEvent:
        job = self._job
        refs = await self._edge.read(lambda conn: artifacts.existing(conn, job.id))
        body = job_status(job, refs).to_bytes().decode()
        return ServerSentEvent(
            event="done", raw_data=body, id=str(replace(self._place, status="done"))
        )


def follow_route(router: APIRouter, edge: Edge, owned: Callable[..., Any]) -> None:
    """Add the route to ``router``; ``owned`` is the dependency that gives a job the caller may see."""

    async def place(job: JobView = Depends(owned), last_event_id: LastEvent = None) -> Place:
        found = Place.read(last_event_id)
        if job.is_final and found.status == "done":
            raise NothingMore
        return found

    async def follow_job(
        job: JobView = Depends(owned), place: Place = Depends(place)
    ) -> AsyncIterator[ServerSentEvent]:
        """The job's life as server-sent events: `status`, `progress`, `delta`, `restart`, `done`.

        Send the last event's id as `Last-Event-ID` to go on from there; after `done` the answer is 204.
        """
        async for event in Follower(edge, job, place).events():
            yield event

    router.add_api_route(
        "/jobs/{job_id}/events",
        follow_job,
        response_class=EventSourceResponse,
        responses={204: {"description": "The stream has ended before this place."}},
        methods=["GET"],
        name="follow_job",
        route_class_override=FollowRoute,
    )
