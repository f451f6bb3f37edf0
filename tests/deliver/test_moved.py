"""The YAML names another table, connection or location: hosts with the YAML of before say nothing of the new place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.deliver.lab import SHOP, Direct, Lab, Server, Staged, Transactional
from tests.world import HOUR, T0, window
from tidegate.core.base.errors import DeliveryRefused, DeliveryUnsure
from tidegate.core.deliver.columns import table_of
from tidegate.core.spec.pipeline import Delivery
from tidegate.workflow.deliver import deliver, ready

OTHER = replace(SHOP, conn_id="pg_new", table="readings_new")


class Two(Lab):
    """Two places; a table that is there is not missing, whether anything was sent to it or not."""

    def __init__(self, folder: Path, kind: type[Any]) -> None:
        super().__init__(folder, kind)
        self.places = {SHOP.place: self.server, OTHER.place: kind.place()}
        self.world.sender = self._to
        self.hours(2)
        assert self.deliver() == ["delivered", "delivered"]

    def _to(self, delivery: Delivery) -> Direct:
        table = table_of(self.pipeline, delivery)
        return Direct(self.kind(self.places[delivery.place], table), table)

    @property
    def there(self) -> Server:
        return self.places[OTHER.place]

    def run(self, one: Delivery, move: str = "") -> list[str]:
        """A run by a host whose YAML has this line."""
        with self.context() as ctx:
            sender = ctx.sender(one)
            ready.prepare(ctx, one, sender, move)
            return [sent.what for sent in deliver.deliver(ctx, one, sender)]


@pytest.fixture(params=[Transactional, Staged])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Two:
    return Two(tmp_path, request.param)


def test_a_table_that_had_been_in_use_gets_all_hours(lab: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.kind, "missing", lambda _: None)
    assert lab.run(OTHER) == ["delivered", "delivered"]
    assert lab.there.ids(T0) == ["0-0", "0-1"]
    assert lab.run(OTHER) == []


@pytest.mark.parametrize("when", ["before it is begun", "before its change", "before it says so"])
def test_a_task_of_before_says_nothing_of_the_new_place(lab: Two, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """It was at an hour when the next host came with the new YAML."""
    monkeypatch.setattr(lab.kind, "missing", lambda _: None)
    with lab.context() as ctx:
        ledger, sender = ctx.ledger.deliveries, ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        ledger.again(ledger.get("readings", "shop", T0), "by hand")
        name = {"before it is begun": "take", "before its change": "holds", "before it says so": "stands"}[when]
        original = getattr(ledger, name)

        def meanwhile(*args: Any) -> Any:
            setattr(ledger, name, original)
            with lab.context() as other:
                ready.prepare(other, OTHER, other.sender(OTHER))
            return original(*args)

        setattr(ledger, name, meanwhile)
        with pytest.raises(DeliveryRefused, match="where it went before"):
            list(deliver.deliver(ctx, SHOP, sender))
    assert [s.split()[0] for s in lab.states()] in (["PENDING", "PENDING"], ["SENDING", "PENDING"])
    assert lab.run(OTHER) == ["delivered", "delivered"]
    assert (lab.there.ids(T0), lab.there.ids(T0 + HOUR)) == (["0-0", "0-1"], ["1-0", "1-1"])


def test_a_task_of_before_ends_at_its_next_hour_and_says_why(lab: Two) -> None:
    with lab.context() as ctx:
        sender = ctx.sender(SHOP)
        ready.prepare(ctx, SHOP, sender)
        assert lab.run(OTHER) == ["delivered", "delivered"]
        with pytest.raises(DeliveryRefused, match="goes to .postgresql pg_new readings_new. since .*, where it went"):
            list(deliver.verify(ctx, SHOP, sender, [window(0)]))


def test_hosts_with_different_yamls_do_not_send_in_turns(lab: Two) -> None:
    assert lab.run(OTHER) == ["delivered", "delivered"]
    with pytest.raises(DeliveryRefused, match="where it went before") as caught:
        lab.run(SHOP)
    assert "bring the newest YAML to this host" in caught.value.advice
    assert "tidegate deliver readings --to shop --move" in caught.value.advice
    assert lab.run(OTHER) == []


def test_back_again_by_a_person(lab: Two) -> None:
    lab.run(OTHER)
    lab.world.replay(0)
    assert lab.run(SHOP, move="the new one is too small") == ["delivered", "delivered"]
    assert lab.run(SHOP) == []
    with pytest.raises(DeliveryRefused, match="where it went before"):
        lab.run(OTHER)


def test_a_place_that_does_not_answer_becomes_none(lab: Two) -> None:
    """It may be a slip in the YAML, which is taken back then."""
    lab.there.down = True
    with pytest.raises(DeliveryRefused, match="did not answer"):
        lab.run(OTHER)
    assert lab.run(SHOP) == []


def test_a_comparison_with_a_place_that_has_nothing_yet_says_so(lab: Two) -> None:
    with lab.context() as ctx, pytest.raises(DeliveryRefused, match="nothing was sent there yet"):
        list(deliver.compare(ctx, OTHER, ctx.sender(OTHER)))


def test_a_change_of_place_whose_answer_is_lost_is_looked_for(lab: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab.context() as ctx:
        ledger, sender = ctx.ledger.deliveries, ctx.sender(OTHER)
        move = ledger.move

        def without_an_answer(*args: Any) -> Any:
            move(*args)
            raise DeliveryUnsure("nobody knows")

        ledger.move = without_an_answer
        with pytest.raises(DeliveryUnsure):
            ready.prepare(ctx, OTHER, sender)
    assert lab.run(OTHER) == ["delivered", "delivered"]
    assert lab.there.ids(T0) == ["0-0", "0-1"]
