"""A connector that loses its place (`copy_place.py`): rule S12."""

from __future__ import annotations

from tests.model.copy_place import build

SCENARIOS = {
    "place-purged": (
        {"writes": 2},
        {
            "the oldest log is compared with the newest place alone": {"compared": "own"},
            "the oldest log is asked before the place": {"asked": "before"},
            "the look that finds it at a new place is as any other": {"again": False},
            "a look forgets what those before it have found": {"carried": False},
            "any copy counts that becomes whole later": {"cures": "whole"},
        },
    ),
    "place-forgotten": (
        {"forgets": "seen", "writes": 2},
        {
            "a connector without a place says nothing": {"none": False},
            "the look that finds it at a new place is as any other": {"again": False},
        },
    ),
    "place-compared": (
        {"compares": True, "contents": 2, "writes": 2},
        {"a comparison counts while events wait in the topic": {"waits": False}},
    ),
    "place-taken-back": (
        {"compares": True, "backs": True, "writes": 2, "looks": 1},
        {"a comparison counts whatever the table has lost of its batches": {"batches": False}},
    ),
    "place-mended": (
        {"compares": True, "backs": True, "mends": True, "writes": 2, "looks": 1},
        {"a comparison counts whatever the table has lost of copies": {"chunks": False}},
    ),
    "place-renamed": (
        {"forgets": "renamed", "writes": 2},
        {"a connector of another name goes on where the other one was": {"names": False}},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
