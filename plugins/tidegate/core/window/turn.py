"""Windows that are built on the one before (`Windows.follows`) wait until that one is published, and until the source's
table has been read as a whole (`Windows.copied`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.core.base.instants import iso
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_from, window_start
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey


def before(key: WindowKey, windows: Windows) -> WindowKey | None:
    """The window that this one is built on; None where it is built on none, as the first one of the schedule."""
    if not windows.follows or key.start_ms <= window_start(windows.start_ms, windows):
        return None
    return window_from(window_start(key.start_ms - 1, windows), windows)


UNCOPIED = "the first full copy of the source's table is not whole yet"
"""Why a day waits: what is in the table without it lacks rows (S9')."""


def in_turn(
    certificate: Certificate,
    windows: Windows,
    published: Callable[[WindowKey], bool],
    copied: Callable[[], bool] = lambda: True,
) -> Certificate:
    """The certificate of a window that its watermark lets close, held while the window before has nothing in force, or
    no copy of the source's table is whole (`copied`); one that is published itself is never held.

    What has been published once stays so, and what is whole: an answer of `published` or `copied` may be old."""
    if certificate.ready and windows.copied and not copied() and not published(certificate.window):
        return replace(certificate, ready=False, reason=UNCOPIED)
    key = certificate.window
    ground = before(key, windows) if certificate.ready else None
    if ground is None or published(ground) or published(key):
        return certificate
    return replace(certificate, ready=False, reason=words(ground), after=ground)


def words(ground: WindowKey) -> str:
    """Why a window waits for the one before."""
    return f"follows from {iso(ground.start_ms)}, which is not published yet"
