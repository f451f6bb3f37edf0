"""A few small scenarios of the model: the whole protocol keeps every promise, and a rule taken out breaks one.

`make model` explores all of them.
"""

from __future__ import annotations

import pytest

from tests.model.scenarios import SCENARIOS, run

SMALL = ("seal-vs-plan", "vanished-partition", "late-add", "open-batch-new-spec", "rollback-batch", "rollback-landing")
# taken out alone, these rules break nothing that the scenario can show
HARMLESS = {("seal-vs-plan", "seal=tx (safe, starves)")}


@pytest.mark.parametrize("name", SMALL)
def test_the_whole_protocol_keeps_every_promise(name: str) -> None:
    result = run(name, seconds=60)
    assert (result.verdict, result.what) == ("ok", "")


@pytest.mark.parametrize(("name", "label"), [(n, f) for n in SMALL for f in SCENARIOS[n][1] if (n, f) not in HARMLESS])
def test_a_rule_taken_out_breaks_a_promise(name: str, label: str) -> None:
    assert run(name, label, seconds=60).verdict == "VIOLATION"
