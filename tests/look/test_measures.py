"""What is measured, in Prometheus' text format, and what it costs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, event, insert, select

from tests.cli.test_cli_commands import add_yaml, write_env
from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.look.measures import COUNTER, FAMILIES, GAUGE, SUMMARY, Measure, broken, exposition
from tidegate.ledger.schema import metadata
from tidegate.spec import load_file
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.measures import measure_all
from tidegate.workflow.publish import archive

NAME = "readings"
Sample = tuple[str, frozenset[tuple[str, str]]]


def parsed(text: str) -> dict[Sample, float]:
    """A strict reader of the text format 0.0.4: each family in one piece, help and type first, no sample twice."""
    found: dict[Sample, float] = {}
    types: dict[str, str] = {}
    current = ""
    assert text.endswith("\n") or not text
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current, _, words = line[7:].partition(" ")
            assert current not in types, "a family is printed in one piece"
            assert words
            assert not re.search(r"\\[^\\n]", words)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == current
            assert kind in (GAUGE, COUNTER, SUMMARY)
            types[name] = kind
        else:
            match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", line)
            assert match, line
            assert match[1] in samples_of(current, types[current])
            assert (types[current] == COUNTER) == current.endswith("_total")
            key = (match[1], frozenset(labels(match[2] or "")))
            assert key not in found
            found[key] = float(match[3])
    return found


def samples_of(family: str, kind: str) -> tuple[str, ...]:
    return (f"{family}_sum", f"{family}_count") if kind == SUMMARY else (family,)


def labels(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)').match(text, at)
        assert match, text[at:]
        plain = re.sub(r'\\([\\"n])', lambda m: "\n" if m[1] == "n" else m[1], match[2])
        yield match[1], plain
        at = match.end()


def test_names_follow_the_conventions() -> None:
    for name, (kind, text) in FAMILIES.items():
        assert re.fullmatch(r"tidegate_[a-z]+(_[a-z]+)*", name)
        assert (kind == COUNTER) == name.endswith("_total")
        assert "_ms" not in name
        assert text.endswith(".")


def test_the_page_names_every_measure_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    rows = {name: kind for name, kind in re.findall(r"^\| `(tidegate_\w+)`[^|]*\| (\w+)", page, re.MULTILINE)}
    assert rows == {name: kind for name, (kind, _) in FAMILIES.items()}


def test_the_text_format(rng) -> None:
    odd = ["plain", 'qu"ote', "back\\slash", "new\nline", "\\n", 'a",b="c', "", "ü", "}"]
    values = [0, 1, -1, 0.5, 1e21, 12345678901234, float("inf"), float("-inf"), 1 / 3]
    names = [name for family, (kind, _) in FAMILIES.items() for name in samples_of(family, kind)]
    given = [
        Measure(name, (("pipeline", pipeline), ("fate", rng.choice(odd))), rng.choice(values))
        for name in rng.sample(names, 9)
        for pipeline in odd
    ]
    rng.shuffle(given)
    text = "".join(f"{line}\n" for line in exposition(given))
    assert parsed(text) == {(m.name, frozenset(m.labels)): m.value for m in given}
    assert list(exposition([])) == []
    assert list(exposition([Measure("tidegate_held", (), float("nan"))]))[-1] == "tidegate_held NaN"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hours 0 and 1 can be published, hour 0 is; two late rows, one dirty; two records wait."""
    add_yaml(tmp_path, NAME)
    made = World(tmp_path, load_file(tmp_path / "pipelines/readings.yaml"))
    made.kafka.create(TOPIC, 2, retention_ms=None)
    made.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    made.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    made.ingest("readings.ingest/r1")
    made.archive(0)
    made.clock.advance(HOUR)
    made.produce(record("late", 0.7), record("late too", 0.8), record("e0", 3.6))
    made.ingest("readings.ingest/r2")
    made.produce(record("f0", 3.7), record("g0", 3.8))
    made.clock.advance(HOUR)
    write_env(tmp_path, made.database)
    yield made
    made.close()


def measured(world: World, kafka: bool = True) -> dict[tuple[str, str], float]:
    ctx = world.context()
    topics = {NAME: world.kafka.look(TOPIC)} if kafka else {}
    found = measure_all([world.pipeline], topics, ctx.ledger.reads, world.clock.now_ms())
    return {(m.name, dict(m.labels).get("fate", "")): m.value for m in found}


def value(found: dict[tuple[str, str], float], name: str, fate: str = "") -> float | None:
    return found.get((f"tidegate_{name}", fate))


