"""Kinds of sources: how they are found, and what is said in Kafka's folder alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from tidegate import kinds
from tidegate.core.base.errors import SourceError, SpecError
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.batch.jobs import IngestPlan, kind_of
from tidegate.core.doctor.findings import OK, WARNING
from tidegate.core.source.trouble import Trouble, What
from tidegate.core.spec import pipeline
from tidegate.core.spec.compatibility import incompatible
from tidegate.core.spec.pipeline import Pipeline
from tidegate.sources.kafka import KIND, doctor
from tidegate.spec import fingerprint, load_folder, schema
from tidegate.spec.loader import load_text
from tidegate.spec.reference import markdown
from tidegate.spec.section import key
from tidegate.spec.source import SourceSection
from tidegate.spec.values import Text

ROOT = Path(__file__).parents[2]
HOUR = 3_600_000


# ---------------------------------------------------------------- kinds


def test_kafka_is_a_kind_and_an_unknown_one_is_named() -> None:
    assert kinds.source_kind("kafka") is KIND
    with pytest.raises(SourceError, match="no kind of source pulsar; there are: database, kafka") as refused:
        kinds.source_kind("pulsar")
    assert not refused.value.retry


BROUGHT = KIND


def test_a_package_brings_a_kind_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("pulsar", f"{__name__}:BROUGHT", "tidegate.sources")
    monkeypatch.setattr(kinds, "_brought", lambda group: EntryPoints([point]))
    try:
        assert kinds.source_kind("pulsar") is BROUGHT
        assert kinds.SOURCES.names() == ["database", "kafka", "pulsar", "rocketmq"]
    finally:
        kinds.SOURCES.forget()


def test_the_workers_side_needs_neither_airflow_nor_a_database_nor_the_yaml_compiler() -> None:
    """Executors have the worker's libraries only."""
    unwanted = ("airflow", "sqlalchemy", "pydantic", "click", "tidegate.spec", "tidegate.sources.kafka.control")
    code = (
        "import sys\nfrom tidegate.kinds import source_kind\nimport tidegate.sources.kafka.worker\n"
        f"source_kind('kafka')\nprint([m for m in {unwanted} if m in sys.modules], 'confluent_kafka' in sys.modules)"
    )
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[] False", found.stderr


# ---------------------------------------------------------------- the YAML section


FOLDER = ROOT / "tests/fixtures/pipelines"
LAKE = {"LAKE": "file:///lake", "TIDEGATE_LAKE": "/lake"}


class QueueSection(SourceSection):
    """A kind of a package's own."""

    tag: Text | None = key("Only records with this tag.", None)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package brings the kind `queue`."""
    brought = replace(KIND, name="queue", section=lambda: QueueSection)
    monkeypatch.setattr(sys.modules[__name__], "BROUGHT", brought)
    points = EntryPoints([EntryPoint("queue", f"{__name__}:BROUGHT", "tidegate.sources")])
    monkeypatch.setattr(kinds, "_brought", lambda group: points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: brought)
    yield
    kinds.SOURCES.forget()


def loaded(source: str) -> Pipeline:
    text = (FOLDER / "tram_positions.yaml").read_text()
    head, _, rest = text.partition("\nsource:\n")
    kept = rest[rest.index("\nformat:") :] if "\nformat:" in rest else rest[rest.index("\ncolumns:") :]
    return load_text(FOLDER / "tram_positions.yaml", f"{head}\nsource: {source}{kept}", LAKE)


def test_todays_pipelines_keep_their_fingerprints_whether_they_name_the_kind_or_not() -> None:
    """Such as 0.1.0 registered them: another one would make a new version of each pipeline."""
    found = {one.name: fingerprint(one.pipeline) for one in load_folder(FOLDER, LAKE) if one.pipeline}
    assert found == {
        "card_payments": "751eb37a4927f7e855b3f551da8fda5bf7a2fa73dd650c2a5eeb8aed0277c268",
        "tram_positions": "20699a2cf30089696b3109d12dcf6cf3bf802e524fceaea8e2d7ff4b1d348877",
    }
    plain, named = loaded("{topic: trams}"), loaded("{topic: trams, kind: kafka}")
    assert fingerprint(plain) == fingerprint(named)
    assert {"kind", "options"} & to_plain(plain)["source"].keys() == set(), "0.1.0 refuses fields that it does not know"


def test_a_kind_has_keys_of_its_own(queue: None) -> None:
    found = loaded("{kind: queue, conn_id: q, topic: trams, tag: gps, loss_warning: 2h}").source
    assert (found.kind, found.options, found.loss_warning_ms) == ("queue", (("tag", "gps"),), 2 * HOUR)
    assert (found.isolation, found.gaps) == ("read_committed", "forbid")
    plain = to_plain(found)
    assert from_plain(pipeline.Source, plain) == found
    assert loaded("{kind: queue, conn_id: q, topic: trams}").source.options == ()
    with pytest.raises(SpecError, match=r"source\.isolation: unknown key"):
        loaded("{kind: queue, conn_id: q, topic: trams, isolation: read_committed}")
    with pytest.raises(SpecError, match=r"source\.conn_id: is required"):
        loaded("{kind: queue, topic: trams}")
    with pytest.raises(SpecError, match=r"tram_positions\.yaml:\d+: source\.kind: .*there are: database, kafka, queue"):
        loaded("{kind: qeue, topic: trams}")


def test_keys_of_each_kind_of_a_release_are_described(queue: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In docs/pipeline.md and in what editors complete."""
    assert "source.tag" not in markdown()
    monkeypatch.setattr(kinds.SOURCES, "own", {**kinds.SOURCES.own, "queue": f"{__name__}:BROUGHT"})
    row = "| `source.tag` | text or `null` | `null` | Kind `queue` only. Only records with this tag. |\n"
    assert row in markdown()
    assert "tag" in schema()["properties"]["source"]["properties"]


