"""The decoder of a pipeline: its format, and the expressions on top."""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.engine.formats import Decoder, Paths, of_format
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.spec.pipeline import Pipeline


def decoder_for(pipeline: Pipeline, rules_version: int = RULES_VERSION, also_known: Paths = ()) -> Decoder:
    """The decoder of the pipeline's format, which computes its expressions too. `rules_version`: what a message means.
    `also_known`: paths that are no unknown fields, though no column takes them.

    Raises JobError for a format that does not exist, or an expression that cannot be taken."""
    if pipeline.has_expressions or any(c.hidden for c in pipeline.columns):
        from spark_jobs.engine.computing import ComputingDecoder  # it imports DuckDB, which most pipelines do without

        decoded = replace(pipeline, columns=pipeline.decoded_columns)
        return ComputingDecoder(pipeline, of_format(decoded, rules_version, also_known))
    return of_format(pipeline, rules_version, also_known)