def test_what_a_pipeline_measures(world: World) -> None:
    found = measured(world)
    assert value(found, "records_read_total") == 9
    fates = {fate: value(found, "records_total", fate) for fate in ("data", "late", "dirty", "filtered", "dropped")}
    assert fates == {"data": 6, "late": 2, "dirty": 1, "filtered": 0, "dropped": 0}
    sizes = sum(len(r.value or b"") for p in (0, 1) for r in world.kafka.records(TOPIC, p))
    waiting = sum(len(json.dumps(record(name, at))) for name, at in (("f0", 3.7), ("g0", 3.8)))
    assert value(found, "read_bytes_total") == sizes - waiting
    assert value(found, "lag_records") == 2
    assert (value(found, "dirty_records"), value(found, "unaccounted_records")) == (1, 0)
    assert (value(found, "held"), value(found, "lost_offsets_total")) == (0, 0)
    assert value(found, "landed_age_seconds") == 3600
    assert value(found, "open_batch_age_seconds") is None
    now = world.clock.now_ms()
    assert value(found, "watermark_delay_seconds") == (now - (T0 + int(2.6 * HOUR))) / 1000
    assert value(found, "windows_due") == 1
    assert value(found, "oldest_due_age_seconds") == 2 * 3600, "since its batch landed"
    assert (value(found, "windows_published"), value(found, "rows_published")) == (1, 2)
    assert value(found, "publish_delay_seconds") == (now - 2 * HOUR - window(0).end_ms) / 1000
    assert value(found, "time_to_loss_seconds") is None
    assert value(found, "loss_level") == 0
    assert (value(found, "spec_ok"), value(found, "kafka_ok")) == (1, 1)
    assert value(found, "lag_seconds") > 0
    assert value(found, "notices_waiting") == 0
    assert value(found, "audit_problems") is None


def test_steps_take_what_the_clock_says(world: World) -> None:
    world.produce(record("h0", 3.9))
    ctx = world.context()
    ingest.plan(ctx, "readings.ingest/r3")
    world.clock.advance(5_000)
    ingest.write(world.context(), "readings.ingest/r3")
    world.clock.advance(7_000)
    ingest.land(world.context(), "readings.ingest/r3")
    ctx = world.context()
    found = measure_all([world.pipeline], {}, ctx.ledger.reads, world.clock.now_ms())
    took = {(m.name[14:], dict(m.labels).get("step")): m.value for m in found if "_seconds_" in m.name}
    assert (took["seconds_sum", "start"], took["seconds_sum", "land"]) == (5, 7)
    assert [took["seconds_count", step] for step in ("plan", "start", "write", "job", "land")] == [3] * 5
    assert [took["seconds_count", step] for step in ("ready", "assemble", "publish")] == [1] * 3
    delay = world.clock.now_ms() - 12_000 - 2 * HOUR - window(0).end_ms
    assert {m.name: m.value for m in found if m.name.startswith("tidegate_publication_")} == {
        "tidegate_publication_seconds_sum": delay / 1000, "tidegate_publication_seconds_count": 1,
    }  # fmt: skip


def test_what_happens_next_moves_the_measures(world: World) -> None:
    world.archive(1)
    ctx = world.context()
    ingest.plan(ctx, "readings.ingest/r3")
    world.clock.advance(60_000)
    found = measured(world)
    assert (value(found, "windows_due"), value(found, "oldest_due_age_seconds")) == (0, None)
    assert value(found, "open_batch_age_seconds") == 60
    assert value(found, "lag_records") == 2, "what is planned is not read yet"
    ctx.ledger.windows.block(NAME, window(1), "odd")
    assert value(measured(world), "held") == 1
    archive_again = archive.publish(world.context(), window(1))
    assert not archive_again.new
    assert value(measured(world), "windows_published") == 2


def test_without_an_answer_of_kafka_its_measures_are_left_out(world: World) -> None:
    found = measured(world, kafka=False)
    assert value(found, "kafka_ok") == 0
    assert {"lag_records", "loss_level", "time_to_loss_seconds"} & {name[9:] for name, _ in found} == set()
    assert value(found, "records_read_total") == 9


def test_a_pipeline_that_no_run_has_registered(world: World) -> None:
    stranger = World(world.folder / "other") if (world.folder / "other").mkdir() is None else world
    reads = stranger.context().ledger.reads
    found = measure_all([load_file(world.folder / "pipelines/readings.yaml")], {}, reads, 0)
    assert [m.name for m in found][:2] == ["tidegate_spec_ok", "tidegate_kafka_ok"]
    stranger.close()
    assert broken("x").value == 0


def copies(world: World, count: int) -> list[str]:
    """The pipeline's rows again under other names."""
    world.close()
    names = [f"copy_{i:04}" for i in range(count)]
    engine = create_engine(f"sqlite:///{world.database}")
    with engine.begin() as c:
        for table in metadata.sorted_tables:
            column = "name" if table.name == "pipelines" else "pipeline"
            if column not in table.c or table.name in ("events", "intents"):
                continue
            rows = [dict(row) for row in c.execute(select(table)).mappings()]
            for name in names if rows else ():
                c.execute(insert(table), [row | {column: name} for row in rows])
    engine.dispose()
    return names


