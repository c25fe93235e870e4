"""``aijobs types``: what the application can run."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from engine.cli.nouns import noun
from engine.cli.session import Session
from registry.definition import JobDefinition

command = noun("The registered job types and their schemas.")


@command.command("list", epilog="Example: aijobs types list --app myproject.jobs:app")
def list_(ctx: typer.Context) -> None:
    """List the job types of the application."""
    session: Session = ctx.obj
    session.app.start()
    definitions = session.app.registry.get_all()
    columns = ("TYPE", "QUEUE", "PRIORITY", "TIMEOUT", "ATTEMPTS", "DESCRIPTION")
    rows = [
        (d.job_type, d.queue.queue_name, d.queue.default_priority, f"{d.execution.timeout_ms / 1000:g}s",
         d.max_attempts, d.metadata.description or d.metadata.label)
        for d in definitions
    ]  # fmt: skip
    session.out.show({"types": [_document(d) for d in definitions]}, lambda: session.out.table(columns, rows))


@command.command(epilog="Example: aijobs types show quiz_generation --schema input")
def show(
    ctx: typer.Context,
    job_type: Annotated[str, typer.Argument(metavar="TYPE")],
    schema: Annotated[
        Literal["input", "output"] | None,
        typer.Option(metavar="input|output", help="Print only this JSON Schema."),
    ] = None,
) -> None:
    """Show one job type with its policies and its input and output fields."""
    session: Session = ctx.obj
    session.app.start()
    definition = session.app.registry.get(job_type)
    schemas = {"input": definition.input.model, "output": definition.output.model}
    if schema is not None:
        session.out.line(json.dumps(schemas[schema].model_json_schema(), ensure_ascii=False, indent=2))
        return
    full = _document(definition) | {
        f"{name}Schema": model.model_json_schema() for name, model in schemas.items()
    }
    session.out.show(full, lambda: _text(session, definition))


def _text(session: Session, definition: JobDefinition) -> None:
    session.out.fields(_document(definition))
    for name, model in (("input", definition.input.model), ("output", definition.output.model)):
        session.out.line()
        session.out.line(f"{name}: {model.__name__}", style="bold")
        session.out.table(
            ("FIELD", "TYPE", "DEFAULT", "MEANING"),
            [_field(field, model) for field in model.model_fields.items()],
        )


def _field(item: tuple[str, Any], model: Any) -> tuple[str, str, str, str]:
    name, info = item
    value = None if info.is_required() else info.get_default(call_default_factory=False)
    default = "required" if info.is_required() else json.dumps(value, default=str)
    kind = model.model_json_schema()["properties"].get(info.alias or name, {})
    return name, _kind(kind), default, info.description or ""


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return "|".join(_kind(part) for part in schema["anyOf"])
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    return str(schema.get("type") or schema.get("$ref", "any").rpartition("/")[2])


def _document(d: JobDefinition) -> dict[str, Any]:
    return {
        "jobType": d.job_type,
        "label": d.metadata.label,
        "description": d.metadata.description,
        "domain": d.metadata.domain,
        "version": d.metadata.version,
        "queueName": d.queue.queue_name,
        "priority": d.queue.default_priority,
        "timeoutMs": d.execution.timeout_ms,
        "maxAttempts": d.max_attempts,
        "cancellable": d.execution.cancellable,
        "credentialModes": ", ".join(d.credential.allowed_modes),
        "projector": d.projector,
        "handler": "own" if d.handler else "prompt",
    }
