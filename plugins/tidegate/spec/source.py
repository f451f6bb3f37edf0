"""The section `source`: the keys that every kind has. Each kind's folder adds its own, in a section derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from tidegate.core.spec.pipeline import KAFKA
from tidegate.kinds import SOURCES, is_source_kind, source_kind, source_kinds
from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Duration, OneOf, Start, Topic, nearest, show

OnDataLoss = Annotated[Literal["fail", "record"], OneOf()]


def _installed(value: object) -> str:
    if is_source_kind(value):
        return str(value)
    known = source_kinds()
    near = nearest(str(value), known)
    raise ValueError(f"there is no kind of source {show(value)}; there are: {', '.join(known)}{near}")


Kind = Annotated[str, BeforeValidator(_installed), WithJsonSchema({"type": "string", "x-type": "word"})]


class SourceSection(Section):
    """Where records come from."""

    kind: Kind = key(
        "Kind of source. Packages can bring more by an entry point of the group `tidegate.sources`. It stays, as the "
        "topic does.",
        KAFKA,
    )
    conn_id: ConnectionId = key("Airflow connection of the source's servers.")
    topic: Topic = key("The topic. One pipeline reads one topic.")
    start: Start = key(
        "Where the very first batch begins: the log's start, its end, or the first record at or after a time (the "
        "source's timestamp). Without an offset the time is meant in `windows.timezone`. Later batches go on where the "
        "last one ended.",
        "earliest",
    )
    on_data_loss: OnDataLoss = key(
        "What to do when retention has deleted offsets that were due: stop with the numbers, or write the lost "
        "intervals to the ledger and go on.",
        "fail",
    )
    loss_warning: Duration | None = key(
        "Warn when retention would pass unread records within this time at the present pace; a quarter of it is "
        "critical. null: no warning. docs/event-time.md says how the time is found.",
        "1d",
    )


def section_of(kind: str) -> type[SourceSection]:
    """The keys of an installed kind."""
    found: type[SourceSection] = source_kind(kind).section()
    return found


def own_options(spec: SourceSection) -> tuple[tuple[str, str], ...]:
    """Keys that the rest knows nothing of, with their values as text, sorted."""
    shared = {*SourceSection.model_fields, "isolation", "gaps"}
    values = ((name, getattr(spec, name)) for name in sorted(type(spec).model_fields.keys() - shared))
    return tuple((name, _text(value)) for name, value in values if value is not None)


def _text(value: object) -> str:
    """A list as its items with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


class ByKind:
    """Beside `SourceSection`: a section is validated as that of its kind. It is described as Kafka's, with the keys
    that only other kinds of this release have."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_validated)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(section_of(KAFKA).__pydantic_core_schema__)
        for kind in SOURCES:
            for name, told in section_of(kind).model_json_schema(by_alias=True)["properties"].items():
                note = {"description": f"Kind `{kind}` only. {told['description']}"}
                described["properties"].setdefault(name, {**told, **note})
        return described


def _validated(value: object) -> SourceSection:
    """An unknown kind is refused by Kafka's section, together with whatever else is wrong."""
    kind = value.get("kind", KAFKA) if isinstance(value, Mapping) else KAFKA
    return section_of(kind if is_source_kind(kind) else KAFKA).model_validate(value)