def test_a_thousand_pipelines_cost_as_many_statements_as_one(world: World) -> None:
    from dataclasses import replace

    names = copies(world, 1_000)
    pipelines = [replace(world.pipeline, name=name) for name in names]
    ctx = world.context()
    seen: list[str] = []
    engine = ctx.ledger.reads._store.engine
    event.listen(engine, "before_cursor_execute", lambda *a: seen.append(a[2]))
    now = world.clock.now_ms()
    topic = world.kafka.look(TOPIC)
    costs = []
    for some in (pipelines[:1], pipelines):
        seen.clear()
        found = measure_all(some, {one.name: topic for one in some}, ctx.ledger.reads, now)
        costs.append(len([s for s in seen if not s.startswith(("BEGIN", "PRAGMA"))]))
        assert {m.labels[0][1] for m in found} == {one.name for one in some}
        mine = {(m.name, m.labels[1:]): m.value for m in found if m.labels[0][1] == some[-1].name}
        assert mine[("tidegate_records_read_total", ())] == 9
        assert mine[("tidegate_windows_due", ())] == 1
    assert costs[0] == costs[1] <= 29, costs


# ---------------------------------------------------------------- the command


@pytest.fixture
def tide(world: World, monkeypatch: pytest.MonkeyPatch):
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(surroundings, "source", lambda pipeline, timeout_s=1.0: world.kafka)

    def run(*arguments: str) -> Result:
        world.close()
        return CliRunner().invoke(main, arguments)

    return run


def test_the_command_prints_every_pipeline(tide, world: World) -> None:
    add_yaml(world.folder, "young")
    add_yaml(world.folder, "wrong", zone="Mars/Olympus")
    result = tide("metrics")
    assert result.exit_code == 0, result.output
    found = parsed(result.stdout)

    def of(name: str, pipeline: str) -> float | None:
        return found.get((f"tidegate_{name}", frozenset({("pipeline", pipeline)})))

    assert of("records_read_total", NAME) == 9
    assert of("lag_records", NAME) == 2
    assert [of("spec_ok", name) for name in (NAME, "young", "wrong")] == [1, 1, 0]
    assert of("records_read_total", "young") is None
    alone = parsed(tide("metrics", "--pipeline", NAME, "--no-kafka").stdout)
    assert {dict(pairs)["pipeline"] for _, pairs in alone} == {NAME}
    assert alone[("tidegate_kafka_ok", frozenset({("pipeline", NAME)}))] == 0
    world.kafka.unavailable = True
    assert tide("metrics").exit_code == 0
    assert tide("metrics", "--pipeline", "reading").exit_code == 2


def test_the_command_refuses_an_address_that_is_none_and_one_that_is_taken(tide) -> None:
    import socket

    wrong = tide("metrics", "--listen", "nowhere")
    assert wrong.exit_code == 2
    assert "must be a port" in wrong.output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = tide("metrics", "--listen", str(taken.getsockname()[1]))
    assert result.exit_code == 3, result.output
    assert "cannot listen on 127.0.0.1" in result.output


def test_the_command_answers_prometheus(tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is ended; a YAML that is new is seen, a ledger that is away is said."""
    import urllib.error
    import urllib.request

    from tidegate.adapters import scrape

    asked: list[object] = []

    def get(url: str) -> str:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.read().decode()

    def serve(self: scrape.Server) -> None:
        import threading

        url = f"http://127.0.0.1:{self.server_port}/metrics"
        thread = threading.Thread(target=super(scrape.Server, self).serve_forever, args=(0.02,), daemon=True)
        thread.start()
        asked.append(get(url))
        add_yaml(world.folder, "young")
        asked.append(get(url))
        (world.folder / "ledger.db").rename(world.folder / "away.db")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            get(url)
        self.shutdown()
        thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(scrape, "KEEP_S", 0.0)
    monkeypatch.setattr(scrape.Kept.__init__, "__defaults__", (0.0, *scrape.Kept.__init__.__defaults__[1:]))
    monkeypatch.setattr(scrape.Server, "serve_forever", serve)
    result = tide("metrics", "--listen", "0")
    assert result.exit_code == 0, result.output
    assert "listening: http://127.0.0.1:" in result.output
    first, second = (parsed(str(text)) for text in asked)
    assert first[("tidegate_records_read_total", frozenset({("pipeline", NAME)}))] == 9
    assert ("tidegate_spec_ok", frozenset({("pipeline", "young")})) not in first
    assert second[("tidegate_spec_ok", frozenset({("pipeline", "young")}))] == 1
