"""Windows: their cut, states, watermark, certificate, lateness; what is due, and when it is expected."""
