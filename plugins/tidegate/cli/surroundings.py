"""Everything a command can reach: the stack's environment, the pipelines folder, the ledger, sources."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.adapters.connections import ConnectionMissing
from tidegate.core.base.errors import TidegateError
from tidegate.settings import Settings, load

if TYPE_CHECKING:
    from tidegate.core.source.port import Source
    from tidegate.core.spec.pipeline import Pipeline
    from tidegate.core.tell.pauses import Pause
    from tidegate.ledger import SqlLedger
    from tidegate.spec import Loaded
    from tidegate.workflow.base.context import Context

STACK_ENV = Path(".tidegate/stack/env")
ENV_FILE = "TIDEGATE_ENV_FILE"


# ---------------------------------------------------------------- the environment


def find_env_file(folder: Path) -> Path | None:
    """The environment of the stack that runs in the checkout around `folder`."""
    for place in (folder, *folder.parents):
        if (place / STACK_ENV).is_file():
            return place / STACK_ENV
    return None


def use_env_file(path: Path) -> list[str]:
    """Set what the environment does not say already. Returns the names that it set. Raises click.UsageError."""
    try:
        lines = path.read_text().splitlines()
    except OSError as e:
        raise click.UsageError(f"{path}: {e.strerror}") from None
    added = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, found, value = line.partition("=")
        if not found:
            raise click.UsageError(f"{path}:{number}: not KEY=VALUE")
        if key not in os.environ:
            os.environ[key] = value
            added.append(key)
    return added


def settings() -> Settings:
    """Tidegate's settings. Raises click.UsageError when airflow.cfg cannot be read."""
    try:
        return load()
    except ValueError as e:
        raise click.UsageError(str(e)) from None


def pipelines_folder() -> Path:
    """The folder by the setting, or that of the checkout around the working directory where it does not exist."""
    folder = settings().pipelines_folder
    if folder.is_dir() or "AIRFLOW__TIDEGATE__PIPELINES_FOLDER" in os.environ:
        return folder
    here = Path.cwd()
    places = (place / "dags/pipelines" for place in (here, *here.parents))
    return next((place for place in places if place.is_dir()), folder)


def actor() -> str:
    """Name in the event log for a command's changes."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        user = str(os.getuid())
    return f"tidegate command, {user}@{socket.gethostname()}"


# ---------------------------------------------------------------- pipelines


def loaded_pipelines(name: str | None = None) -> list[Loaded]:
    """Every YAML of the pipelines folder, or the one of that name. Raises SpecError without such a folder or name."""
    from tidegate.spec import load_folder

    found = [one for one in load_folder(pipelines_folder()) if name in (None, one.name)]
    if name is not None and not found:
        pipeline_named(name)  # says which there are
    return found


def pipeline_named(name: str) -> Pipeline:
    """The pipeline. Raises SpecError for an invalid YAML, click.UsageError for an unknown name."""
    import difflib

    from tidegate.spec import load_file, names

    folder = pipelines_folder()
    known = names(folder)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known) or 'none'}"
        raise click.UsageError(f"no pipeline {name} in {folder}{hint}{_remembered(name)}")
    path = folder / f"{name}.yaml"
    return load_file(path if path.exists() else folder / f"{name}.yml")


def _remembered(name: str) -> str:
    """What to do about one whose YAML is gone; empty if the ledger does not know it, or gives no answer."""
    from tidegate.ledger.health import examine
    from tidegate.wiring import command_lookup, ledger_address

    try:
        examine(ledger_address(command_lookup))  # a look must not make the file of one that is not there
        with ledger() as opened:
            if name not in opened.reads.names():
                return ""
    except TidegateError:
        return ""
    what = f"the ledger knows {name}: its YAML was removed or renamed"
    return f"\n  what to do: {what}; to go on, bring it back as it was called"


def complete_pipeline(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of pipelines for the shell; nothing where they cannot be found."""
    try:
        path = os.environ.get(ENV_FILE) or find_env_file(Path.cwd())
        if path:
            use_env_file(Path(path))
        from tidegate.spec import names

        return [name for name in names(pipelines_folder()) if name.startswith(incomplete)]
    except Exception:  # a completion that fails must not speak
        return []


pipeline_argument: Callable[[Any], Any] = click.argument("pipeline", shell_complete=complete_pipeline)


# ---------------------------------------------------------------- ports


@contextmanager
def ledger() -> Iterator[SqlLedger]:
    """An open ledger. Raises ConnectionMissing; LedgerError at the first call when it does not answer."""
    from tidegate.wiring import command_lookup, open_ledger

    try:
        opened = open_ledger(actor(), command_lookup)
    except ConnectionMissing as e:
        e.advice += "; for a trial on this machine: tidegate stack up"
        raise
    try:
        yield opened  # type: ignore[misc]
    finally:
        opened.close()


def pauses(names: Iterable[str]) -> dict[str, Pause]:
    """Pauses on purpose that are not over; none where the ledger gives no answer, which another check reports."""
    from tidegate.ledger.health import examine
    from tidegate.wiring import command_lookup, ledger_address

    try:
        examine(ledger_address(command_lookup))  # a look must not make the file of one that is not there
        with ledger() as opened:
            found = {name: opened.pauses.standing(name) for name in names}
            now_ms = opened.now_ms()
    except TidegateError:
        return {}
    return {name: pause for name, pause in found.items() if pause is not None and not pause.over(now_ms)}


def source(pipeline: Pipeline, timeout_s: float = 10.0) -> Source:
    """The pipeline's source at its active site; requests end after `timeout_s`. Raises ConnectionMissing, SourceError,
    LedgerError."""
    from tidegate import inspection
    from tidegate.wiring import command_lookup
    from tidegate.workflow.base.columns import at_active_site

    if pipeline.source.sites:
        with ledger() as opened:
            pipeline = at_active_site(pipeline, opened)
    return inspection.source(pipeline, command_lookup, "tidegate-command", timeout_s)


def registry(pipeline: Pipeline) -> dict[str, str]:
    """Address and login of the pipeline's schema registry; empty without one. Raises TidegateError."""
    if pipeline.format.avro is None or pipeline.format.avro.registry_conn_id is None:
        return {}
    from tidegate.wiring import command_lookup, registry_secrets

    return registry_secrets(command_lookup(pipeline.format.avro.registry_conn_id))


def storage_secrets(pipeline: Pipeline) -> dict[str, str]:
    """What child processes need to reach the pipeline's files in an object store. Raises TidegateError."""
    from tidegate import inspection
    from tidegate.wiring import command_lookup

    return inspection.storage_secrets(pipeline, command_lookup)


def context(pipeline: Pipeline, ledger: SqlLedger, say: Callable[[str], None] = lambda line: None) -> Context:
    """A workflow context that registers nothing and connects on first use."""
    from tidegate import inspection
    from tidegate.wiring import command_lookup

    return inspection.context(pipeline, ledger, command_lookup, lambda spec: source(spec, timeout_s=3.0), say)


@contextmanager
def looking(pipeline: Pipeline, say: Callable[[str], None] = lambda line: None) -> Iterator[Context]:
    """The same with a ledger of its own. Raises as `ledger` does."""
    with ledger() as opened:
        yield context(pipeline, opened, say)


@contextmanager
def working(pipeline: Pipeline, say: Callable[[str], None]) -> Iterator[Context]:
    """A context that can run jobs and land batches, like a task's; registers the spec. Raises TidegateError."""
    from tidegate.wiring import command_lookup, context_for

    ctx = context_for(pipeline, say, actor=actor(), lookup=command_lookup)
    try:
        yield ctx
    finally:
        ctx.ledger.close()
