"""A pipeline's YAML: read, checked, compiled to `core.pipeline.Pipeline`. Knows no Airflow, reads only those files.

A file may name others: schemas and descriptors of messages."""

from tidegate.spec.compiled import fingerprint
from tidegate.spec.loader import DEFAULTS, Loaded, load_file, load_folder, names
from tidegate.spec.reference import schema

__all__ = ["DEFAULTS", "Loaded", "fingerprint", "load_file", "load_folder", "names", "schema"]
