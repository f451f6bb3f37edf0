"""What is shown of pipelines, windows and records, and measured of them."""
