"""What `tidegate doctor` says of a connector that brings a mirror's events: whether it runs, and settings under which a
mirror says less than it could, or too much."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.doctor.findings import WARNING, WRONG, Finding

_CHECK, _CAUSE = "connector", "Caused by: "


@dataclass(frozen=True, kw_only=True)
class ConnectorState:
    """As Kafka Connect tells it. `parts`: (who, state, why) of the connector and each of its tasks; `why` is empty
    unless it has failed. `settings`: its configuration."""

    name: str
    parts: Sequence[tuple[str, str, str]]
    settings: Mapping[str, str]


def connector(pipeline: str, state: ConnectorState, table: str = "") -> list[Finding]:
    """What is wrong with it. `table`: the only one that the mirror shows, `schema.name`."""
    return [*_parts(pipeline, state), *_captured(pipeline, state, table), *_settings(pipeline, state)]


def _parts(pipeline: str, state: ConnectorState) -> Iterator[Finding]:
    means = "no event comes, and the mirror stays as it is"
    if len(state.parts) < 2:
        mend = "look at the workers of Kafka Connect"
        yield Finding(_CHECK, WRONG, f"connector {state.name} has no task", means, mend, pipeline)
    for who, what, why in state.parts:
        said = f"{who} of {state.name} is {what}"
        if what == "FAILED":
            mend = f"fix what it says, then: POST /connectors/{state.name}/restart?includeTasks=true&onlyFailed=true"
            mend += "; if its place in the source's log is gone: reset its offsets, then tidegate copy --again, for "
            mend += "what has changed in between never comes"
            yield Finding(_CHECK, WRONG, f"{said}: {_reason(why)}", means, mend, pipeline)
        elif what != "RUNNING":
            mend = f"PUT /connectors/{state.name}/resume, if nobody wants it so"
            yield Finding(_CHECK, WARNING, said, means, mend, pipeline)


def _reason(trace: str) -> str:
    """The first line, which says what stopped, and the last cause, which says why."""
    lines = [line.strip() for line in trace.strip().splitlines()] or ["it does not say why"]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return "; ".join([lines[0], *causes[-1:]])


def _captured(pipeline: str, state: ConnectorState, table: str) -> Iterator[Finding]:
    """What never comes, as Debezium's settings have it."""
    for setting in _leaving_out(state.settings, table) if table else ():
        means, mend = "no change of it comes", f"correct {setting}, then tidegate copy --again"
        yield Finding(_CHECK, WRONG, f"connector {state.name} leaves {table} out ({setting})", means, mend, pipeline)
    for code, which in (("c", "inserts"), ("u", "updates"), ("d", "deletes")):
        if code in _skipped(state):
            means = f"the mirror never meets the source's {which}"
            mend = "take it out of skipped.operations, then tidegate copy --again"
            yield Finding(_CHECK, WRONG, f"connector {state.name} leaves {which} out", means, mend, pipeline)
    if changed := sorted(key for key in state.settings if key.startswith(_OF_COLUMNS)):
        means = "events of a row have other values than a copy of it, and each comparison finds that"
        mend = "take the setting out, if it is about a column of this mirror"
        what = f"connector {state.name} changes or leaves out columns ({', '.join(changed)})"
        yield Finding(_CHECK, WARNING, what, means, mend, pipeline)


_OF_COLUMNS = ("column.include", "column.exclude", "column.mask", "column.truncate")


def _leaving_out(settings: Mapping[str, str], table: str) -> Iterator[str]:
    """Lists of regular expressions, each of which has to match all of a name, in any case."""
    for what, name in (("table", table), ("database", table.partition(".")[0]), ("schema", table.partition(".")[0])):
        for kind, wanted in (("include", True), ("exclude", False)):
            told = settings.get(f"{what}.{kind}.list", "").strip()
            if told and _listed(told, name) is (not wanted):
                yield f"{what}.{kind}.list"


def _listed(told: str, name: str) -> bool | None:
    """None: an expression that only Java understands."""
    try:
        return any(re.fullmatch(each.strip(), name, re.IGNORECASE) for each in re.split(r"(?<!\\),", told))
    except re.error:
        return None


def _skipped(state: ConnectorState) -> list[str]:
    return [each.strip() for each in state.settings.get("skipped.operations", "t").split(",")]


def _settings(pipeline: str, state: ConnectorState) -> Iterator[Finding]:
    if "t" in _skipped(state):
        means = "rows of a table that was truncated stay, under a time since when nothing is older"
        mend = "skipped.operations: none makes a dirty record of it; or tidegate copy --again after each"
        yield Finding(_CHECK, WARNING, f"connector {state.name} leaves TRUNCATE out", means, mend, pipeline)
    beats = state.settings.get("heartbeat.interval.ms", "0").strip()
    if not beats.isdigit() or not int(beats):
        means = "while no table of it changes it notes no place, and the mirror seems to age"
        mend = "heartbeat.interval.ms: 10000"
        yield Finding(_CHECK, WARNING, f"connector {state.name} has no heartbeat", means, mend, pipeline)
