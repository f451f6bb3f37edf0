"""Change events are merged into the files of a keyed table bucket by bucket (M2): what is in memory is a bucket's.

`events`: landed files are read, and handed over by bucket. `bucket`: a bucket's base and events become its new files.
"""
