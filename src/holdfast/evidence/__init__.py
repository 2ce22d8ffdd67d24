"""Evidence: what a command answered, what its output says about tests, and on which tree.

Nothing here decides or records: a surface runs a command, reads its output, and hands what it
found to the keeper. All of it is off the way that a common command takes, so it may import what
it needs.
"""
