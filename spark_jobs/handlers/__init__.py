"""Questions that the control plane asks of files and topics: one module each, answered by `child.py`."""
