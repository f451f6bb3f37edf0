"""Views of pipelines, windows and records, and their measures."""
