"""The board's place in Airflow: its menu entry, who gets in, and what is said when the ledger is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import board_app  # first: it sets Airflow's home
from tests.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    found = World(tmp_path)
    found.context()
    (tmp_path / "pipelines").mkdir()
    board_app.use(monkeypatch, found.database, tmp_path / "pipelines")
    return found


@pytest.mark.parametrize("role", ["Viewer", "User", "Op", "Admin"])
def test_who_has_a_role_of_airflows_sees_the_pipelines(world: World, role: str) -> None:
    answer = board_app.client(role).get("/tidegate/")
    assert answer.status_code == 200
    assert "readings" in answer.text


def test_nobody_gets_the_login_page(world: World) -> None:
    answer = board_app.client(None).get("/tidegate/")
    assert answer.status_code == 302
    assert answer.location.startswith("/login/?next=")


def test_a_role_without_the_permission_is_sent_away(world: World) -> None:
    answer = board_app.client("Public").get("/tidegate/")
    assert answer.status_code in (302, 403)
    assert "readings" not in answer.text


def test_the_menu_names_the_board_to_those_who_may_see_it(world: World) -> None:
    assert 'href="/tidegate/"' in board_app.client("Viewer").get("/home").text
    assert 'href="/tidegate/"' not in board_app.client("Public").get("/home").text


def test_a_ledger_that_is_away_is_said_in_words(world: World) -> None:
    world.database.unlink()
    world.database.mkdir()
    answer = board_app.client().get("/tidegate/")
    assert answer.status_code == 503
    assert "the ledger does not answer" in answer.text
