"""SQL expressions, checked by a child process that has DuckDB; what it said once is not asked again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.core.base.errors import TidegateError
from tidegate.core.base.plain import dumps, to_plain
from tidegate.core.spec.pipeline import Pipeline

if TYPE_CHECKING:
    from tidegate.adapters.child import Child

_RULES = ("handlers/expressions.py", "engine/expressions.py", "engine/expression_rules.py")


def available() -> bool:
    """Whether DuckDB is installed here; nothing is imported."""
    return util.find_spec("duckdb") is not None


def cache_folder() -> Path:
    """Where answers are kept: `TIDEGATE_CACHE`, or the user's own cache folder."""
    own = os.environ.get("TIDEGATE_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"


class ExpressionChecker:
    """A `spec.expressions.Judge`. The child starts at the first question that the cache cannot answer.

    Raises TidegateError when there is no answer to be had."""

    def __init__(self, cache: Path | None = None, python: str = sys.executable) -> None:
        self._cache = (cache or cache_folder()) / "expressions"
        self._python = python
        self._child: Child | None = None
        self._version: str | None = None
        self.asked = 0

    def __call__(self, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
        path = self._cache / self._key(pipeline)
        found = _read(path)
        if found is None:
            self.asked += 1
            found = self._ask(pipeline)
            _keep(path, found)
        return ((name, message) for name, message in found)

    def _ask(self, pipeline: Pipeline) -> list[tuple[str, str]]:
        if self._child is None:
            from tidegate.adapters.child import Child  # most pipelines have no expressions, and no need of it

            advice = "install tidegate[worker] (duckdb, pyarrow) beside this command"
            self._child = Child("expressions", advice, self._python, work="checking expressions")
        answer = self._child.one({"pipeline": to_plain(pipeline)})
        return [(name, message) for name, message in answer["problems"]]

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def __enter__(self) -> ExpressionChecker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _key(self, pipeline: Pipeline) -> str:
        if self._version is None:
            from tidegate.adapters.worker_code import land_application

            folder = land_application().parent
            self._version = metadata.version("duckdb") + "".join(_digest((folder / f).read_bytes()) for f in _RULES)
        return _digest(f"{self._version}\n{dumps(pipeline.columns)}\n{dumps(pipeline.where)}".encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> list[tuple[str, str]] | None:
    try:
        found = json.loads(path.read_text())
        return [(str(name), str(message)) for name, message in found]
    except (OSError, ValueError, TypeError):
        return None


def _keep(path: Path, found: Any) -> None:
    """A cache that cannot be written is left out: the next process asks again."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:
            json.dump(found, draft)
        os.replace(draft.name, path)
    except OSError:
        return


class Lenient:
    """A judge for who must not fail: without an answer no pipeline is blamed; its worker decides."""

    def __init__(self, checker: ExpressionChecker) -> None:
        self._checker: ExpressionChecker | None = checker

    def __call__(self, pipeline: Pipeline) -> list[tuple[str, str]]:
        if self._checker is None:
            return []
        try:
            return list(self._checker(pipeline))
        except (TidegateError, OSError, metadata.PackageNotFoundError):
            self._checker = None
            return []
