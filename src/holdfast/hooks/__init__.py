"""Hooks: what Holdfast does when an agent's client starts, compacts, reads a file or stops.

``entry`` is the file that a client runs; ``quick_check`` returns at once if there is nothing to do,
and logs faults; ``handlers`` decides what an event needs, and how clients are answered.
"""
