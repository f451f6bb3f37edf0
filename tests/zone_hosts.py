"""Hosts with other zone data: by `new` clocks of `Test/Cairo` go forward on 28 April 2023, by `old` they never do."""

from __future__ import annotations

import shutil
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from tidegate.core.base import zones
from tidegate.core.window import zonedata

ZONE = "Test/Cairo"
_LIKE = {"old": "Africa/Tripoli", "new": "Africa/Cairo"}
"""Cairo as it was has Tripoli's offset: two hours ahead of UTC, without summer time."""


class Hosts:
    """`zone_data(name)`: this process reads the zone data `old` or `new`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, zoneinfo.TZPATH
        for name, like in _LIKE.items():
            home = folder / name / "Test"
            home.mkdir(parents=True)
            shutil.copy(_source(like), home / "Cairo")
            (folder / name / "tzdata.zi").write_text(f"# version {name}\n")
        self._now = ""

    def use(self, name: str) -> None:
        self._set([str(self._folder / name), *self._path], name)

    def back(self) -> None:
        self._set(list(self._path), "")

    def _set(self, path: list[str], name: str) -> None:
        zoneinfo.reset_tzpath(path)
        zoneinfo.ZoneInfo.clear_cache()
        for cached in (zones.times_that_go_back, zonedata._changes, zonedata.version_of):
            cached.cache_clear()
        self._now = name

    @contextmanager
    def zone_data(self, name: str) -> Iterator[None]:
        before = self._now
        self.use(name)
        try:
            yield
        finally:
            self.use(before) if before else self.back()

    def worker(self, name: str, launcher: Any) -> Any:
        """A launcher whose jobs run on a host with these zone data."""
        return _Elsewhere(self, name, launcher)


class _Elsewhere:
    def __init__(self, hosts: Hosts, name: str, launcher: Any) -> None:
        self._hosts, self._name, self._launcher = hosts, name, launcher

    def run(self, plan_path: str) -> None:
        with self._hosts.zone_data(self._name):
            self._launcher.run(plan_path)


def _source(key: str) -> Path:
    for folder in zoneinfo.TZPATH:
        if (Path(folder) / key).is_file():
            return Path(folder) / key
    return Path(str(resources.files("tzdata") / "zoneinfo" / key))
