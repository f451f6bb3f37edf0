"""Reads YAML and keeps for every value its file and line, so that every error can say where.

Stricter than YAML: duplicate keys, tags, merge keys and values that contain themselves are refused, times stay text,
and only plain decimal numbers are numbers (no octal, no base 60).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from tidegate.core.base.errors import SpecError

_QUICK_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NESTING = 5000  # libyaml's composer overflows the process's stack beyond some 20,000 levels, Python's one raises
_CORE = "tag:yaml.org,2002:"
_INTEGER, _FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})"), re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?")
_TRUE = ("true", "yes", "on")

Path = tuple[str | int, ...]
"""Keys and list indexes from the document's root."""


@dataclass(frozen=True, slots=True)
class Node:
    """`value`: a mapping or list of nodes, or a scalar. `line`: of its key, from 1."""

    value: Any
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def at(self, path: Path) -> Node:
        """The node at `path`, or the deepest one there is on the way."""
        node = self
        for part in path:
            children = dict(enumerate(node.value)) if isinstance(node.value, list) else node.value
            if not isinstance(children, dict) or part not in children:
                break
            node = children[part]
        return node


def dotted(path: Path) -> str:
    """`columns[2].type`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def read(text: str, file: str) -> Node:
    """The document in `text`; an empty one is an empty mapping. Raises SpecError with file and line."""
    try:
        deep = sum(map(text.count, "[{-?")) > _NESTING
        tree = yaml.compose(text, Loader=yaml.SafeLoader if deep else _QUICK_LOADER)
        root = _Builder(file).node(tree, tree.start_mark.line + 1, ()) if tree else Node({}, file, 1)
    except RecursionError:
        raise SpecError("is nested too deep", where=f"{file}:1") from None
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        said = " ".join(part for part in (e.context, e.problem) if part)
        raise SpecError(f"not YAML: {said}", where=f"{file}:{mark.line + 1 if mark else 1}") from None
    except yaml.YAMLError as e:
        line = text.count("\n", 0, getattr(e, "position", 0)) + 1
        raise SpecError(f"not YAML: {getattr(e, 'reason', e)}", where=f"{file}:{line}") from None
    if not isinstance(root.value, dict):
        raise SpecError("must be a mapping of keys to values", where=root.place)
    return root


class _Builder:
    def __init__(self, file: str) -> None:
        self._file = file
        self._open: set[int] = set()  # an anchor may not contain an alias of itself

    def node(self, tree: yaml.Node, line: int, path: Path) -> Node:
        if isinstance(tree, yaml.ScalarNode):
            return Node(self._scalar(tree, line, path), self._file, line)
        if id(tree) in self._open:
            raise self._refuse("contains itself", line, path)
        if not tree.tag.startswith(_CORE):
            raise self._refuse(f"has the tag {tree.tag}; tags are not supported", line, path)
        self._open.add(id(tree))
        value = self._mapping(tree, path) if isinstance(tree, yaml.MappingNode) else self._list(tree, path)
        self._open.remove(id(tree))
        return Node(value, self._file, line)

    def _mapping(self, tree: yaml.MappingNode, path: Path) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        for key, value in tree.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse("a key must be a word", line, path)
            name = key.value
            if key.tag == f"{_CORE}merge":
                raise self._refuse("merge keys (<<) are not supported; share settings in defaults.yaml", line, path)
            if name in nodes:
                message = f"key {name!r} a second time (the first is in line {nodes[name].line})"
                raise self._refuse(message, line, (*path, name))
            nodes[name] = self.node(value, line, (*path, name))
        return nodes

    def _list(self, tree: yaml.SequenceNode, path: Path) -> list[Node]:
        return [self.node(item, item.start_mark.line + 1, (*path, i)) for i, item in enumerate(tree.value)]

    def _scalar(self, tree: yaml.ScalarNode, line: int, path: Path) -> str | int | float | bool | None:
        kind = tree.tag.removeprefix(_CORE)
        text: str = tree.value
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in _TRUE
        if kind == "int":
            return int(text) if _INTEGER.fullmatch(text) else text
        if kind == "float":
            return float(text) if _FLOAT.fullmatch(text) else text
        if kind in ("timestamp", "value"):
            return text
        raise self._refuse(f"has the tag {tree.tag}; tags are not supported", line, path)

    def _refuse(self, message: str, line: int, path: Path) -> SpecError:
        return SpecError(message, where=f"{self._file}:{line}", field=dotted(path))


def merge(base: Node, over: Node) -> Node:
    """`over` on top of `base`: mappings merge key by key, everything else replaces."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    value = dict(base.value)
    for key, node in over.value.items():
        value[key] = merge(value[key], node) if key in value else node
    return Node(value, over.file, over.line)
