"""What a call is named in a report: the port, the method, and on what, without the names that chance gives."""

from __future__ import annotations

import re
from typing import Any

from tests.world import T0
from tidegate.core.batch.states import Plan
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_id
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.targets.hive.ports import TableDef
from tidegate.targets.iceberg.catalogue import Loaded

_CHANCE = (
    (re.compile(r"^(file://.*?/|s3://)lake/readings/"), ""),
    (re.compile(r"metadata/.*?-(m\d+\.avro)$"), r"metadata/*-\1"),  # an Iceberg table's own files
    (re.compile(r"metadata/snap-.*$"), "metadata/snap-*"),
    (re.compile(r"metadata/\d+-.*\.metadata\.json$"), "metadata/*.json"),
    (re.compile(r"\d+-[0-9a-f]{8}"), "*"),  # epoch and nonce
    (re.compile(r"(T\d{6}Z\.\d+)\.\d+"), r"\1.*"),  # a generation's epoch
    (re.compile(r"(g\d+)\.\d+-part"), r"\1.*-part"),
    (re.compile(r"dry-[0-9a-f]{8}\.[0-9a-f]{8}"), "dry"),
    (re.compile(r"-[0-9a-f]{8}$"), "-*"),
    (re.compile(r"_tidegate/"), ""),
    (re.compile(r"20130105T(\d\d)0000Z"), r"w\1"),
    (re.compile(r"date=2013-01-05/hour="), "hour="),
)

_TOLD = {
    "batches.insert_plan": 1,
    "pipelines.pin": 1,
    "windows.take": 3,
    "windows.publish": 2,
    "source.remember": 3,
    "recovery.restore": 2,
}
"""How many arguments say what is called on what; the others are versions, epochs and marks."""


def site_of(port: str, method: str, args: tuple[Any, ...]) -> str:
    """`storage.rename_no_replace(tmp/1.*, landed/1)`"""
    words = (_word(a) for a in args[: _TOLD.get(f"{port}.{method}")])
    return f"{port}.{method}({', '.join(w for w in words if w)})"


def _word(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool | bytes) or callable(value):
        return ""
    if isinstance(value, int):
        return str(value) if value < 1000 else ""
    if isinstance(value, WindowKey):
        return f"w{(value.start_ms - T0) // 3_600_000:02d}"
    if isinstance(value, Plan):
        return f"batch {value.batch_id}"
    if isinstance(value, Certificate):
        return f"{_word(value.window)} {'ready' if value.ready else 'waits'}"
    if isinstance(value, Loaded):
        return value.name
    if isinstance(value, TableDef):
        return value.name
    if isinstance(value, Pipeline):
        return value.name
    if isinstance(value, dict | list):
        return f"{len(value)}"
    if hasattr(value, "plan"):
        return f"batch {value.plan.batch_id}"
    if hasattr(value, "number") and hasattr(value, "window"):
        return f"{window_id(value.window.start_ms)[9:11]} g{value.number}"
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "/".join(f"{c}={v}" for c, v in value[1:])
    return ""


_TRIES = (
    (re.compile(r"hwm/published/[\d-]+/"), "hwm/published/"),
    (re.compile(r"(w\d\d)\.\d+\."), r"\1.*."),
    (re.compile(r"/m\d+-"), "/m*-"),
    (re.compile(r"/part-\d+-\d+-\d+"), "/part-*"),  # windows read together count their files together
)


def without_chance(path: str) -> str:
    """The path without its location, and without the names that chance gives."""
    for pattern, instead in _CHANCE:
        path = pattern.sub(instead, path)
    return path


def without_tries(path: str) -> str:
    """Likewise without what says how many tries it took: a generation's number, a merge's, the day of a record,
    a file's number within its task."""
    path = without_chance(path)
    for pattern, instead in _TRIES:
        path = pattern.sub(instead, path)
    return path


def _text(text: str) -> str:
    text = without_chance(text)
    if len(text) > 60 or re.fullmatch(r"[0-9a-f]{8,}|readings", text):  # nonces, call ids, reasons
        return ""
    return text
