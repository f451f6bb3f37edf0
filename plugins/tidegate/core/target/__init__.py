"""Tables, whatever kind they are: their port, paths, columns, names."""
