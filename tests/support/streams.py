"""Stand-ins for standard output: a terminal, or a file."""

import io


class _Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def make_terminal():
    return _Terminal(io.BytesIO(), encoding="utf-8")


def make_file(encoding="utf-8"):
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)
