"""A pipeline's YAML: read, checked, compiled to `core.spec.pipeline.Pipeline`. Knows no Airflow, reads no other file.

A file may name others: schemas and descriptors of messages."""

from tidegate.spec.compiled import fingerprint
from tidegate.spec.loader import DEFAULTS, Loaded, load_file, load_folder, names
from tidegate.spec.reference import schema

__all__ = ["DEFAULTS", "Loaded", "fingerprint", "load_file", "load_folder", "names", "schema"]
