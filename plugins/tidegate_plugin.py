"""What Airflow finds in its plugins folder: it registers Tidegate, nothing else.

Where Tidegate is installed as a wheel the entry point does the same; Airflow registers a plugin's name once, so both
together are harmless.
"""

from tidegate.plugin import TidegatePlugin

__all__ = ["TidegatePlugin"]
