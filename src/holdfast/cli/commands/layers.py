"""``holdfast sync``: the layers beside the records, and what was delivered to each."""

from __future__ import annotations

from holdfast.cli.terminal_text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper

UNDELIVERED = 3
_WORDS = {"delivered": "brought up to date", "current": "up to date"}
_MARKS = {"delivered": "completed", "current": "completed", "unavailable": "blocked"}


def sync(keeper: Keeper, args: Arguments) -> Answer:
    rows, notes = keeper.sync(everything=args["everything"])
    code = UNDELIVERED if any("error" in row for row in rows) else 0
    return {"kind": "layers", "data": {"layers": rows, "notes": notes}, "code": code}


def layer_lines(screen: Screen, data: Fields) -> Iterator[str]:
    """A line for each layer; below one that could not be reached, why and what to do."""
    for row in data["layers"]:
        mark = screen.mark(_MARKS.get(row["status"], "pending"))
        target = clean(str(row.get("target", "")))
        about = screen.paint(clean(_said(row)), "dim")
        yield f"{mark} {clean(row['layer'])} {target}  {about}".rstrip()
        if "error" in row:
            yield f"  {clean(row['error']['message'])}"
            yield f"  next: {clean(row['error']['hint'])}"


def _said(row: Fields) -> str:
    if "seq" not in row:
        return _WORDS.get(row["status"], str(row["status"]))
    if row["status"] == "delivered":
        return (
            f"{_counted(row['events'], 'event')} delivered, "
            f"{_counted(row['entities'], 'entity', 'entities')} changed; at event {row['seq']}"
        )
    if row["status"] == "current":
        return f"up to date, at event {row['seq']}"
    behind = f", {_counted(row['behind'], 'event')} behind" if "behind" in row else ""
    return f"{row['status']}{behind}"


def _counted(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"
