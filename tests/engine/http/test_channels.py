"""Events of other systems over real HTTP: signatures, ids, repeats, and one transaction for all of it."""

from __future__ import annotations

import base64
import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx2
import pytest
import sqlalchemy as sa

from engine.errors import SettingsError
from engine.http.channels.registry import Channels
from engine.idempotency.request import KeyedRequest
from engine.lifecycle import views
from engine.streams.store import Piece
from engine.worker.assembly import make_upkeep
from outbox.base.clock import DatabaseClock
from outbox.inbox import InboxRepository
from tests.engine.http.conftest import TLS, MakeWorld, World
from tests.engine.http.senders import KINDS, SECRET, configure, sample, signed, to_job


def encoded(content: Any) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


class Sender:
    """Sends deliveries to a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = httpx2.Client(base_url=world.server.url, timeout=60, verify=TLS)

    def send(
        self,
        kind: str,
        content: Any = None,
        *,
        headers: dict[str, str] | None = None,
        place: str = "acme/main",
        event_id: str = "d-1",
    ) -> httpx2.Response:
        body = encoded(sample(kind) if content is None else content)
        sent = signed(kind, body, event_id=event_id) if headers is None else headers
        return self.client.post(f"/channels/{kind}/{place}", content=body, headers=sent)

    def jobs(self) -> int:
        return self.world.app.uow.read(lambda conn: views.count(conn, views.JobFilter()))


@pytest.fixture
def sender(kept_world: MakeWorld) -> Iterator[Sender]:
    made = Sender(kept_world("sqlite", "channels", prepare=configure))
    yield made
    made.client.close()


@pytest.fixture
def each_sender(kept_world: MakeWorld, database_kind: str) -> Iterator[Sender]:
    made = Sender(kept_world(database_kind, "channels", prepare=configure))
    yield made
    made.client.close()


# -- taking and repeating


@pytest.mark.parametrize("kind", KINDS)
def test_event_becomes_a_job_and_its_repeat_the_same_one(each_sender: Sender, kind: str) -> None:
    first, again = each_sender.send(kind), each_sender.send(kind)

    assert (first.status_code, again.status_code) == (200, 200)
    assert "code" not in first.json()
    assert again.json()["code"] == "E-IDEMPOTENT-001"
    assert again.json()["runId"] == first.json()["runId"]
    job = each_sender.world.app.jobs.get(UUID(first.json()["runId"]))
    assert (job.user_id, job.target_type) == ("acme/main", kind)
    assert each_sender.jobs() == (2 if kind == "line" else 1)


def test_taken_and_repeated_events_are_told_with_their_job(sender: Sender) -> None:
    heard: list[tuple[str, Any]] = []
    sender.world.app.telemetry.listen(
        lambda name, ids: heard.append((name, ids["job_id"])) if name.startswith("channel.") else None
    )

    first, _ = sender.send("gitea"), sender.send("gitea")

    job = first.json()["runId"]
    assert heard == [("channel.taken", job), ("channel.repeated", job)]


def test_every_event_of_a_delivery_is_one_job_and_only_new_ones_are_made(sender: Sender) -> None:
    one = sample("line")
    both = copy.deepcopy(one)
    one["events"] = one["events"][:1]
    assert len(sender.send("line", one).json()["runs"]) == 1

    answer = sender.send("line", both).json()

    assert [run.get("code") for run in answer["runs"]] == ["E-IDEMPOTENT-001", None]
    assert sender.jobs() == 2


def test_test_delivery_without_events_is_answered(sender: Sender) -> None:
    answer = sender.send("line", {"destination": "U0", "events": []})

    assert (answer.status_code, answer.json()) == (200, {"runs": [], "ignored": 0})


def test_event_that_the_application_passes_over_is_answered_and_not_kept(sender: Sender) -> None:
    answer = sender.send("api", {"ignore": True})

    assert (answer.status_code, answer.json()) == (200, {"runs": [], "ignored": 1})
    assert sender.send("api", {}).json()["runs"][0].get("code") is None


def test_many_deliveries_of_one_event_at_once_make_one_job(each_sender: Sender) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: each_sender.send("telegram"), range(20)))

    assert {a.status_code for a in answers} == {200}
    assert len({a.json()["runId"] for a in answers}) == 1
    assert Counter(a.json().get("code") for a in answers) == {None: 1, "E-IDEMPOTENT-001": 19}
    assert each_sender.jobs() == 1


def test_same_id_elsewhere_is_another_event(sender: Sender) -> None:
    """EW-4: of another project, bot or channel."""
    places = ["acme/bot-1", "acme/bot-2", "other/bot-1"]
    answers = [sender.send("telegram", place=place) for place in places]

    assert {a.json().get("code") for a in answers} == {None}
    assert sender.jobs() == 3


def test_replay_under_a_new_id_runs_and_a_repeat_does_not(sender: Sender) -> None:
    """EW-5: Gitea's replay button makes a new delivery id."""
    codes = [sender.send("gitea", event_id=id_).json().get("code") for id_ in ("d-1", "d-1", "d-2")]

    assert codes == [None, "E-IDEMPOTENT-001", None]
    assert sender.jobs() == 2


