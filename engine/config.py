"""Settings: read once from arguments and ``AIJOBS_*`` variables, checked aloud. The only reader of the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from engine.errors import SettingsError
from registry.errors import RegistryError
from registry.nearest import nearest
from registry.queues import DEFAULT_QUEUES, QueueSpec

Milliseconds = Annotated[int, Field(ge=1)]

_PREFIX: Final = "AIJOBS_"
_NESTED: Final = "__"

#: The embedded default: one SQLite file and Redis in this process, for one process only.
DEFAULT_DATABASE_URL = "sqlite:///.aijobs/aijobs.db"
DEFAULT_REDIS_URL = "fakeredis://aijobs"


class _Group(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DispatcherSettings(_Group):
    """How outbox events are handed on (design 8)."""

    batch: int = Field(100, ge=1, le=500)
    """Events per claim."""
    parallel: int = Field(2, ge=1, le=8)
    """Rounds at a time while there is a backlog."""
    poll_ms: Milliseconds = 1_000
    """How often the outbox is looked at when no hint comes."""
    claim_ttl_ms: Milliseconds = 60_000
    """How long a dispatcher may hold an event; after that its claim is released."""
    high_water_mark: int = Field(2_000, ge=1)
    """Tickets a queue holds at most; the rest waits in SQL, where an insertion in the middle is cheap."""
    early: bool = True
    """Whether whoever creates a job puts its ticket right after the commit, where nothing waits in the queue."""
    max_attempts: int = Field(3, ge=1)
    """Refusals that blame one event before it is dead; an outage never counts."""
    backoff_ms: Milliseconds = 2_000
    """Pause after an event was refused once; it doubles."""
    breaker_limit_ms: Milliseconds = 10_000
    """Longest pause of the breaker while Redis is away."""


class UpkeepSettings(_Group):
    """How the engine heals itself (design 11)."""

    interval_ms: Milliseconds = 30_000
    """How often a process looks for what needs healing."""
    redelivery_ms: Milliseconds = 60_000
    """How long a delivered job may go unclaimed before upkeep asks whether Redis lost it."""
    published_days: int = Field(7, ge=1)
    """How long events that are done are kept."""
    dead_days: int = Field(30, ge=1)
    """How long discarded events are kept, and dead ones of subscribers; a dead delivery as long as its job waits."""


class WorkerSettings(_Group):
    """How a worker process behaves."""

    grace_ms: Milliseconds = 30_000
    """Time for running jobs to finish after the first SIGTERM; then they are handed back."""
    db_threads: int = Field(8, ge=1, le=64)
    """Threads for short SQL stages and projectors."""
    park_from_ms: int = Field(5_000, ge=0)
    """Backoff below this sleeps in place; a longer one parks the job and frees the slot (X31)."""
    max_retry_after_ms: Milliseconds = 3_600_000
    """Longest wait a provider may ask for."""
    keep_error_text: bool = False
    """Keep the text of a handler's own error in the job's row, for administrators; it may quote an input."""
    output_limit_bytes: int = Field(4 * 1024 * 1024, ge=1, le=16_000_000)
    """Largest output a job may store."""


class AdmissionSettings(_Group):
    """Limits per user; None switches one off (X76)."""

    max_open_jobs: int | None = Field(None, ge=1)
    """Unfinished jobs one user may have."""
    daily_quota: int | None = Field(None, ge=1)
    """Jobs one user may create in a UTC day."""
    monthly_quota: int | None = Field(None, ge=1)
    """Jobs one user may create in a UTC month."""


class HttpSettings(_Group):
    """How the HTTP edge behaves. Without a token file, a secret or a key set only this machine is let in."""

    token_file: str | None = None
    """Static tokens with subjects and scopes, one a line; the format is in docs/http_api.md."""
    jwt_secret: SecretStr | None = None
    """Secret of HS256 tokens, at least 32 bytes."""
    jwks_url: str | None = None
    """Where the public keys of signed tokens are."""
    jwt_issuer: str | None = None
    """Required issuer of signed tokens."""
    jwt_audience: str | None = None
    """Required audience of signed tokens."""
    requests_per_minute: int = Field(6_000, ge=0)
    """Requests of one caller per minute and process; 0 sets no limit. Without authentication there is none."""
    body_limit_bytes: int = Field(2 * 1024 * 1024, ge=1_024)
    """Largest request body."""
    chat_wait_ms: Milliseconds = 110_000
    """How long a chat request waits for its job before it is answered with 504 and the job's link."""
    models: tuple[str, ...] = ()
    """Models that chat requests may name; empty: the platform's own."""
    docs: bool = True
    """Serve /docs and /openapi.json."""


