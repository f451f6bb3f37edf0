"""Commands about pipelines' YAML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli import surroundings
from tidegate.cli.failures import WELL, WRONG
from tidegate.cli.output import json_option, print_json
from tidegate.core.base.errors import SpecError
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.spec.expressions import Judge


@click.group()
def spec() -> None:
    """Pipelines' YAML: check it, its schema for editors, its reference."""


@spec.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@json_option
def validate(files: tuple[Path, ...], as_json: bool) -> None:
    """Check pipelines' YAML; without FILES, the whole pipelines folder.

    A folder is also checked for pipelines that would write into each other's tables. SQL expressions are checked by
    DuckDB, which comes with tidegate[worker].

    \b
    Examples:
      tidegate spec validate
      tidegate spec validate dags/pipelines/flights.yaml

    \b
    Exit code: 0 all are valid; 2 one is not (file, line, field).
    """
    from tidegate.adapters.expressions import ExpressionChecker

    with ExpressionChecker() as judge:
        results = [pair for path in files or (surroundings.pipelines_folder(),) for pair in _check(path, judge)]
    wrong = [(path, error) for path, error in results if error is not None]
    if as_json:
        found = [{"file": str(path), "error": error} for path, error in results]
        print_json({"well": not wrong, "files": found})
    else:
        for _, error in wrong:
            click.echo(error, err=True)
        click.echo(f"{len(results) - len(wrong):,} of {many(len(results), 'pipeline')} valid")
    raise SystemExit(WRONG if wrong else WELL)


def _check(path: Path, judge: Judge) -> list[tuple[Path, str | None]]:
    from tidegate.spec import load_file, load_folder

    if path.is_dir() or not path.exists():
        return [(one.path, None if one.error is None else str(one.error)) for one in load_folder(path, judge=judge)]
    try:
        load_file(path, judge=judge)
    except SpecError as e:
        return [(path, str(e))]
    return [(path, None)]


_output = click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead.")


@spec.command()
@_output
def schema(output: Path | None) -> None:
    """Print the JSON schema that editors check and complete a pipeline's YAML with.

    \b
    Example:
      tidegate spec schema -o dags/pipelines/pipeline.schema.json
      # then, as the first line of a YAML:  # yaml-language-server: $schema=pipeline.schema.json

    \b
    Exit code: 0; 2 usage.
    """
    from tidegate.spec.reference import schema_text

    _write(schema_text(), output)


@spec.command()
@_output
def docs(output: Path | None) -> None:
    """Print the reference of every key, in Markdown.

    \b
    Example:
      tidegate spec docs -o pipeline.md

    \b
    Exit code: 0; 2 usage.
    """
    from tidegate.spec.reference import markdown

    _write(markdown(), output)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text)