def test_a_pipeline_keeps_its_kind_of_source(queue: None) -> None:
    before = loaded("{topic: trams}")
    after = loaded("{kind: queue, conn_id: kafka_default, topic: trams}")
    assert incompatible(before, after) == ["source.kind was kafka, is queue"]


def test_a_plan_of_an_earlier_release_names_no_kind() -> None:
    pipeline = {"source": {"topic": "t"}}
    plan = IngestPlan(
        attempt="1.1-x", attempt_dir="", pipeline=pipeline, bootstrap={}, topic="t", topic_id="id", parts=(), nonce="x"
    )
    assert kind_of(plan) == "kafka"
    assert kind_of(replace(plan, pipeline={"source": {"kind": "queue"}})) == "queue"


# ---------------------------------------------------------------- Kafka's words


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (
            Trouble(What.EXPIRES, "t"),
            "let Kafka keep them: kafka-configs --bootstrap-server ... --alter --entity-type topics --entity-name t "
            "--add-config retention.ms=...",
        ),
        (
            Trouble(What.EXPIRES, "t", "bytes"),
            "let Kafka keep them: kafka-configs --bootstrap-server ... --alter --entity-type topics --entity-name t "
            "--add-config retention.bytes=...",
        ),
        (Trouble(What.KEEPS_LITTLE, "t"), "let Kafka keep them longer (retention.ms)"),
        (
            Trouble(What.TRANSACTION),
            "`kafka-transactions.sh find-hanging` names it, `abort` ends one whose producer is gone",
        ),
        (
            Trouble(What.YOUNG_TRANSACTION, within="15 min"),
            "producers end their transactions, and Kafka those of a producer that is gone, as a rule within 15 min",
        ),
    ],
)
def test_each_trouble_has_its_remedy(trouble: Trouble, words: str) -> None:
    assert KIND.remedy(trouble) == words


def test_commands_of_kafkas_own_tools_are_named_in_its_folder_alone() -> None:
    tools = ("kafka-configs", "kafka-transactions", "kafka-consumer-groups", "kafka-topics", "DescribeConfigs")
    folder = ROOT / "plugins/tidegate/sources/kafka"
    places = [ROOT / "plugins/tidegate", ROOT / "spark_jobs", ROOT / "dags"]
    files = [p for top in places for kind in ("*.py", "*.html", "*.js") for p in top.rglob(kind)]
    elsewhere = [
        f"{p.relative_to(ROOT)}: {tool}"
        for p in files
        if folder not in p.parents
        for tool in tools
        if tool in p.read_text()
    ]
    assert len(files) > 100
    assert elsewhere == []


# ---------------------------------------------------------------- the doctor


@pytest.mark.parametrize(
    ("retention", "deletes", "level"),
    [
        (49 * HOUR, True, OK),
        (48 * HOUR, True, OK),
        (48 * HOUR - 1, True, WARNING),
        (0, True, WARNING),
        (None, True, OK),
        (HOUR, False, OK),
        (None, False, OK),
        (None, None, WARNING),
        (49 * HOUR, None, WARNING),
    ],
)
def test_a_topic_keeps_records_for_as_long_as_an_outage_may_last(
    retention: int | None, deletes: bool | None, level: str
) -> None:
    found: Any = doctor.topic("p", "t", retention, deletes, 48 * HOUR)
    assert (found.check, found.level, found.about) == ("kafka", level, "p")
    assert "topic t" in found.what
    assert ("DescribeConfigs" in found.mend) == (deletes is None)
    if level == WARNING and deletes:
        assert f"(now {retention:,}) above 172,800,000" in found.mend


def test_how_long_a_topic_keeps_records_is_said_in_hours() -> None:
    assert doctor.topic("p", "t", 90 * 60_000, True, 48 * HOUR).what == "topic t keeps 1.5 h"
