"""New columns, and wider types, in a pipeline's YAML, written as text: comments and order of the file stay."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import yaml

from tidegate.core.base.errors import SpecError
from tidegate.core.spec.proposals import Proposal

_ITEM = re.compile(r"( *)-(?:\s|$)")


def with_columns(text: str, file: str, proposals: Sequence[Proposal]) -> str:
    """`text` with the usable proposals behind the last of its `columns`. Raises SpecError if it has none of its own."""
    lines = [p.line for p in proposals if p.usable]
    line, columns = _columns(text, file)
    if not lines:
        return text
    last = columns.value[-1]
    if columns.flow_style:
        at = last.end_mark.index
        return text[:at] + "".join(f", {_item(line)}" for line in lines) + text[at:]
    indent = next(m[1] for m in map(_ITEM.match, text.splitlines()[line + 1 :]) if m)
    at = _line_after(text, _end(last))
    added = "".join(f"{indent}{line}\n" for line in lines)
    gap = "" if not at or text[at - 1] == "\n" else "\n"
    return text[:at] + gap + added + text[at:]


def with_types(text: str, file: str, types: Mapping[str, str]) -> str:
    """`text` with these types of columns that it has, by their names. Raises SpecError if it has no columns."""
    if not types:
        return text
    _, columns = _columns(text, file)
    spans = []
    for item in columns.value:
        said = {key.value: value for key, value in item.value} if isinstance(item, yaml.MappingNode) else {}
        kind = types.get(said["name"].value.lower()) if {"name", "type"} <= said.keys() else None
        if kind is not None:
            spans.append((said["type"].start_mark.index, said["type"].end_mark.index, kind))
    for start, end, kind in reversed(spans):
        text = text[:start] + (kind if kind.isalnum() else f'"{kind}"') + text[end:]
    return text


def _columns(text: str, file: str) -> tuple[int, yaml.SequenceNode]:
    """The line of the key, and its list."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "columns" and isinstance(value, yaml.SequenceNode) and value.value:
            return key.start_mark.line, value
    raise SpecError("has no columns of its own to add to (are they in defaults.yaml?)", where=file, field="columns")


def _item(line: str) -> str:
    """Line of one column; within brackets without a dash and comment, which would end them."""
    return line.removeprefix("- ").split("  # ")[0]


def _end(node: yaml.Node) -> int:
    """End of the node's last word; marks of mappings point to the next node."""
    while isinstance(node, yaml.MappingNode | yaml.SequenceNode) and not node.flow_style and node.value:
        child = node.value[-1]
        node = child[1] if isinstance(child, tuple) else child
    return int(node.end_mark.index)


def _line_after(text: str, index: int) -> int:
    if index and text[index - 1] == "\n":  # a block of text ends with its line
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1
