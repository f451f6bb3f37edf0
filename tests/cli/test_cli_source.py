"""`tidegate source rewind` and `skip`: after a log was cut, in words an operator confirms."""

from __future__ import annotations

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.cli.test_cli_status import words
from tests.world import TOPIC, World, record

__all__ = ["tide", "world"]  # fixtures


def test_the_commands_say_what_they_do(tide: Tide, world: World) -> None:
    assert "no log was cut" in tide("source", "rewind", "readings").output
    end = plan_end(world)
    world.kafka.truncate(TOPIC, 0, end - 2)
    world.produce(*[record(f"new{i}", 3.6) for i in range(5)])
    for reason in ((), ("--why", "  ")):  # blanks are no reason
        shown = tide("source", "rewind", "readings", *reason)
        assert (shown.exit_code, "--why is needed" in shown.output) == (2, True)
    listed = tide("repair", "readings")
    assert (listed.exit_code, "tidegate source skip readings" in words(listed)) == (1, True)
    status = words(tide("status", "readings"))
    assert "partition 0 is blocked: partition 0: the log was cut" in status
    assert "tidegate source rewind readings" in status
    done = tide("source", "skip", "readings", "--why", "sent again", input="y\n")
    assert done.exit_code == 0, done.output
    assert f"offsets [{end - 2}, {end}) are recorded as lost" in words(done)
    event = the_json(tide("events", "readings", "-n", "1", "--json"))["events"][0]
    assert (event["what"], event["detail"]["why"]) == ("skipped", "sent again")
    world.ingest("r9")
    assert the_json(tide("audit", "readings", "--json", "-q"))["lost"] == 2


def plan_end(world: World) -> int:
    return world.context().ledger.batches.planning_view("readings").planned_ends[0]
