"""Rewriting the assertions of all tests takes longer than all else that a run does before its first test. So each
worker does a share of it, and reads what the others did; the next run reads all."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.assertion import rewrite

SHARES = 3
"""As many as workers, usually: what no worker compiles as its share, it compiles when it imports it."""


def compile_share(config: pytest.Config, number: int) -> None:
    """Compile the tests of a worker's share as pytest does when it imports them, unless that was done before."""
    paths = sorted(path for name in config.args if Path(name).is_dir() for path in Path(name).rglob("*.py"))
    for path in paths[number % SHARES :: SHARES]:
        source, cache = path.resolve(), rewrite.get_cache_dir(path.resolve())
        compiled = cache / (path.name.removesuffix(".py") + rewrite.PYC_TAIL)
        if rewrite._read_pyc(source, compiled) is None and rewrite.try_makedirs(cache):
            digest, code = rewrite._rewrite_test(source, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, compiled)
