"""A copy of the source's topic at another site takes over, and gives back."""
