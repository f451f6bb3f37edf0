"""A copy of the source's topic at another site takes over, and gives back: rules F1 to F6."""
