"""The port to a source; its log: cut, retention, loss, progress."""
