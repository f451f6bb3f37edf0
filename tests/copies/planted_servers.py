"""Bugs in what is of one server alone, where a mirror has several (S11): `test_planted.py` names what finds each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.copies.planted import _a_part_too, _bug, _of_all_keys
from tests.mutants import seams
from tests.mutants.planting import always, nothing
from tidegate.core.mirror.jobs import START
from tidegate.core.mirror.parts import KeyPart


def _of_all_servers(original, key, everywhere, parts):
    return original(key, everywhere, [replace(one, part=KeyPart((), (), ())) for one in parts])


def _of_any_server(original, self, number, server=""):
    return max((one.top for one in self.rounds if one.number < number), default=START)


def _of_any_servers_copy(original, self, server):
    return self.newest


def _whatever_the_server(original, self, server):
    return self


def _marked_all_the_same(original, plan, open_storage):
    return original(replace(plan, held=()), open_storage)


def _of_the_first_server(original, found):
    told = original(found)
    return told and replace(told, servers=tuple((name, told.servers[0][1]) for name, _ in told.servers))


def _at_the_newest_time(original, found):
    told = original(found)
    return told and replace(told, at_ms=max(one.at_ms for one in found.values()))


def _by_the_greatest(original, shape, rows, below):
    return original(shape, rows, max(log.purged_below for log in shape.servers.logs))


def _the_greatest(original, self, rows):
    return max(log.purged_below for log in self.servers.logs)


def _one_for_all(original, plan, open_storage):
    after = original(plan, open_storage)
    most = max(log.purged_below for log in after.servers.logs) if plan.settled else START
    logs = tuple(replace(log, purged_below=max(most, log.purged_below)) for log in after.servers.logs)
    return replace(after, servers=replace(after.servers, logs=logs))


def _with_the_first(original, ctx, table, upto, server="", cured=None):
    return original(ctx, table, upto, next(iter(ctx.connectors)))


def _of_all_rows(original, plan, shape, bucket):
    return original(replace(plan, part=None), shape, bucket)


def _of_any(original, ctx, server, keys=None):
    return keys or original(ctx, server)


def _by_any_clock(original, shape, events):
    found = original(shape, events)
    return np.full(len(found), max(log.newest_ms for log in shape.servers.logs), np.int64)


def _of_those_named(original, before, names, said):
    return tuple(log for log in original(before, names, said) if not log.gone)


def _though_dropped(original, rounds, server):
    return [one for one in rounds if one.server == server]


SERVER_BUGS = {
    bug.name: bug
    for bug in (
        _bug("a sweep is of all servers", "S5", (seams.MIRROR_SWEPT, _of_all_keys)),
        _bug("a marker is of all servers", "S5", (seams.MIRROR_SWEPT_BELOW, _of_all_servers)),
        _bug("LOW is compared with copies of other servers", "S5", (seams.COPY_FLOOR, _of_any_server)),
        _bug("copies of all servers come in one order", "S6", (seams.COPY_NEWEST_OF, _of_any_servers_copy)),
        _bug(
            "tombstones go while a copy of their server is under way",
            "S7",
            (seams.MIRROR_LIMITED, _marked_all_the_same),
        ),
        _bug("any server's event shows where the topic begins", "S4", (seams.COPY_OF_SERVER, _whatever_the_server)),
        _bug("whole once one server is", "S11", (seams.COPY_WHOLE, _a_part_too)),
        _bug("events of any server are taken", "S11", (seams.EVENT_OF_TABLE, nothing)),
        _bug("the first server's position is told of all", "S9'", (seams.COPY_OF_ALL, _of_the_first_server)),
        _bug("the newest time of all servers is told", "S9'", (seams.COPY_OF_ALL, _at_the_newest_time)),
        _bug(
            "a comparison has caught up by the first server's log", "S9'", (seams.COPY_CAUGHT_UP_WITH, _with_the_first)
        ),
        _bug("a comparison with one server takes rows of all", "S11", (seams.COPY_HELD, _of_all_rows)),
        _bug("some keys of a server are those of all", "S5", (seams.COPY_OF_PART, _of_any)),
        _bug("some keys make a server whole", "S11", (seams.COPY_IS_ALL, always(True))),
        _bug("the marker of one server purges rows of the other", "M5", (seams.MIRROR_GOING, _by_the_greatest)),
        _bug(
            "the marker of one server keeps out events of the other", "M5", (seams.MIRROR_PURGED_BELOW, _the_greatest)
        ),
        _bug("a purge sets one marker for all servers", "M5", (seams.MIRROR_LIMITED, _one_for_all)),
        _bug("a purge is forgotten with its server's line", "M5", (seams.MIRROR_LOGS_AFTER, _of_those_named)),
        _bug("what has dropped a server's rows is a copy of it", "S11", (seams.COPY_OF_ONE, _though_dropped)),
        _bug("a server without rows is waited for", "S9'", (seams.COPY_IS_DROPPED, always(False))),
        _bug("a comparison sees no purge", "S7", (seams.COPY_REFUSE_PURGED, nothing)),
        _bug("a purge does not wait for a copy", "S7", (seams.MIRROR_IS_COPIED, always(frozenset()))),
        _bug("positions go back by any server's clock", "M8", (seams.MIRROR_NEWEST_MERGED, _by_any_clock)),
    )
}