def test_end_of_an_alert_is_another_event_and_firing_again_is_not(sender: Sender) -> None:
    """EW-2."""
    firing = sample("alertmanager")
    shuffled = copy.deepcopy(firing)
    shuffled["alerts"].reverse()
    shuffled["alerts"][0]["endsAt"] = "2026-10-31T09:00:00Z"
    resolved = copy.deepcopy(firing)
    resolved["status"] = "resolved"
    for alert in resolved["alerts"]:
        alert["status"] = "resolved"
    one_less = copy.deepcopy(firing)
    one_less["alerts"].pop()
    later = copy.deepcopy(firing)
    later["alerts"][0]["startsAt"] = "2026-11-01T08:00:00Z"
    elsewhere = copy.deepcopy(firing) | {"receiver": "other-team"}

    codes = [
        sender.send("alertmanager", body).json().get("code")
        for body in (firing, firing, shuffled, resolved, resolved, one_less, later, elsewhere)
    ]

    again = "E-IDEMPOTENT-001"
    assert codes == [None, again, again, None, again, None, None, None]


def test_callers_own_id_with_another_content_is_refused(each_sender: Sender) -> None:
    """Promise 6: it is a mistake, not a repeat; where a provider chooses the id, nobody second-guesses."""
    first = each_sender.send("api", {"payload": {"value": 1}})
    other = each_sender.send("api", {"payload": {"value": 2}})
    again = each_sender.send("api", {"payload": {"value": 1}})
    update = sample("telegram") | {"payload": {"value": 9}}
    telegram = [each_sender.send("telegram", body).status_code for body in (None, update)]

    assert first.status_code == 200
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert again.json()["code"] == "E-IDEMPOTENT-001"
    assert telegram == [200, 200]
    assert each_sender.jobs() == 2


def test_after_a_week_the_same_id_is_a_new_event(each_sender: Sender, clock: DatabaseClock) -> None:
    first = each_sender.send("telegram").json()
    clock.advance(7 * 86_400_000 - 60_000)
    assert each_sender.send("telegram").json()["code"] == "E-IDEMPOTENT-001"
    clock.advance(120_000)

    later = each_sender.send("telegram").json()

    assert "code" not in later
    assert later["runId"] != first["runId"]
    assert each_sender.send("telegram").json()["runId"] == later["runId"]


def test_purge_takes_events_whose_week_is_over(each_sender: Sender, clock: DatabaseClock) -> None:
    each_sender.send("line")
    clock.advance(4 * 86_400_000)
    each_sender.send("telegram")
    inbox, uow = InboxRepository(clock), each_sender.world.app.uow
    assert uow.run(inbox.purge_expired) == 0
    clock.advance(4 * 86_400_000)

    assert uow.run(lambda conn: inbox.purge_expired(conn, limit=1)) == 1
    assert uow.run(inbox.purge_expired) == 1
    assert uow.run(inbox.purge_expired) == 0


# -- signatures


