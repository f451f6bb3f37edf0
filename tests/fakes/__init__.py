"""Fakes of the ports, held to the same contract suites as the adapters."""
