"""The pipelines folder: one YAML file, one pipeline, each on top of `defaults.yaml`.

Nothing else is read but what a `format` names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from tidegate.core.base.errors import SpecError
from tidegate.core.spec.pipeline import Pipeline
from tidegate.kinds import source_kind, target_kind
from tidegate.spec import deliver_rules
from tidegate.spec.compiled import pipeline_of
from tidegate.spec.document import Node, merge, read
from tidegate.spec.expressions import Judge, expression_problems
from tidegate.spec.formats import compile_format
from tidegate.spec.model import PipelineSpec
from tidegate.spec.problems import Problem, spec_error
from tidegate.spec.pydantic_errors import problems
from tidegate.spec.rules import at_first_sight, check
from tidegate.spec.stores import by_store
from tidegate.spec.territory import Territory
from tidegate.spec.variables import plain
from tidegate.spec.windowed import read_by_windows
from tidegate.spec.windowless import completed

SUFFIX, NEAR_SUFFIX, DEFAULTS = ".yaml", ".yml", "defaults.yaml"


@dataclass(frozen=True)
class Loaded:
    """File of the folder: a pipeline, or the error of an invalid one. `text` is the file as it is."""

    name: str
    path: Path
    pipeline: Pipeline | None
    error: SpecError | None
    text: str


def names(folder: str | Path) -> list[str]:
    """Names of the pipelines that the folder's files are meant to be, sorted; nothing is parsed.

    Raises SpecError when there is no such folder."""
    return sorted({path.stem for path in spec_files(Path(folder))})


def load_folder(
    folder: str | Path, environment: Mapping[str, str] = os.environ, judge: Judge | None = None
) -> list[Loaded]:
    """Every file of the folder, sorted by name. A broken file breaks its own pipeline only, a broken `defaults.yaml`
    every one. Without a `judge` expressions are taken as they are.

    Raises SpecError when there is no such folder."""
    folder = Path(folder)
    return without_clashes(load_files(folder, spec_files(folder), environment, judge))


def load_files(
    folder: Path, files: Iterable[Path], environment: Mapping[str, str] = os.environ, judge: Judge | None = None
) -> list[Loaded]:
    """Some files of the folder, each by itself: `without_clashes` holds them against each other."""
    try:
        defaults: Node | SpecError | None = _defaults(folder)
    except SpecError as e:
        defaults = e
    return [_loaded(path, defaults, environment, judge) for path in files]


def load_file(path: str | Path, environment: Mapping[str, str] = os.environ, judge: Judge | None = None) -> Pipeline:
    """The pipeline in `path`, on top of the `defaults.yaml` beside it. Raises SpecError: file, line, field."""
    path = Path(path)
    return _pipeline(path, _read(path), _defaults(path.parent), environment, judge)


def load_text(path: str | Path, text: str, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """The pipeline that `path` would be with this content. Raises SpecError."""
    path = Path(path)
    return _pipeline(path, text, _defaults(path.parent), environment, None)


def spec_files(folder: Path) -> list[Path]:
    """Files that are meant to be pipelines, sorted. Raises SpecError when there is no such folder."""
    if not folder.is_dir():
        raise SpecError("there is no such pipelines folder", where=str(folder))
    entries = (Path(e.path) for e in os.scandir(folder) if e.name != DEFAULTS and not e.name.startswith("."))
    return sorted((path for path in entries if path.suffix in (SUFFIX, NEAR_SUFFIX)), key=lambda p: (p.stem, p.suffix))


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as e:
        raise SpecError(f"cannot be read: {e.strerror}", where=str(path)) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        raise SpecError("is not UTF-8 text", where=f"{path}:{line}") from None


def _defaults(folder: Path) -> Node | None:
    path = folder / DEFAULTS
    if not path.exists():
        return None
    root = read(_read(path), str(path))
    if "name" in root.value:
        raise SpecError("belongs to one pipeline, not to all", where=root.value["name"].place, field="name")
    return root


def _pipeline(
    path: Path, text: str, defaults: Node | None, environment: Mapping[str, str], judge: Judge | None
) -> Pipeline:
    if path.suffix != SUFFIX:
        raise SpecError(f"the file's name must end in {SUFFIX}", where=str(path))
    own = read(text, str(path))
    root = merge(defaults, own) if defaults else own
    value, found = plain(root, environment)
    if found:
        raise spec_error(root, found)
    value, misnamed = by_store(value)
    value, found = completed(value, own.value)
    value, more = read_by_windows(value, own.value)
    found += misnamed + more
    try:
        spec = PipelineSpec.model_validate(value)
    except ValidationError as e:
        raise spec_error(root, [*found, *problems(e, value), *at_first_sight(value)]) from None
    found += [*check(spec, path.stem), *deliver_rules.check(spec)]
    if found:
        raise spec_error(root, found)
    message_format, found = compile_format(spec, path.parent)
    if found:
        raise spec_error(root, found)
    pipeline = pipeline_of(spec, message_format)
    found = [Problem(path, what) for path, what in target_kind(pipeline.sink.kind).problems(pipeline)]
    found += [Problem(path, what) for path, what in source_kind(pipeline.source.kind).problems(pipeline)]
    found += deliver_rules.problems(pipeline)
    found += expression_problems(pipeline, judge) if judge is not None else []
    if found:
        raise spec_error(root, found)
    return pipeline


def _loaded(
    path: Path, defaults: Node | SpecError | None, environment: Mapping[str, str], judge: Judge | None
) -> Loaded:
    text = ""
    try:
        text = _read(path)
        if isinstance(defaults, SpecError):
            raise defaults
        return Loaded(path.stem, path, _pipeline(path, text, defaults, environment, judge), None, text)
    except SpecError as e:
        return Loaded(path.stem, path, None, e, text)


def without_clashes(loaded: list[Loaded]) -> list[Loaded]:
    """Refuse the second of two pipelines that write the same table, or into each other's directories."""
    territory, result = Territory(), []
    for one in loaded:
        problem = territory.claim(one.pipeline) if one.pipeline else None
        error = spec_error(read(one.text, str(one.path)), [problem]) if problem else one.error
        result.append(replace(one, pipeline=None, error=error) if problem else one)
    return result
