"""One module for each test runner: how to recognise its output, and how to parse it.

``SUMMARY`` matches a line at the end of a run, ``OPENING`` an earlier one, and ``parse`` takes the
lines of a run. The tests have real output of several versions of each runner.
"""
