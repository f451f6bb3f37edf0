"""Planning at another site, over stretches of copies, after a cut of the log; what a plan pins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR
from test_core_planning import NOW, SPEC, VIEW, planned, topic

from tidegate.core.base.errors import LogCut, SiteNotActive, SourceError, TopicRecreated
from tidegate.core.base.offsets import Interval
from tidegate.core.batch.planning import OF_A_SITE, plan_batch, refuse_other_site
from tidegate.core.batch.states import Loss
from tidegate.core.source.log_cut import REASON, RECREATED, Cut
from tidegate.core.source.port import ALL, Lane
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.source import Site
from tidegate.core.window.plausibility import horizon_ms
from tidegate.core.window.zonedata import pinned


def at_site(site: str) -> Pipeline:
    """Reads at that site; the empty one: names no sites."""
    sites = (Site(name=site, conn_id=SPEC.source.conn_id), Site(name="elsewhere", conn_id="other")) if site else ()
    return replace(SPEC, source=replace(SPEC.source, sites=sites))


@pytest.mark.parametrize(
    ("here", "active", "says"),
    [
        ("", None, None),
        ("oslo", None, None),
        ("oslo", "oslo", None),
        ("oslo", "bergen", "site bergen is active, this task reads at site oslo"),
        ("", "bergen", "site bergen is active, this YAML names no sites (source.sites)"),
    ],
)
def test_f4_nothing_is_planned_at_a_site_that_is_not_active(here: str, active: str | None, says: str | None) -> None:
    if says is None:
        refuse_other_site(at_site(here), active)
        assert planned(topic((0, 15, 15), (3, 30, 40)), replace(VIEW, site=active), at_site(here)).ranges
        return
    for refused in (
        lambda: refuse_other_site(at_site(here), active),
        lambda: planned(topic((0, 15, 15)), replace(VIEW, site=active), at_site(here)),
    ):
        with pytest.raises(SiteNotActive) as said:
            refused()
        assert str(said.value).startswith(f"flights: {says}: nothing is planned or sealed here")


def test_f1_f6_stretches_of_copies_are_never_read() -> None:
    """A range ends where one begins, and the next one goes on behind it; retention may end within one."""
    state = topic((0, 50, 50), (0, 30, 30))
    stretches = {0: (Interval(10, 13), Interval(20, 22)), 1: (Interval(0, 2),)}
    plan = planned(state, replace(VIEW, stretches=stretches))
    assert [(r.partition, r.start, r.end) for r in plan.ranges] == [(0, 13, 20), (1, 20, 30)]
    kept = replace(SPEC, source=replace(SPEC.source, on_data_loss="record"))
    late = planned(topic((21, 50, 50), (0, 30, 30)), replace(VIEW, stretches=stretches), kept)
    assert late.losses == (Loss(0, 13, 22, "retention"),)
    assert late.partitions[0].start == 22


def test_what_was_given_up_after_a_cut_is_a_loss_of_the_next_batch() -> None:
    view = replace(VIEW, skipped={1: Interval(17, 20), 0: Interval(8, 10)})
    plan = planned(topic((0, 10, 10), (0, 20, 20)), view)
    assert (plan.ranges, plan.losses) == ((), (Loss(0, 8, 10, REASON), Loss(1, 17, 20, REASON)))


@pytest.mark.parametrize("identity", [True, False])
def test_an_undecided_cut_stops_planning(identity: bool) -> None:
    state = replace(topic((0, 15, 15)), traits=replace(ALL, identity=identity))
    cuts = (Cut(0, "id", 7, 12, 15, 5), Cut(1, "id", 7, 2, 5))
    with pytest.raises(LogCut) as said:
        planned(state, replace(VIEW, cuts=cuts))
    assert str(said.value).startswith(f"{cuts[0].words()}; {cuts[1].words()}")
    advice = LogCut.advice if identity else f"{LogCut.advice}; {RECREATED}"
    assert said.value.advice == advice.replace("<pipeline>", "flights")


def test_topics_that_cannot_be_read_on() -> None:
    for site, advice in (("", TopicRecreated.advice), ("oslo", OF_A_SITE)):
        with pytest.raises(TopicRecreated) as said:
            planned(topic((0, 15, 15), topic_id="new"), VIEW, at_site(site))
        assert said.value.advice == advice
    with pytest.raises(SourceError, match="an offset of topic flights may hold several records") as odd:
        planned(replace(topic((0, 15, 15)), traits=replace(ALL, dense=False)))
    assert odd.value.advice == "this release reads sources whose offsets hold one record at most"


def test_a_plan_pins_the_leaders_and_the_zone() -> None:
    berlin = replace(SPEC, windows=replace(SPEC.windows, timezone="Europe/Berlin"))
    lanes = {0: Lane(0, 15, 15, 4), 1: Lane(0, 30, 30, None)}
    plan = plan_batch(berlin, 3, VIEW, replace(topic((0, 15, 15)), partitions=lanes), {}, NOW)
    assert [p.leader_epoch for p in plan.partitions] == [4, None]  # type: ignore[union-attr]
    assert plan.zone == pinned(berlin.windows, horizon_ms(berlin.event_time, NOW))  # type: ignore[union-attr]
    assert plan.zone is not None  # type: ignore[union-attr]
    assert plan.zone.last_ms > NOW - HOUR  # type: ignore[union-attr]
