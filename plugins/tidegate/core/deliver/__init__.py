"""Published generations of windows, sent to further systems: rules D1 to D8."""
