"""Bugs in what is told of a connector that has lost its place (S12): `test_places.py` names what finds each."""

from __future__ import annotations

from dataclasses import replace

from tests.copies.planted import _bug
from tests.mutants import seams
from tests.mutants.planting import always


def _this_look_alone(original, last, told, now, reader):
    return original(None, now.position, now, reader)


def _unless_it_is_back(original, last, told, now, reader):
    back = last is not None and last.gap and now.position >= now.log_begin
    return "" if back else original(last, told, now, reader)


def _whoever_it_is(original, last, told, now, reader):
    return original(last, told, now, reader if last is None else last.reader)


def _of_no_loss(original, self, name, look):
    return original(self, name, replace(look, gap=0))


def _of_any_batches(original, self, table):
    return original(self, replace(table, upto=2**31))


def _all(original, looks, cured):
    return list(looks)


PLACE_BUGS = {
    one.name: one
    for one in (
        _bug("the log's begin is compared with the newest place alone", "S12", (seams.COPY_LOST, _this_look_alone)),
        _bug("a connector of another name goes on where that was", "S12", (seams.COPY_LOST, _whoever_it_is)),
        _bug("a look forgets what those before it have found", "S12", (seams.COPY_LOOKED, _of_no_loss)),
        _bug("every look counts", "S12", (seams.COPY_COUNTING, _all)),
        _bug("a comparison counts whatever was taken back of batches", "S12", (seams.COPY_AS_OF, _of_any_batches)),
        _bug("a comparison counts whatever was taken back of copies", "S12", (seams.COPY_HAS, always(True))),
        _bug("a copy counts that was under way", "S12", (seams.COPY_NEWEST, always(1))),
        _bug("the look that finds it at another place is as any other", "S12", (seams.COPY_LOST, _unless_it_is_back)),
    )
}
