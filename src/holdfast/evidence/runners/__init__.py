"""One module for each runner of tests: how its output is recognised, and what it says.

``SUMMARY`` matches a line that only the end of a run has, ``OPENING`` one that stands earlier, and
``read`` takes the lines of a run. All of it follows what the tools really print; the tests have
samples of several versions.
"""
