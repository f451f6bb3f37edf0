"""How a job says that it cannot go on: one exception that carries what `failure.json` will hold."""

from __future__ import annotations

from tidegate.core.files.receipt import Failure
from tidegate.core.spec.pipeline import Column


class JobError(Exception):
    """Raised anywhere in a job; `failure.retry` says whether the next try can succeed without a human."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what)
        self.failure = failure

    def __reduce__(self) -> tuple[type[JobError], tuple[Failure]]:
        return JobError, (self.failure,)


def refuse(
    what: str,
    *,
    advice: str = "",
    partition: int | None = None,
    offset: int | None = None,
    field: str | None = None,
    retry: bool = False,
    kind: str | None = None,
    columns: tuple[Column, ...] = (),
) -> JobError:
    """A JobError that a human has to look at, unless `retry`."""
    return JobError(Failure(what, advice, partition, offset, field, retry, kind, columns))
