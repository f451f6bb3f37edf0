"""Every atomic operation by name, and which of them may lose their answer or stay in flight."""

from __future__ import annotations

from tests.model.operations import batch, catalogue, cleaner, environment, failover, replay, storage, window


def _functions(*modules):
    """Return the public functions that these modules define, by name."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    }


OPS = _functions(batch, window, storage, catalogue, replay, cleaner, environment, failover)
LOSABLE = {
    "plan_commit",
    "b_take",
    "b_seal",
    "b_land",
    "mv",
    "mvf",
    "w_seal",
    "w_close",
    "w_take",
    "w_done",
    "w_pub",
    "r_begin",
    "r_done",
    "alter",
    "add_part",
    "w_pubdir",
}
DELAYABLE = {"mv", "mvf", "alter", "add_part", "rm", "rm_ret"}
