"""Environment variables in a pipeline's YAML: `${VAR}` and `${VAR:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegate.spec.document import Node, Path
from tidegate.spec.problems import Problem

_VARIABLE = re.compile(r"\$?\$\{([^}]*)\}?")
_VARIABLE_BODY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def plain(root: Node, environment: Mapping[str, str]) -> tuple[Any, list[Problem]]:
    """Plain values with `${VAR}` and `${VAR:-default}` replaced in strings, and problems with variables."""
    problems: list[Problem] = []

    def text(value: str, path: Path) -> str:
        def one(match: re.Match[str]) -> str:
            if match.group().startswith("$$"):  # $${ is a literal ${
                return match.group()[1:]
            body = _VARIABLE_BODY.fullmatch(match[1])
            if not body or not match.group().endswith("}"):
                problems.append(Problem(path, f"{match.group()} is not ${{NAME}} or ${{NAME:-default}}"))
                return ""
            found = environment.get(body[1]) or body[2]  # as in a shell, :- also stands in for an empty variable
            if found is None and body[1] not in environment:
                message = f"the environment variable {body[1]} is not set; set it, or write ${{{body[1]}:-default}}"
                problems.append(Problem(path, message))
            return found or ""

        return _VARIABLE.sub(one, value)

    def walk(node: Node, path: Path) -> Any:
        value = node.value
        if isinstance(value, dict):
            return {key: walk(child, (*path, key)) for key, child in value.items()}
        if isinstance(value, list):
            return [walk(child, (*path, i)) for i, child in enumerate(value)]
        return text(value, path) if isinstance(value, str) and "${" in value else value

    return walk(root, ()), problems
