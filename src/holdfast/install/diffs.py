"""The difference between two texts of a file, as people know it."""

from __future__ import annotations

import difflib

_NOTHING = "/dev/null"
_NO_END = "\\ No newline at end of file\n"


def unified(before: bytes | None, after: bytes | None, name: str) -> str:
    """A unified diff; empty when the two are the same."""
    old, new = _lines(before), _lines(after)
    names = (_NOTHING if before is None else name, _NOTHING if after is None else name)
    rows = difflib.unified_diff(old, new, *names)
    return "".join([row if row.endswith("\n") else f"{row}\n{_NO_END}" for row in rows])


def _lines(raw: bytes | None) -> list[str]:
    """Split at line feeds alone, as other tools count lines."""
    *whole, rest = (raw or b"").decode(errors="replace").split("\n")
    return [*[f"{line}\n" for line in whole], *([rest] if rest else [])]
