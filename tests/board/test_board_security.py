"""The board against people who may not, forms that were not ours, and text that wants to be markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests import board_app  # isort: skip  (before airflow: it sets its home)

import pytest

from tests.board.test_board_actions import FOUR, form, refused, runs, world
from tests.world import World, record, window
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.spec import fingerprint

__all__ = ["world"]  # a fixture

MARK = "tgx7q"
HOSTILE = f"\"'><script>{MARK}()</script><img src=x onerror={MARK}()>{{{{7*7}}}}{{% raw %}}${{7*7}}\u202egnp.exe&lt;"
VALUES = {
    "pipeline": "readings", "do": "replay", "window": "2013-01-05T00:00Z", "batch": "1", "batch_id": "1", "event": "1",
    "partition": "0", "offset": "0",
}  # fmt: skip
"""What stands for the variables of a route."""
QUERIES = {
    "TidegateActions.confirm": (
        ("replay", f"window={FOUR}"), ("reopen", f"window={FOUR}"), ("rollback", f"window={FOUR}"), ("reset", ""),
        ("replay", ""), ("release", "batch=3"), ("release", "batch=4"),
    ),
}  # fmt: skip


def routes() -> list[Any]:
    """Every rule below /tidegate but the one of the style sheets: a new one is tested without being told."""
    rules = [r for r in board_app.application().url_map.iter_rules() if r.rule.startswith("/tidegate")]
    found = [r for r in rules if r.endpoint != "tidegate.static"]
    assert {"TidegateBoard.index", "TidegateActions.act"} <= {r.endpoint for r in found}
    return found


def address(rule: Any, do: str = "replay") -> str:
    def value(match: re.Match[str]) -> str:
        return do if match[1] == "do" else VALUES[match[1]]

    return re.sub(r"<(?:[^:<>]+:)?([^<>]+)>", value, rule.rule)


def pages(op: Any) -> Iterator[tuple[str, Any]]:
    """Every page that a GET gives."""
    for rule in routes():
        if "GET" in rule.methods:
            for do, query in QUERIES.get(rule.endpoint, (("replay", f"window={FOUR}&partition=0&offset=0"),)):
                at = f"{address(rule, do)}?{query}"
                yield at, op.get(at)


def standing(world: World) -> tuple[Any, ...]:
    ledger = world.context().ledger
    return ledger.reads.newest_event("readings"), ledger.pipelines.row("readings"), len(runs())


def test_nobody_gets_any_page_but_the_login(world: World) -> None:
    before, nobody = standing(world), board_app.client(None)
    for rule in routes():
        for method in sorted(rule.methods - {"OPTIONS"}):
            answer = nobody.open(address(rule), method=method, data={"why": "x", "token": "0" * 16})
            assert answer.status_code == 302, (method, rule)
            assert answer.location.startswith("/login/?next="), (method, rule)
    assert standing(world) == before


LEADS_ON = {"TidegateBoard.run"}
"""From a task's button to the page of its window or batch."""


def test_a_viewer_sees_and_cannot_act(world: World) -> None:
    before, viewer = standing(world), board_app.client("Viewer")
    for rule in routes():
        acting = rule.endpoint in ("TidegateActions.confirm", "TidegateActions.act")
        answer = viewer.open(address(rule), method="POST" if "POST" in rule.methods else "GET", data={"why": "x"})
        assert (answer.status_code == 302) == (acting or rule.endpoint in LEADS_ON), rule
        if acting:
            assert answer.location in ("/tidegate/", "/tidegate")
    told = viewer.get("/tidegate/readings/act/replay", follow_redirects=True).text
    assert "can_edit on Tidegate" in told
    assert standing(world) == before
    assert "/act/" not in viewer.get("/tidegate/readings").text
    assert "/act/" in board_app.client("Op").get("/tidegate/readings").text


def test_only_get_and_post_are_answered(world: World) -> None:
    op = board_app.client("Op")
    for rule in routes():
        for method in ("PUT", "DELETE", "PATCH"):
            assert op.open(address(rule), method=method).status_code == 405
    assert {r.endpoint for r in routes() if "POST" in r.methods} == {"TidegateActions.act"}


