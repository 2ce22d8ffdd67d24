"""Merge two changes of one text, line by line."""

from __future__ import annotations


def merge_lines(base: bytes, mine: bytes, theirs: bytes) -> bytes | None:
    """Return the text with both changes of ``base``; ``None`` if they overlap.

    Each change counts as one block, from its first changed line to its last. Of two blocks that are
    added at the same line, for example at the end, ``mine`` comes first.
    """
    rows = base.splitlines(keepends=True)
    blocks = [_changed_block(rows, text.splitlines(keepends=True)) for text in (mine, theirs)]
    (start, end, lines), (their_start, their_end, their_lines) = blocks
    if (start, end, lines) == (their_start, their_end, their_lines):
        return mine
    if end <= their_start:
        merged = [*rows[:start], *lines, *rows[end:their_start], *their_lines, *rows[their_end:]]
    elif their_end <= start:
        merged = [*rows[:their_start], *their_lines, *rows[their_end:start], *lines, *rows[end:]]
    else:
        return None
    return b"".join(merged)


def _changed_block(before: list[bytes], after: list[bytes]) -> tuple[int, int, list[bytes]]:
    """Return the first line that differs, the line after the last one, and the new lines."""
    start, most = 0, min(len(before), len(after))
    while start < most and before[start] == after[start]:
        start += 1
    same, most = 0, most - start
    while same < most and before[-1 - same] == after[-1 - same]:
        same += 1
    return start, len(before) - same, after[start : len(after) - same]
