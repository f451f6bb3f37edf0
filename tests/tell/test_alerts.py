"""The alert rules and the dashboard: they parse, ask for what is measured, and each alert fires when it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as ast
import pytest
import yaml

from tests.promql import Alert, Series, World
from tidegate.cli.main import main
from tidegate.core.look.measures import COUNTER, FAMILIES, SUMMARY, family_of

DOCKER = Path(__file__).resolve().parents[2] / "docker"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DOCKER / "prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PLAYED: list[dict[str, Any]] = yaml.safe_load((DOCKER / "prometheus/alerts_test.yml").read_text())["tests"]
DASHBOARD: dict[str, Any] = json.loads((DOCKER / "grafana/dashboards/tidegate.json").read_text())
PANELS = [p for p in DASHBOARD["panels"] if p["type"] != "row"]
LABELS = {"pipeline", "fate", "step", "dag"}


def nodes(expression: Any) -> Iterator[Any]:
    yield expression
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if hasattr(expression, name):
            yield from nodes(getattr(expression, name))
    for argument in getattr(expression, "args", ()):
        yield from nodes(argument)


def parsed(text: str) -> Any:
    """As Grafana sends it."""
    for variable, value in (("$__rate_interval", "1m"), ("$pipeline", ".*")):
        text = text.replace(variable, value)
    assert "$" not in text
    return ast.parse(text)


def asked(text: str) -> list[Any]:
    return [n for n in nodes(parsed(text)) if isinstance(n, ast.VectorSelector)]


# ---------------------------------------------------------------- alerts


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r["alert"])
def test_a_rule(rule: dict[str, Any]) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Tidegate[A-Z]\w+", rule["alert"])
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    assert set(rule["annotations"]) == {"summary", "what_to_do", "command"}
    assert "for" not in rule or ast.parse_duration(rule["for"])
    assert asked(rule["expr"])
    only_what_is_measured(rule["expr"])
    if "absent" not in rule["expr"]:
        assert "{{ $labels.pipeline }}" in rule["annotations"]["summary"]
    command = rule["annotations"]["command"].split()
    if command[0] == "tidegate":
        found: Any = main
        for word in command[1:]:
            if not hasattr(found, "get_command"):
                break
            found = found.get_command(None, word)  # type: ignore[arg-type]
            assert found is not None, f"there is no command {' '.join(command)}"


def only_what_is_measured(expression: str) -> None:
    """Names, labels, and that what is counted is asked for its growth only."""
    tree = parsed(expression)
    growth = [n for n in nodes(tree) if isinstance(n, ast.Call) and n.func.name in ("rate", "increase")]
    counted = {n.args[0].vector_selector.name for n in growth}
    for selector in (n for n in nodes(tree) if isinstance(n, ast.VectorSelector)):
        kind, _ = FAMILIES[family_of(selector.name)]
        assert (kind in (COUNTER, SUMMARY)) == (selector.name in counted), selector.name
        assert {m.name for m in selector.matchers.matchers} <= LABELS


def test_names_are_given_once() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    assert {one["name"] for one in PLAYED} == {f"{r['alert']} {w}" for r in RULES for w in ("fires", "is quiet")}


@pytest.mark.parametrize("played", PLAYED, ids=lambda one: one["name"])
def test_when_it_fires(played: dict[str, Any]) -> None:
    """By an evaluator of our own; the same file is what promtool plays."""
    world = World([Series.written(one["series"], one["values"], 60.0) for one in played["input_series"]])
    (check,) = played["promql_expr_test"]
    name = re.search(r'alertname="(\w+)"', check["expr"])
    assert name
    (rule,) = (r for r in RULES if r["alert"] == name[1])
    upto = ast.parse_duration(check["eval_time"]).total_seconds()
    expected = {frozenset(m) for s in check["exp_samples"] if (m := labels_of(s["labels"]))}
    assert Alert(rule).firing(world, upto, 60.0) == expected


def labels_of(series: str) -> set[tuple[str, str]]:
    found = ((m.name, m.value) for m in ast.parse(series).matchers.matchers)
    return {pair for pair in found if not pair[0].startswith("alert")}


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: our own evaluator plays the tests"
)
@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("check rules", "alerts.yml"),
        ("test rules", "alerts_test.yml"),
        ("check config --syntax-only", "prometheus.yml"),
    ],
)
def test_promtool_agrees(words: str, file: str) -> None:
    done = subprocess.run(
        ["promtool", *words.split(), file], cwd=DOCKER / "prometheus", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


# ---------------------------------------------------------------- the dashboard


def test_the_dashboard_as_grafana_reads_it() -> None:
    ids = [p["id"] for p in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert (DASHBOARD["uid"], DASHBOARD["schemaVersion"]) == ("tidegate", 39)
    source, pipeline = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert pipeline["query"]["query"] == pipeline["definition"] == "label_values(tidegate_spec_ok, pipeline)"
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["type"] in ("timeseries", "stat")
        assert [t["refId"] for t in panel["targets"]] == ["A", "B", "C"][: len(panel["targets"])]
        assert all(t["datasource"] == panel["datasource"] for t in panel["targets"])
        for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]:
            assert step["value"] is not None
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None
    assert "__inputs" not in DASHBOARD, "it is provisioned as it is"
    assert "id" not in DASHBOARD, "Grafana gives it one"


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


@pytest.mark.parametrize("panel", PANELS, ids=lambda p: p["title"])
def test_a_panel_asks_for_what_is_measured(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        only_what_is_measured(target["expr"])
        for selector in asked(target["expr"]):
            assert "pipeline" in {m.name for m in selector.matchers.matchers}, "the choice of pipelines counts"


def test_every_family_is_on_the_dashboard_or_in_an_alert() -> None:
    texts = [t["expr"] for p in PANELS for t in p["targets"]] + [r["expr"] for r in RULES]
    seen = {family_of(selector.name) for text in texts for selector in asked(text)}
    assert set(FAMILIES) - seen == {"tidegate_windows_published", "tidegate_publish_delay_seconds"}


def test_what_starts_them() -> None:
    config = yaml.safe_load((DOCKER / "prometheus/prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    services = yaml.safe_load((DOCKER.parent / "docker-compose.yml").read_text())["services"]
    host, port = job["static_configs"][0]["targets"][0].split(":")
    assert services[host]["command"] == ["metrics", "--listen", f"0.0.0.0:{port}"]
    mounts = dict(m.split(":")[:2] for m in services["prometheus"]["volumes"] + services["grafana"]["volumes"])
    assert mounts["./docker/prometheus"] == "/etc/prometheus"
    assert config["rule_files"] == ["/etc/prometheus/alerts.yml"]
    provider = yaml.safe_load((DOCKER / "grafana/provisioning/dashboards/tidegate.yml").read_text())
    assert provider["providers"][0]["options"]["path"] == mounts["./docker/grafana/dashboards"]
    assert mounts["./docker/grafana/provisioning"] == "/etc/grafana/provisioning"
    (source,) = yaml.safe_load((DOCKER / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert {services[s]["profiles"][0] for s in (host, "prometheus", "grafana")} == {"monitoring"}
