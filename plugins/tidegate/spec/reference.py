"""The JSON schema for editors and `docs/pipeline.md` for people, both from the models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.spec.model import PipelineSpec

SCHEMA_FILE = Path(__file__).with_name("pipeline.schema.json")
_VARIABLE = {"type": "string", "pattern": r"\$\{"}
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}

EXAMPLE = """\
version: 1
name: flights
description: Departures as the airports report them.
owner: data-platform
tags: [aviation]
source:
  topic: flights
  start: earliest
format:
  type: json
  unknown_fields: capture
columns:
  - {name: carrier, type: string}
  - {name: tail_number, type: string, from: $.aircraft.tail}
  - {name: dep_delay, type: int, from: $.delays.dep}
  - {name: fare, type: "decimal(10,2)", nullable: false}
event_time:
  from: $.departed_at
  format: epoch_ms
windows:
  size: 1h
  timezone: UTC
  start: 2013-01-01T00:00:00Z
  watermark_delay: 6h
partition_by: [date, hour, carrier]
sink:
  table: lake.flights
  location: ${LAKE:-file:///data/lake}/flights
"""

_INTRODUCTION = """\
# A pipeline's YAML

One file in the pipelines folder is one pipeline: one Kafka topic into one Hive table. This page and the JSON schema \
(`tidegate/spec/pipeline.schema.json`) are generated from the code; `tidegate spec validate` checks the files, \
and names file, line and field of each mistake. Expressions, unknown fields and changes of \
columns are in [columns](schema.md).

```yaml
{example}```

Everything else has a default. Unknown keys are errors, never ignored.

**Durations** are a whole number and a unit: `500ms`, `30s`, `5m`, `6h`, `2d`. **Sizes** likewise: `64KB`, `256MB`, \
`1GB` (1 KB is 1024 bytes). **Times** are ISO 8601; without an offset they are meant in `windows.timezone`.

**Variables.** `${{NAME}}` in a value is replaced by the environment variable, `${{NAME:-default}}` by the default \
when the variable is unset or empty; an unset one without a default is an error. `$${{` is a literal `${{`. Within \
`{{...}}` and `[...]` YAML needs quotes around such a value. Compiled pipelines are stored: no secrets.

**`defaults.yaml`** in the same folder lies under every pipeline: mappings merge key by key, lists and single values \
of the pipeline replace those of the defaults. It may hold every key but `name`. A key is *required* if neither file \
has it.

**Mirrors.** With `sink.kind: mirror` the table holds the newest row of each key. Such a pipeline has no windows: \
`event_time`, `windows`, `partition_by`, `late`, `archive`, `completeness` and `dirty` are left out, `required` or not \
([mirrors](mirrors.md)). With `store: hive_daily` beside it the table has a partition for each day, and days are \
windows: `windows.start` is required; `event_time`, `partition_by`, `late` and `dirty` have defaults of their own \
([mirrors by days](mirrors.md#by-days-in-hive)).

**Tables without a log.** With `source.kind: database` a window is one reading of a table: `event_time`, `format` and \
`late` are left out, `required` or not, and `windows` has `size`, `timezone`, `start` and `watermark_delay` alone, the \
time after a window's end at which it is read ([tables without a log](offline.md)).

**Editors.** With the YAML language server, a first line \
`# yaml-language-server: $schema=<path of pipeline.schema.json>` gives completion and checks. The schema requires \
only what `defaults.yaml` cannot give.

*Not in this version:* values and keys so marked are known, and refused by name.
"""


def schema() -> dict[str, Any]:
    """The JSON schema of one file, for editors: a key that `defaults.yaml` may give is not required, and any value may
    be a `${VARIABLE}`."""
    raw = PipelineSpec.model_json_schema(by_alias=True)
    definitions = raw.pop("$defs")
    result = _inline(raw, definitions)
    _relax(result, in_list=False)
    result["required"] = ["name"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **result, "title": "Tidegate pipeline"}


def schema_text() -> str:
    """The content of `pipeline.schema.json`."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _inline(value: Any, definitions: dict[str, Any]) -> Any:
    """References replaced by what they refer to (no section holds itself), titles left out."""
    if isinstance(value, list):
        return [_inline(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        target = definitions[value["$ref"].rpartition("/")[2]]
        value = {**target, **{k: v for k, v in value.items() if k != "$ref"}}
    result = {k: _inline(v, definitions) for k, v in value.items() if not (k == "title" and isinstance(v, str))}
    return _optional_section(result)


def _optional_section(value: dict[str, Any]) -> dict[str, Any]:
    """A section that may be null is described as the section, of either type."""
    kinds = value.get("anyOf", ())
    section = next((kind for kind in kinds if "properties" in kind), None)
    if section is None or {"type": "null"} not in kinds:
        return value
    return {**section, **{k: v for k, v in value.items() if k != "anyOf"}, "type": ["object", "null"]}


def _relax(section: dict[str, Any], *, in_list: bool) -> None:
    """In place. Items of lists keep what they require: lists are replaced as a whole."""
    if not in_list:
        section.pop("required", None)
    for key, value in section["properties"].items():
        if "properties" in value:
            _relax(value, in_list=False)
        elif "properties" in value.get("items", {}):
            _relax(value["items"], in_list=True)
        else:
            section["properties"][key] = _or_variable(value)


def _or_variable(value: dict[str, Any]) -> dict[str, Any]:
    kinds = value.get("anyOf", [value])
    if any(k.get("type") in ("array", "object") or k.keys() & {"const"} or k.get("x-type") == "not yet" for k in kinds):
        return value
    about = ("description", "default", "x-unit", "x-default")
    choices = [{k: v for k, v in kind.items() if k not in about} for kind in kinds]
    if all(k.get("type") == "string" and not k.keys() & {"pattern", "enum"} for k in choices):
        return value
    return {**{k: v for k, v in value.items() if k in about}, "anyOf": [*choices, _VARIABLE]}


def markdown() -> str:
    """The content of `docs/pipeline.md`."""
    raw = PipelineSpec.model_json_schema(by_alias=True)
    root = _inline(raw, raw.pop("$defs"))
    return _INTRODUCTION.format(example=EXAMPLE) + "".join(_tables(root, ""))


def _tables(section: dict[str, Any], path: str) -> Iterator[str]:
    title = f"`{path}`" if path else "Top level"
    yield f"\n## {title}\n\n{section.get('description', '')}\n\n| key | value | default | |\n|---|---|---|---|\n"
    inner: list[tuple[str, dict[str, Any]]] = []
    for key, value in section["properties"].items():
        holds = value if "properties" in value else value.get("items", {})
        if "properties" in holds:
            inner.append((f"{path}.{key}".strip("."), holds))
        yield _row(f"{path}.{key}".strip("."), value, key in section.get("required", ()))
    for where, holds in inner:
        yield from _tables(holds, where)


def _row(path: str, value: dict[str, Any], required: bool) -> str:
    kinds = value.get("anyOf", [value])
    anchor = path.replace(".", "")
    if "properties" in value:
        return f"| `{path}` | [section](#{anchor}) | {'required' if required else ''} | {_summary(value)} |\n"
    if "properties" in value.get("items", {}):
        needed = "required" if required else ""
        return f"| `{path}` | list of [mappings](#{anchor}) | {needed} | {_summary(value['items'])} |\n"
    about = value["description"]
    if kinds[0].get("x-type") == "not yet":
        return f"| `{path}` | *not in this version* | | {about} |\n"
    unit = f" ({value['x-unit']})" if "x-unit" in value else ""
    return f"| `{path}` | {_kind(kinds)}{unit} | {_default(value, required)} | {about} |\n"


def _summary(section: dict[str, Any]) -> str:
    """The first paragraph of its description, in one line."""
    return " ".join(str(section["description"]).partition("\n\n")[0].split())


def _kind(kinds: list[dict[str, Any]]) -> str:
    words = []
    for kind in kinds:
        if "enum" in kind:
            words.append(", ".join(f"`{word}`" for word in kind["enum"]))
        elif kind.get("type") == "array":
            words.append("list of " + (kind["items"].get("x-type") or _TYPES[kind["items"]["type"]]))
        elif kind.get("type") == "null":
            words.append("`null`")
        else:
            words.append(kind.get("x-type") or _TYPES[kind["type"]])
    return " or ".join(words)


def _default(value: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    shown: str | None = value.get("x-default")
    if shown:
        return shown
    default = value.get("default")
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"
