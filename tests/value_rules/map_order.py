"""Protobuf's maps have no order, and its library writes some entries anew: answers that do not depend on either."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tests.value_rules.oracle_json import PlainSpec, Refused, Row
from tests.value_rules.oracle_protobuf import ProtobufSettings
from tests.value_rules.oracle_protobuf_wire import types_of
from tests.value_rules.oracle_text import Object, read_text, write_text
from tests.value_rules.oracle_values import Kind, kind_of


def without_order(spec: PlainSpec, answer: Row | Refused) -> Row | Refused:
    """Entries of maps sorted; of a dirty map only the column is named, since any of its entries may come first."""
    kinds = {column.name: column.type for column in spec.columns}
    if isinstance(answer, Refused):
        name = answer.field.split(".")[0].split("[")[0]
        return replace(answer, field=name) if "map<" in kinds.get(name, "") else answer
    values = {name: _sorted(value, kind_of(kinds[name])) for name, value in answer.values.items()}
    unknown = {name: write_text(_sorted_tree(read_text(text))) for name, text in answer.unknown.items()}
    written_again = {f"#{number}": "an entry" for number in map_fields(spec.settings)}
    unknown |= {name: text for name, text in written_again.items() if name in unknown}
    return Row(values, answer.event_ms, unknown)


@cache
def map_fields(settings: ProtobufSettings) -> list[int]:
    """Numbers of the fields that are maps: an entry that is an unknown field is written anew by the library."""
    types = types_of(settings.descriptor_set)
    fields = types.messages[settings.message].fields.values()
    return [f.number for f in fields if f.kind == "message" and types.messages[f.type_name].map_entry]


def _sorted(value: Any, kind: Kind) -> Any:
    name, detail = kind
    if value is None:
        return None
    if name == "array":
        return [_sorted(item, detail) for item in value]
    if name == "struct":
        return {field: _sorted(value[field], inner) for field, inner in detail}
    if name == "map":
        return sorted(((key, _sorted(item, detail[1])) for key, item in value), key=lambda pair: repr(pair[0]))
    return value


def _sorted_tree(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_sorted_tree(item) for item in tree]
    if isinstance(tree, Object):
        return Object(sorted(((key, _sorted_tree(item)) for key, item in tree.pairs), key=lambda pair: pair[0]))
    return tree
