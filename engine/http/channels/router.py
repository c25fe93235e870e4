"""The route for events: check, read, take, answer. The work itself is the job's (EW-1)."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response

from engine.http.bodies import Body
from engine.http.channels.event import ChannelEvent, Delivery, Kind, ReadEvent
from engine.http.channels.kinds import KINDS
from engine.http.channels.registry import Channel, Channels, channels_of
from engine.http.channels.taking import EventTaker
from engine.http.edge import Edge
from engine.http.errors import ChannelNotSecured, ChannelUnknown, EventRefused, SignatureInvalid
from engine.http.problem import problem_responses
from engine.http.routes import ProblemRoute
from outbox.inbox import PLACE_CHARS, ForeignEvent

#: ADR-114's code for an event that had been taken before; not an error.
REPEATED: Final = "E-IDEMPOTENT-001"

Place = Annotated[str, Path(pattern=rf"^[A-Za-z0-9._-]{{1,{PLACE_CHARS}}}$")]


class Run(Body):
    """The job of one event. ``code`` is E-IDEMPOTENT-001 where the event had been taken before."""

    run_id: UUID
    event_id: str
    code: str | None = None


class Taken(Body):
    """What became of a delivery. ``runId`` and ``code`` speak of its first event."""

    run_id: UUID | None = None
    code: str | None = None
    runs: list[Run]
    ignored: int = 0


def channel_router(edge: Edge, channels: Channels | None = None) -> APIRouter:
    """``/{channel}/{project}/{instance}``; mount it under ``/channels``."""
    router = APIRouter(
        route_class=ProblemRoute,
        tags=["channels"],
        responses=problem_responses(400, 401, 403, 404, 413, 422, 503),
    )
    configured = channels if channels is not None else channels_of(edge.app)
    reception = _Reception(edge, configured)

    @router.post("/{channel}/{project}/{instance}", response_model=Taken)
    async def take_event(
        request: Request, channel: Place, project: Place, instance: Place
    ) -> Response:
        """Take an event: 200 with the id of its job, also when it comes again.

        The sender is known by the channel's signature or secret, not by a token of this API.
        """
        body = await request.body()
        delivery = Delivery(request.headers, body)
        taken = await edge.thread(lambda: reception.take(channel, project, instance, delivery))
        content = taken.model_dump_json(by_alias=True, exclude_none=True)
        return Response(content, media_type="application/json")

    return router


class _Reception:
    """Everything that happens to a delivery, in order."""

    def __init__(self, edge: Edge, channels: Channels) -> None:
        self._channels = channels
        self._taker = EventTaker(edge)
        self._telemetry = edge.app.telemetry

    def take(self, name: str, project: str, instance: str, delivery: Delivery) -> Taken:
        """Check who sent the delivery, and take each of its events."""
        kind = KINDS.get(name)
        if kind is None:
            raise ChannelUnknown
        channel = self._channels.find(name, project, instance)
        _check(kind, channel, delivery)
        runs, ignored = [], 0
        for read in kind.read(delivery):
            run = self._take(kind, channel, _event(kind, project, instance, read))
            runs += [run] if run is not None else []
            ignored += run is None
        first = runs[0] if runs else None
        return Taken(
            run_id=first.run_id if first else None,
            code=first.code if first else None,
            runs=runs,
            ignored=ignored,
        )

    def _take(self, kind: Kind, channel: Channel, event: ChannelEvent) -> Run | None:
        wanted = _mapped(channel, event)
        if wanted is None:
            return None
        foreign = ForeignEvent(event.project, event.channel, event.instance, event.id)
        taken = self._taker.take(foreign, wanted, compare=kind.id_is_the_callers)
        fact = "channel.taken" if taken.created else "channel.repeated"
        self._telemetry.emit(fact, job_id=str(taken.job_id))
        return Run(run_id=taken.job_id, event_id=event.id, code=None if taken.created else REPEATED)


def _check(kind: Kind, channel: Channel, delivery: Delivery) -> None:
    """Refuse what was not sent by who has the channel's secret."""
    if not channel.secrets:
        if not channel.allow_unsigned:
            raise ChannelNotSecured
        return
    # Every secret is tried, so that the time does not tell which one fits.
    fits = [kind.signed(delivery, s.get_secret_value().encode()) for s in channel.secrets]
    if not any(fits):
        raise SignatureInvalid


def _event(kind: Kind, project: str, instance: str, read: ReadEvent) -> ChannelEvent:
    return ChannelEvent(kind.name, project, instance, read.id, read.kind, read.data)


def _mapped(channel: Channel, event: ChannelEvent) -> Any:
    try:
        return channel.mapping(event)
    except (LookupError, TypeError, ValueError) as error:
        # The sender's content is not what the application expects.
        raise EventRefused(f"mapping of {channel.kind}: {type(error).__name__}") from error
