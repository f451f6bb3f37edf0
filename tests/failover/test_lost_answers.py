"""A switch whose answer is lost, or whose command dies: it happened or not, and the same command goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.failover.sites import Copier, TwoSites
from tidegate.core.base.errors import FailoverRefused, LedgerError, LostComparison


class Gone(BaseException):
    """What SIGKILL looks like from inside."""


class Failing:
    """The port `failovers`; the next call of `method` fails before or after it is done."""

    def __init__(self) -> None:
        self.method, self.after, self.error = "", False, LedgerError("connection lost")  # type: ignore[var-annotated]

    def wrap(self, name: str, port: Any) -> Any:
        return _Port(self, port) if name == "failovers" else port


class _Port:
    def __init__(self, failing: Failing, port: Any) -> None:
        self._failing, self._port = failing, port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name) if name != self._failing.method else self._fails(name)

    def _fails(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self._failing.method = ""
            if self._failing.after:
                getattr(self._port, name)(*given)
            raise self._failing.error

        return call


@pytest.fixture
def failing() -> Failing:
    return Failing()


@pytest.fixture
def world(tmp_path: Path, failing: Failing) -> Iterator[TwoSites]:
    made = TwoSites(tmp_path)
    made.wrap = failing.wrap
    yield made
    made.close()


@pytest.mark.parametrize("error", [LedgerError("connection lost"), Gone()], ids=["unknown", "gone"])
@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
def test_a_switch(world: TwoSites, failing: Failing, after: bool, error: BaseException) -> None:
    world.write("oslo", "a", "b")
    world.drain("r1")
    world.write("oslo", "c")
    world.there.run()
    failing.method, failing.after, failing.error = "switch", after, error  # type: ignore[assignment]
    try:
        world.fail_over()
    except (LedgerError, Gone):
        with_it = pytest.raises(FailoverRefused, match="active one already")
        if after:
            with with_it:
                world.fail_over()
        else:
            world.fail_over()
    assert [one.site for one in world.context().ledger.failovers.history("readings")] == ["bergen"]
    world.write("bergen", "d")
    world.drain("r2")
    assert world.rows() == sorted(world.produced)


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
def test_a_note(world: TwoSites, failing: Failing, after: bool) -> None:
    world.write("oslo", "a", "b")
    world.there.run()
    world.drain("r1")
    world.write("oslo", "c")
    certificate = world.fail_over().certificate
    world.drain("r2")
    failing.method, failing.after = "note_ends", after
    with pytest.raises(LedgerError):
        world.note()
    if after:
        with pytest.raises(LostComparison):
            world.note()
    else:
        world.note()
    world.write("bergen", "d")
    world.drain("r3")
    Copier(world.at["bergen"], world.at["oslo"], starts={p: certificate.of(p).mark for p in (0, 1)}).run()
    world.fail_over("oslo")
    world.drain("r4")
    assert world.rows() == sorted(world.produced)
