"""Place of the worker's code on this machine, and the path that a process needs to import it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from tidegate.core.base.errors import JobFailed


def land_application() -> Path:
    """Path of `land.py`: installed with the wheel, or beside `plugins/` in a checkout. Raises JobFailed."""
    spec = importlib.util.find_spec("spark_jobs")
    folders = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    folders.append(Path(__file__).resolve().parents[3] / "spark_jobs")
    for folder in folders:
        if (folder / "land.py").is_file():
            return folder / "land.py"
    raise JobFailed(
        "spark_jobs/land.py is neither installed nor beside the plugins folder",
        advice="install the tidegate wheel on this worker, or put spark_jobs/ beside plugins/",
        retry=False,
    )


def import_path() -> dict[str, str]:
    """PYTHONPATH of a process that imports Tidegate where it is a plugins folder, not an installed wheel."""
    own = [str(Path(__file__).resolve().parents[2]), str(land_application().parent.parent)]
    path = [*own, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, path)))}