def test_looking_changes_nothing(world: World) -> None:
    refused(world)
    before, op = standing(world), board_app.client("Op")
    for at, answer in pages(op):
        assert answer.status_code < 500, at
        assert op.head(at).status_code == answer.status_code, at
    given = f"window={FOUR}&why=x&token={'0' * 16}&seen="
    op.get(f"/tidegate/readings/act/replay?{given}")
    assert standing(world) == before


def test_a_form_without_our_token_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    op, config = board_app.client("Op"), board_app.application().config
    monkeypatch.setitem(config, "WTF_CSRF_ENABLED", True)
    page = op.get(f"/tidegate/readings/act/replay?window={FOUR}")
    sent = form(page) | {"why": "x"}
    before = standing(world)
    for wrong in ({}, {"csrf_token": ""}, {"csrf_token": "x"}, {"csrf_token": sent["csrf_token"][:-2] + "xx"}):
        data = {k: v for k, v in sent.items() if k != "csrf_token"} | wrong
        assert op.post("/tidegate/readings/act/replay", data=data).status_code == 400
    assert standing(world) == before
    assert op.post("/tidegate/readings/act/replay", data=sent).status_code == 303


def test_a_role_that_may_not_edit_the_dag_may_not_act_on_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Teams that share an Airflow have roles by DAG; the board's own permission does not open another team's DAGs."""
    from tidegate.board import runs as airflow_runs

    monkeypatch.setattr(airflow_runs, "may_run", lambda dag_id: dag_id != "readings.replay")
    op, before = board_app.client("Op"), standing(world)
    assert op.get(f"/tidegate/readings/act/replay?window={FOUR}").status_code == 403
    assert op.post(f"/tidegate/readings/act/replay?window={FOUR}", data={"why": "x"}).status_code == 403
    assert op.get("/tidegate/readings/act/reset").status_code == 200  # it concerns the ingest DAG
    assert standing(world) == before


class Parsed(HTMLParser):
    """What a browser would make of a page: names of tags and attributes, scripts, addresses, and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if MARK in name or (name.startswith("on") and MARK in (value or "")):
                self.wrong.append(f"<{tag} {name}={value}>")
            run = "".join((value or "").split()).lower()
            if run.startswith("javascript:") and run != "javascript:void(0)":  # which Airflow's own menu has
                self.wrong.append(f"<{tag} {name}={value}>")
        if MARK in tag or (tag == "img" and dict(attrs).get("src") == "x"):
            self.wrong.append(tag)
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside and MARK in data:
            self.wrong.append(f"in {self._inside[-1]}: {data[:80]}")
        if not self._inside:
            self.words.append(data)


