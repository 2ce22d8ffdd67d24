"""Which of the names that there are was probably meant by one that nobody knows."""

from __future__ import annotations

_MOST = 60
"""Names whose lengths differ by more are not compared."""


def nearest(word: str, names: list[str]) -> str | None:
    """The name that was probably meant, if one is near enough."""
    same = [name for name in names if name.casefold() == word.casefold()]
    begun = same or [name for name in names if len(word.strip("-")) > 2 and name.startswith(word)]
    if begun:
        return begun[0]
    scored = sorted((_distance(word.casefold(), name.casefold()), name) for name in names)
    if scored and scored[0][0] <= max(1, len(word.strip("-")) // 3) and len(word.strip("-")) > 1:
        return scored[0][1]
    return None


def _distance(one: str, other: str) -> int:
    """How many letters must be added, left out, changed, or swapped with the next one."""
    if abs(len(one) - len(other)) > _MOST:
        return abs(len(one) - len(other))
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, row = row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != wanted))
            swapped = i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted
            row.append(min(cost, before[j - 2] + 1) if swapped else cost)
        before = above
    return row[-1]
