"""The text of an event: what ``log --grep`` compares, and what ``search`` finds words in. Pure.

It has a line for each value in the event's data, with its key: ``commit=9f3c``. Of a
recipe it has the name alone, because every workflow that was opened from it carries a copy. Of an
event that takes in what other machines did, or settles a conflict with them, it has the commands
and not the changes that these made here.
"""

from __future__ import annotations

from holdfast.core.diff import MERGED
from holdfast.core.json_text import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Cause, Event, Json

_EMPTY: tuple[Json, ...] = (None, "", [], {})


def text_of(event: Event) -> str:
    """Return the text of an event, one value on each line."""
    if event["type"] != MERGED:
        return "\n".join(_lines_of("", event["data"]))
    lines: list[str] = []
    for cause in merged_causes(event):
        lines += [cause["by"]["name"], cause["type"], *_lines_of("", cause["args"])]
    return "\n".join(lines)


def merged_causes(event: Event) -> Iterator[Cause]:
    """Yield the commands of other machines that an event takes in, or what settled a conflict."""
    if event["type"] == MERGED:
        for shared in event["data"].get("events", ()):
            yield shared["cause"]
        own = event["by"].get("shared")
        if own is not None:
            yield own["cause"]


def _lines_of(key: str, value: Json) -> Iterator[str]:
    if value in _EMPTY:
        return
    if isinstance(value, dict):
        if key == "recipe" and "name" in value:
            yield f"recipe={value['name']}"
            return
        if key:
            yield key
        for name, inner in value.items():
            yield from _lines_of(name, inner)
    elif isinstance(value, list):
        if key:
            yield key
        for inner in value:
            yield from _lines_of("", inner)
    else:
        text = value if isinstance(value, str) else dumps(value)
        yield f"{key}={text}" if key else text