@pytest.mark.parametrize("kind", KINDS)
def test_forged_delivery_is_refused_and_leaves_nothing(sender: Sender, kind: str) -> None:
    body = encoded(sample(kind))
    forgeries: list[dict[str, str]] = [
        {},
        signed(kind, body, secret="another-secret"),
        signed(kind, body, secret=SECRET[:-1]),
        signed(kind, body, secret=SECRET + "x"),
        dict.fromkeys(signed(kind, body), ""),
        dict.fromkeys(signed(kind, body), "é"),
    ]
    if kind in ("gitea", "line"):
        forgeries.append(signed(kind, body + b" "))
    for headers in forgeries:
        encoded_headers = {name: value.encode() for name, value in headers.items()}
        answer = sender.client.post(
            f"/channels/{kind}/acme/main", content=body, headers=encoded_headers
        )

        assert (answer.status_code, answer.json()["code"]) == (401, "SIGNATURE_INVALID"), headers
    assert sender.jobs() == 0


def test_body_is_not_looked_at_before_its_sender_is_known(sender: Sender) -> None:
    answer = sender.send("telegram", b"not json", headers={})

    assert answer.status_code == 401


def test_alertmanager_may_send_basic_credentials(sender: Sender) -> None:
    for password, status in ((SECRET, 200), ("wrong", 401)):
        text = base64.b64encode(f"am:{password}".encode()).decode()
        answer = sender.send("alertmanager", headers={"Authorization": f"Basic {text}"})

        assert answer.status_code == status


def test_both_secrets_count_while_one_is_replaced(sender: Sender) -> None:
    for secret, status in (("new-secret", 200), ("old-secret", 200), ("older", 401)):
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": secret}
        assert sender.send("api", headers=headers, place="rotating/x").status_code == status


def test_channel_without_a_secret_takes_nothing_unless_it_is_allowed(sender: Sender) -> None:
    headers = {"Idempotency-Key": "k"}
    refused = sender.send("api", headers=headers, place="unsecured/x")
    allowed = sender.send("api", headers=headers, place="open/x")

    assert (refused.status_code, refused.json()["code"]) == (403, "CHANNEL_NOT_SECURED")
    assert allowed.status_code == 200


@pytest.mark.parametrize("path", ["sms/acme/main", "telegram/nobody/main", "api/none/x"])
def test_unknown_channel_is_not_found(sender: Sender, path: str) -> None:
    answer = sender.client.post(f"/channels/{path}", content=b"{}")

    assert (answer.status_code, answer.json()["code"]) == (404, "CHANNEL_UNKNOWN")


# -- ids and bodies


def without(kind: str, *path: str | int) -> dict[str, Any]:
    content = sample(kind)
    place: Any = content
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return content


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("telegram", without("telegram", "update_id")),
        ("telegram", sample("telegram") | {"update_id": None}),
        ("telegram", sample("telegram") | {"update_id": True}),
        ("telegram", sample("telegram") | {"update_id": "914522301"}),
        ("alertmanager", without("alertmanager", "groupKey")),
        ("alertmanager", without("alertmanager", "status")),
        ("alertmanager", without("alertmanager", "alerts")),
        ("alertmanager", sample("alertmanager") | {"alerts": []}),
        ("alertmanager", sample("alertmanager") | {"alerts": [7]}),
        ("alertmanager", without("alertmanager", "alerts", 1, "fingerprint")),
        ("alertmanager", without("alertmanager", "alerts", 0, "startsAt")),
        ("line", without("line", "events", 0, "webhookEventId")),
        ("line", {"events": [{"webhookEventId": ""}]}),
        ("line", {"events": [{"webhookEventId": "x" * 257}]}),
        ("line", {"events": [{"webhookEventId": "a\u0000b"}]}),
    ],
)
def test_event_without_a_usable_id_is_refused(sender: Sender, kind: str, content: Any) -> None:
    """EW-3."""
    answer = sender.send(kind, content)

    assert (answer.status_code, answer.json()["code"]) == (400, "EVENT_ID_MISSING")
    assert sender.jobs() == 0


@pytest.mark.parametrize(
    ("kind", "event_id"),
    [
        ("gitea", ""),
        ("gitea", "x" * 257),
        ("api", ""),
        ("api", "x" * 257),
        ("api", "é"),
        ("api", "a b"),
    ],
)
def test_header_that_is_no_id_is_refused(sender: Sender, kind: str, event_id: str) -> None:
    body = encoded(sample(kind))
    headers = {n: v.encode() for n, v in signed(kind, body, event_id=event_id).items()}
    answer = sender.client.post(f"/channels/{kind}/acme/main", content=body, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (400, "EVENT_ID_MISSING")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"NaN", b"[" * 50_000])
