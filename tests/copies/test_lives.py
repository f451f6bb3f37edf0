"""Random lives of a mirror that is copied while its source changes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.copies import servers_lives, wide_lives
from tests.copies.lives import live
from tests.copies.places_lives import PlaceLife
from tests.copies.wide_lives import WideLife

LIVES, WIDE, OF_SERVERS = 6, 2, 2


def test_lives_of_a_copied_mirror(tmp_path: Path, rng: random.Random) -> None:
    for n in range(LIVES):
        seed = rng.randrange(2**32)
        folder = tmp_path / str(n)
        folder.mkdir()
        try:
            live(folder, seed)
        except Exception as e:
            pytest.fail(f"life {seed}: {type(e).__name__}: {e}")


@pytest.mark.parametrize("kind", [WideLife, PlaceLife])
def test_lives_with_cuts_purges_and_comparisons(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch, kind: type[WideLife]
) -> None:
    """Of connectors that lose their place, too."""
    for n in range(WIDE):
        seed = rng.randrange(2**32)
        folder = tmp_path / str(n)
        folder.mkdir()
        try:
            wide_lives.live(folder, seed, monkeypatch, kind)
        except Exception as e:
            pytest.fail(f"life {seed}: {type(e).__name__}: {e}")


@pytest.mark.parametrize("many", [2, 3])
def test_lives_of_a_mirror_of_several_servers(tmp_path: Path, rng: random.Random, many: int) -> None:
    for n in range(OF_SERVERS):
        seed = rng.randrange(2**32)
        folder = tmp_path / str(n)
        folder.mkdir()
        try:
            servers_lives.live(folder, seed, many)
        except Exception as e:
            pytest.fail(f"life {seed}: {type(e).__name__}: {e}")
