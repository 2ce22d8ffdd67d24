"""Initiatives on the disk: their record, ``WORKFLOW-STATUS.yaml`` and the milestone pages.

The ledger is the truth. The two kinds of files belong to people too: they are read, compared and
patched in place. The YAML parser is imported in ``status_yaml.py`` alone, the Markdown parser in
``layers/markdown.py`` alone, when a file is not as Holdfast wrote it.
"""

from __future__ import annotations

from holdfast.errors import Refused


class BadFile(Refused):
    """A file that cannot be used: ``line`` is the line, ``why`` the reason."""

    def __init__(self, place: str, line: int, why: str) -> None:
        message = f"{place}: line {line}: {why}; nothing was changed"
        hint = f"mend line {line} of {place}, then run the same command again"
        super().__init__("bad_file", message, hint, path=place, line=line, why=why)
        self.line = line
        self.why = why