def test_text_that_wants_to_be_markup_is_text(world: World) -> None:
    """Partition values, topic and table, events, reasons, refusals, errors of a YAML: all of it is somebody else's."""
    world.produce(record("h", 0.9, HOSTILE), record("h2", 3.2, HOSTILE))
    world.ingest("readings.ingest/<script>alert(1)")
    ctx = world.context()
    for what in (HOSTILE[:90], "blocked"):
        with ctx.ledger.store.begin() as c:  # type: ignore[attr-defined]
            ctx.ledger.store.note(c, "readings", what, "window 20130105T010000Z", {"why": HOSTILE, HOSTILE: "\0" * 9})  # type: ignore[attr-defined]
    ctx.ledger.windows.block("readings", window(1), HOSTILE)
    refused(world)
    batch = ctx.ledger.batches.open("readings")
    said = f"batch {batch.plan.batch_id}: 9 of 9 records are dirty, over dirty.max_count 0 {HOSTILE}"  # type: ignore[union-attr]
    ctx.ledger.batches.refuse(batch, Refusal(kind=RefusalKind.DIRTY_LIMIT, said=said))  # type: ignore[arg-type]
    folder = world.folder / "pipelines"
    (folder / "broken.yaml").write_text(f"version: 1\nname: broken\n? {HOSTILE!r}\n: {HOSTILE!r}\n")
    hostile = replace(world.pipeline, name="hostile", owner=HOSTILE, description=HOSTILE, tags=(HOSTILE,))
    hostile = replace(hostile, source=replace(hostile.source, topic=HOSTILE), sink=replace(hostile.sink, table=HOSTILE))
    ctx.ledger.pipelines.register(hostile, fingerprint(hostile))

    op, seen = board_app.client("Op"), ""
    for at, answer in pages(op):
        _harmless(at, answer.text)
        seen += html.unescape(answer.text)
    for at in ("/tidegate/hostile", "/tidegate/broken", "/tidegate/readings/events?before=zzz", f"/tidegate/{HOSTILE}",
               "/tidegate/readings/where?partition=%3Cscript%3E&offset=%22%3E", f"/tidegate/?q={html.escape(HOSTILE)}",
               f"/tidegate/readings/act/replay?window={HOSTILE}", f"/tidegate/readings/window/{HOSTILE}"):  # fmt: skip
        answer = op.get(at)
        assert answer.status_code < 500, at
        _harmless(at, answer.text)
    sent = form(op.get(f"/tidegate/readings/act/replay?window={FOUR}")) | {"why": HOSTILE + "x" * 10_000}
    answer = op.post("/tidegate/readings/act/replay", data=sent, follow_redirects=True)
    _harmless("done", answer.text)
    assert f"<script>{MARK}()</script>" in html.unescape(answer.text), "the reason is shown as it was given"
    assert f"<script>{MARK}()</script>" in seen


def _harmless(at: str, text: str) -> None:
    found = Parsed(text)
    assert found.wrong == [], at
    assert "{{7*7}}" in text or MARK not in text or "7*7" in text, f"{at}: a template was evaluated"
    assert not re.search("[\0\u202a-\u202e\u2066-\u2069]", text), f"{at}: text turns or hides what stands beside it"


def test_a_null_in_an_address_is_refused_before_a_ledger_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL's driver raises what nobody expects; SQLite takes it, so that no ledger must be asked here."""
    from tidegate.board import views
    from tidegate.board.reach import Reach

    monkeypatch.setattr(views, "reach", Reach())
    monkeypatch.setattr(Reach, "ledger", lambda self: pytest.fail("the ledger was asked"))
    op = board_app.client("Op")
    for rule in routes():
        whole = address(rule)
        for at in (f"{whole}?subject=x%00", f"{whole}?q=a&q=b%00", f"{whole}?%00", whole.replace("readings", "r%00s")):
            if "%00" in at:
                answer = op.open(at, method="POST" if "POST" in rule.methods else "GET", data={"why": "x"})
                assert (answer.status_code, "no name has" in answer.text) == (400, True), at


def test_no_answer_leads_elsewhere_and_headers_forbid_frames(world: World) -> None:
    op, nobody = board_app.client("Op"), board_app.client(None)
    elsewhere = {"Referer": "https://evil.example/", "X-Forwarded-Host": "evil.example"}
    for rule in routes():
        at = f"{address(rule)}?next=https://evil.example/&url=//evil.example"
        for client in (op, nobody):
            answer = client.get(at, headers=elsewhere)
            assert not re.match(r"(https?:)?//(?!localhost)", answer.location or ""), at
            if client is nobody:
                continue
            assert answer.headers["X-Frame-Options"] in ("SAMEORIGIN", "DENY"), at
            assert answer.headers["X-Content-Type-Options"] == "nosniff", at
            assert answer.headers["Referrer-Policy"] == "same-origin", at
            assert "no-store" in answer.headers["Cache-Control"], at
            assert answer.content_type == "text/html; charset=utf-8", at


def test_an_error_tells_no_secrets(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is away: the page says so, without its address or password."""
    address = "postgresql://ledger:s3cr3t-word@127.0.0.1:1/ledger"
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", address)
    from tidegate.board import views
    from tidegate.board.reach import Reach

    monkeypatch.setattr(views, "reach", Reach())
    for at, answer in pages(board_app.client("Op")):
        assert answer.status_code in (503, 404, 200) or "/-/run" in at, at
        assert "s3cr3t-word" not in answer.text, at
        assert "Traceback" not in answer.text, at
