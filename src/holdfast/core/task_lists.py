"""Read the task list of a Markdown file: ``- [ ] text`` is a task, ``- [x] text`` one that is done.

Only the outermost boxes are tasks. Boxes inside a block of code are none.
"""

from __future__ import annotations

MAX_CHARACTERS = 1_000
"""The number of characters of a task that are read."""
_FENCES = ("```", "~~~")
_BULLETS = ("-", "*", "+")
_TAB_COLUMNS = 4


def parse(text: str) -> list[tuple[str, bool]]:
    """Return each task of a page, and whether it is done."""
    rows = []
    fence = ""
    for line in text.expandtabs(_TAB_COLUMNS).splitlines():
        content = line.lstrip(" ")
        if fence:
            fence = "" if content.startswith(fence) else fence
        elif content.startswith(_FENCES):
            fence = content[:3]
        elif (box := _box(content)) is not None:
            rows.append((len(line) - len(content), *box))
    outermost = min((indent for indent, *_ in rows), default=0)
    return [(task, is_done) for indent, task, is_done in rows if indent == outermost]


def _box(content: str) -> tuple[str, bool] | None:
    """Return the text behind a box, and whether the box is ticked; ``None`` if it is no task."""
    bullet, _, rest = content.partition(" ")
    is_item = bullet in _BULLETS or (bullet[-1:] in (".", ")") and bullet[:-1].isdigit())
    rest = rest.lstrip(" ")
    if not is_item or rest[:1] != "[" or rest[2:4] != "] " or rest[1] not in " xX":
        return None
    task = rest[4:].strip()
    return (task[:MAX_CHARACTERS], rest[1] != " ") if task else None
