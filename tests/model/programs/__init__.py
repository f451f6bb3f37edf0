"""Every program by name: a generator of operations that receives their answers."""

from __future__ import annotations

from tests.model.programs import archive, failover, ingest, replay


def _functions(*modules):
    """Return the public functions that these modules define, by name."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    }


PROGRAMS = _functions(ingest, archive, replay, failover)
