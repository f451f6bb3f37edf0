"""pyiceberg, which only hosts with Iceberg pipelines have: whether it is here, and how to install it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.core.base.errors import CatalogueError

RELEASE = "0.12"
WHERE = "on every host of Airflow, and where the command tidegate runs"
INSTALL = f"pip install 'pyiceberg=={RELEASE}.*' {WHERE} (Tidegate's extra `iceberg`, docs/install.md)"
POSTGRES = f"pip install psycopg2-binary {WHERE} (Tidegate's extra `postgres`, docs/install.md)"


@contextmanager
def needed() -> Iterator[None]:
    """Around imports. Raises CatalogueError that says what to install."""
    try:
        yield
    except ModuleNotFoundError as e:
        postgres = "psycopg2" in str(e)
        package, advice = ("psycopg2", POSTGRES) if postgres else ("pyiceberg", INSTALL)
        raise CatalogueError(
            f"the Python package {package} is not installed here: {e}", advice=advice, retry=False
        ) from e


def other_release() -> str:
    """The release that is installed, if Tidegate is made for another one; otherwise empty."""
    try:
        found = importlib.metadata.version("pyiceberg")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return "" if found.startswith(f"{RELEASE}.") else found