class Settings(BaseSettings):
    """Everything a deployment may set. Nested values: ``AIJOBS_DISPATCHER__BATCH=200``.

    Raises :class:`~engine.errors.SettingsError` that names each wrong one.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_nested_delimiter=_NESTED, extra="forbid", frozen=True, env_ignore_empty=True,
    )  # fmt: skip

    database_url: str = DEFAULT_DATABASE_URL
    """PostgreSQL, MariaDB, MySQL or SQLite, as an SQLAlchemy URL."""
    idle_transaction_ms: int = Field(60_000, ge=0)
    """How long a transaction of ours may stand still, as in a frozen process, before the server ends it; 0: ever."""
    redis_url: str = DEFAULT_REDIS_URL
    """redis://, rediss:// or unix://; fakeredis:// stays within one process."""
    redis_prefix: str = "rq"
    """Every key in Redis begins with this; RQ's own tools look for "rq"."""
    environment: str = "development"
    """A name for people; the tools show it."""
    app: str | None = None
    """``module:attribute`` of the application, for the command line."""
    log_format: Literal["auto", "console", "json"] = "auto"
    """How daemons log: "auto" is readable on a terminal and JSON lines elsewhere."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe line that is logged."""

    payload_limit_bytes: int = Field(1024 * 1024, ge=1, le=16_000_000)
    """Largest input of a job, as canonical JSON."""
    priority_step_ms: int = Field(1_000, ge=0, le=2**40)
    """How many ms of waiting one step of priority is worth; a very large value means strict order."""
    queues: Annotated[tuple[QueueSpec, ...], NoDecode] = DEFAULT_QUEUES
    """Queues beside, or instead of, the built-in two; JSON in the environment."""

    dispatcher: DispatcherSettings = DispatcherSettings()
    upkeep: UpkeepSettings = UpkeepSettings()
    worker: WorkerSettings = WorkerSettings()
    admission: AdmissionSettings = AdmissionSettings()
    http: HttpSettings = HttpSettings()

    openai_api_key: SecretStr | None = None
    """The platform's model: without a key the offline provider answers."""
    openai_base_url: str | None = None
    """A server that speaks the chat completions protocol; OpenAI itself when only the key is set."""
    model: str | None = None
    """The model of platform jobs, unless a request names another."""
    deepseek_base_url: str = "https://api.deepseek.com/v1"
    """Where users' own keys go, and nowhere else (design 10)."""
    deepseek_model: str = "deepseek-chat"
    """The model that answers on keys of users."""
    credential_keys: SecretStr | None = None
    """Fernet keys, newest first, separated by commas: the first encrypts, all decrypt."""

    @field_validator("queues", mode="before")
    @classmethod
    def _merge_queues(cls, value: Any) -> tuple[QueueSpec, ...]:
        """Given queues replace built-in ones of the same name and are added to the others."""
        return merge_queues(value)

    @model_validator(mode="wrap")
    @classmethod
    def _say_it_in_our_words(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(values)
        except ValidationError as error:
            raise SettingsError("; ".join(map(_problem, error.errors(include_input=False)))) from None


def merge_queues(value: Any) -> tuple[QueueSpec, ...]:
    """Built-in queues overlaid with ``value``: specs, mappings, or JSON text of a list of mappings."""
    if isinstance(value, str):
        import json

        value = json.loads(value)
    merged = {spec.name: spec for spec in DEFAULT_QUEUES}
    for item in value:
        spec = item if isinstance(item, QueueSpec) else _spec(item, merged)
        merged[spec.name] = spec
    return tuple(merged.values())


def _spec(item: Any, known: dict[str, QueueSpec]) -> QueueSpec:
    if not isinstance(item, dict) or "name" not in item:
        raise ValueError('a queue is an object with at least a "name"')
    base = known.get(item["name"])
    values = {} if base is None else {name: getattr(base, name) for name in QueueSpec.__dataclass_fields__}
    try:
        return QueueSpec(**(values | item))
    except (TypeError, RegistryError) as error:
        raise ValueError(str(error)) from None


def load_settings(**given: Any) -> Settings:
    """Settings from ``given`` and the environment. Raises :class:`SettingsError` naming each wrong one."""
    return Settings(**given)


def notify_socket() -> str | None:
    """Where a supervisor such as systemd wants to hear READY and STOPPING, if one does."""
    return os.environ.get("NOTIFY_SOCKET")


# ------------------------------------------------------------------ names that are none


def unknown_variables() -> list[str]:
    """One sentence for each ``AIJOBS_*`` variable that no setting reads: a slip that would be passed over.

    No error: an older release may meet the variables of a newer one while a deployment is updated.
    """
    known = set(variables())
    return [
        f"{name} is set, and no setting has this name{_meant(name)}"
        for name in sorted(os.environ)
        if name.upper().startswith(_PREFIX) and name.upper() not in known and not _KUBERNETES.search(name)
    ]


#: What Kubernetes sets by itself in every pod beside a service that is called aijobs.
_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP)(_\w+)?)?$")


def _meant(variable: str) -> str:
    """Compared without the prefix, in which all names are alike."""
    near = nearest(variable.upper().removeprefix(_PREFIX), (name.removeprefix(_PREFIX) for name in variables()))
    return f"; did you mean {_PREFIX}{near}?" if near else ""


def variables(model: type[BaseModel] = Settings, prefix: str = _PREFIX) -> Iterator[str]:
    """The name of every variable that is read."""
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        yield variable
        if isinstance(field.default, BaseModel):
            yield from variables(type(field.default), variable + _NESTED)


def _problem(error: Any) -> str:
    path = [str(part) for part in error["loc"]]
    name = _PREFIX + _NESTED.join(path).upper()
    if error["type"] != "extra_forbidden":
        return f"{name}: {error['msg']}"
    if len(path) > 1:
        return f"{name}: there is no such setting{_meant(name)}"
    near = nearest(path[0], Settings.model_fields)
    return f"{path[0]}: there is no such setting" + (f"; did you mean {near}?" if near else "")
