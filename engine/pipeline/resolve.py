"""RESOLVE: everything EXECUTE needs, read and checked: the stored input, the credential, the prompt."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from engine.errors import HandlerError, SnapshotError, SnapshotExpired
from engine.lifecycle.snapshots import Snapshot
from engine.pipeline.work import Resolved, Work
from engine.resources.credentials import PLATFORM_KEY, Credential
from engine.resources.prompts import PromptCatalog
from engine.resources.resolver import CredentialResolver
from outbox.base.canonical import parse
from outbox.base.db import UnitOfWork
from outbox.base.errors import NotCanonicalError


class Resolver:
    """Resolves claimed work. Runs on a database thread."""

    def __init__(self, *, uow: UnitOfWork, credentials: CredentialResolver, prompts: PromptCatalog) -> None:
        self._uow = uow
        self._credentials = credentials
        self._prompts = prompts

    def is_quick(self, work: Work) -> bool:
        """Whether resolving needs no statement, and so no thread."""
        return work.job.credential_mode == PLATFORM_KEY

    def resolve(self, work: Work) -> Resolved:
        """Raises a :class:`SnapshotError`, a :class:`~engine.errors.CredentialError` or
        :class:`~engine.errors.DefinitionRefusesJob`; none of these is retried."""
        value = _input(work.snapshot, work.definition.input.model)
        prompt = self._prompts.resolve(work.definition, work.job.prompt_version)
        return Resolved(work, value, self._credential(work), prompt)

    def _credential(self, work: Work) -> Credential:
        job = work.job
        if self.is_quick(work):
            return self._credentials.platform_credential()
        return self._uow.read(
            lambda conn: self._credentials.resolve(
                conn, mode=job.credential_mode, credential_id=job.credential_id, user_id=job.user_id
            )
        )


def _input(snapshot: Snapshot | None, model: type[BaseModel]) -> BaseModel:
    if snapshot is None:
        raise SnapshotError("the job has no stored input")
    if snapshot.content is None:
        raise SnapshotExpired()
    try:
        return model.model_validate(parse(snapshot.content))
    except NotCanonicalError:
        raise SnapshotError("the stored input is not JSON") from None
    except ValidationError as error:
        # The model has changed since: it names the fields, never their values.
        places = ", ".join(".".join(map(str, e["loc"])) for e in error.errors(include_input=False)[:5])
        raise SnapshotError(
            f"the stored input (version {snapshot.schema_version}) does not match {model.__name__}: {places}"
        ) from None
    except Exception:
        raise
    except BaseException as error:  # noqa: BLE001 - a validator may raise anything
        # On the event loop SystemExit and its like would end the process, and every other job's attempt with it.
        raise HandlerError(f"the input's model raised {type(error).__name__}") from None