def test_body_that_is_no_json_object_is_refused(sender: Sender, kind: str, body: bytes) -> None:
    answer = sender.send(kind, body)

    assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_MALFORMED")


def test_content_that_the_application_cannot_use_is_refused(sender: Sender) -> None:
    broken = sender.send("api", {"broken": True})
    invalid = sender.send("api", {"payload": {"sleep_ms": -1}})

    assert (broken.status_code, broken.json()["code"]) == (422, "EVENT_REFUSED")
    assert (invalid.status_code, invalid.json()["code"]) == (422, "PAYLOAD_INVALID")
    assert sender.jobs() == 0


# -- trouble with the storage


def test_event_row_and_job_stand_or_fall_together(each_sender: Sender) -> None:
    """EW-1: where one of them cannot be stored, the sender is told to come again and nothing is left."""
    with each_sender.world.app.database.begin() as conn:
        conn.execute(sa.text("ALTER TABLE inbox_event RENAME TO inbox_event_away"))
    assert each_sender.send("telegram").status_code >= 500
    assert each_sender.jobs() == 0
    with each_sender.world.app.database.begin() as conn:
        conn.execute(sa.text("ALTER TABLE inbox_event_away RENAME TO inbox_event"))
        conn.execute(sa.text("ALTER TABLE outbox_event RENAME TO outbox_event_away"))
    assert each_sender.send("telegram").status_code >= 500
    with each_sender.world.app.database.begin() as conn:
        assert conn.execute(sa.text("SELECT COUNT(*) FROM inbox_event")).scalar_one() == 0
        conn.execute(sa.text("ALTER TABLE outbox_event_away RENAME TO outbox_event"))

    answer = each_sender.send("telegram")

    assert answer.status_code == 200
    assert "code" not in answer.json()
    assert each_sender.jobs() == 1


# -- configuration


@pytest.mark.parametrize(
    "configure_wrongly",
    [
        lambda c: c.on("sms", secret="x"),
        lambda c: (c.on("api", secret="x")(to_job), c.on("api", secret="y")(to_job)),
        lambda c: c.on("api", secret="")(to_job),
        lambda c: c.on("api", secret=["x", ""])(to_job),
    ],
)
def test_wrong_configuration_is_refused_at_start(
    configure_wrongly: Callable[[Channels], Any],
) -> None:
    with pytest.raises(SettingsError) as refused:
        configure_wrongly(Channels())
    assert "x'" not in str(refused.value)


def test_most_exact_channel_counts() -> None:
    channels = Channels()
    for project, instance in (("*", "*"), ("p", "*"), ("*", "i"), ("p", "i")):
        channels.on("api", project=project, instance=instance, secret="x")(to_job)

    def found(project: str, instance: str) -> tuple[str, str]:
        channel = channels.find("api", project, instance)
        return channel.project, channel.instance

    assert found("p", "i") == ("p", "i")
    assert found("p", "x") == ("p", "*")
    assert found("x", "i") == ("*", "i")
    assert found("x", "x") == ("*", "*")


def test_secrets_are_in_no_repr() -> None:
    channels = Channels()
    channels.on("api", secret=SECRET)(to_job)

    assert SECRET not in repr(channels.find("api", "a", "b"))


def test_upkeep_purges_events_keys_and_previews_whose_time_is_over(
    each_sender: Sender, clock: DatabaseClock
) -> None:
    world = each_sender.world
    each_sender.send("telegram")
    job_id = UUID(each_sender.send("telegram").json()["runId"])
    world.edge.idempotency.claim(KeyedRequest("u", "POST /x", "k", b"1" * 32))
    world.app.uow.run(lambda conn: world.edge.streams.append(conn, job_id, [Piece(1, 1, "x")]))
    upkeep, tables = make_upkeep(world.app), ("inbox_event", "idempotency_record", "stream_chunk")

    def left() -> list[int]:
        with world.app.database.connect() as conn:
            return [conn.execute(sa.text(f"SELECT COUNT(*) FROM {t}")).scalar_one() for t in tables]

    upkeep.clean_up()
    assert left() == [1, 1, 1]
    for days, expected in ((0.1, [1, 1, 0]), (1, [1, 0, 0]), (6, [0, 0, 0])):
        clock.advance(days * 86_400_000)
        upkeep.clean_up()
        assert left() == expected
