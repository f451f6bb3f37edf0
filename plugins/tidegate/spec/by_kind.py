"""Sections whose keys depend on their `kind`: `source` and `sink`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from tidegate.kinds import Kinds
from tidegate.spec.section import Section
from tidegate.spec.values import nearest, show

WORD = WithJsonSchema({"type": "string", "x-type": "word"})


@dataclass(frozen=True)
class ByKind:
    """Beside a section's class: it is validated as that of its kind. It is described as that of `default`, with the
    keys that only other kinds of this release have."""

    kinds: Kinds[Any]
    default: str

    def installed(self, value: object) -> str:
        """Validates the key `kind`."""
        if value in self.kinds:
            return str(value)
        known = self.kinds.names()
        there = f"there is no kind of {self.kinds.port} {show(value)}; there are: {', '.join(known)}"
        raise ValueError(there + nearest(str(value), known))

    def section_of(self, kind: str) -> type[Section]:
        """The keys of an installed kind."""
        found: type[Section] = self.kinds.get(kind).section()
        return found

    def validated(self, value: object) -> Section:
        """An unknown kind is refused by the default's section, together with whatever else is wrong."""
        return self.section_for(value).model_validate(value)

    def section_for(self, value: object) -> type[Section]:
        """The keys of the kind that a section of the YAML names; those of the default for an unknown one."""
        return self.section_of(self.kind_of(value) or self.default)

    def kind_of(self, value: object) -> str | None:
        """The installed kind that a section of the YAML names, or the default; None for an unknown one."""
        kind = value.get("kind", self.default) if isinstance(value, Mapping) else self.default
        return kind if isinstance(kind, str) and kind in self.kinds else None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.validated)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(self.section_of(self.default).__pydantic_core_schema__)
        shared = set(described["properties"])
        having: dict[str, dict[str, None]] = {}
        for kind in self.kinds.own:
            for name, told in self.section_of(kind).model_json_schema(by_alias=True)["properties"].items():
                having.setdefault(name, {})[self.kinds.in_yaml(kind)] = None
                described["properties"].setdefault(name, told)
        for name in having.keys() - shared:
            told = described["properties"][name]
            described["properties"][name] = {
                **told,
                "description": f"{_only(list(having[name]))} {told['description']}",
            }
        return described


def _only(kinds: list[str]) -> str:
    names = " and ".join(f"`{kind}`" for kind in kinds)
    return f"Kind {names} only." if len(kinds) == 1 else f"Kinds {names} only."


def own_options(spec: Section, shared: type[Section], compiled: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Keys that the rest knows nothing of, with their values as text, sorted: neither `shared` by all kinds, nor fields
    of the compiled form of their own."""
    fields = type(spec).model_fields
    names = fields.keys() - shared.model_fields.keys() - {*compiled}
    values = sorted((fields[name].alias or name, getattr(spec, name)) for name in names)
    return tuple((name, _text(value)) for name, value in values if value is not None)


def _text(value: object) -> str:
    """A list as its items with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
