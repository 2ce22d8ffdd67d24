"""What the section says next: ours anew, what others wrote in it kept, what they took out gone."""

from __future__ import annotations

from holdfast.core import memory_lines
from holdfast.layers.memory.section import bullets, laid_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

    Parts = list[tuple[str, list[str]]]

ACTIVE, ENDED, PREFERRED = "Active workflows", "Ended workflows", "Preferences"


def merged(
    current: list[str] | None, wanted: Parts, last: Fields, room: int
) -> tuple[list[str], list[str], Fields]:
    """The section's next lines, ours and then theirs, and what is to be remembered of that.

    ``last`` is what was remembered: the lines of ours that were ``written`` the last time, and the
    sentences that somebody took out until then and that stay out (``dropped``).
    """
    ours = [line for _, lines in wanted for line in lines]
    standing = bullets(current or [])
    gone = [line for line in bullets(last["written"]) if line not in standing]
    taken_out = gone if current is not None else []
    dropped = [line for line in dict.fromkeys([*last["dropped"], *taken_out]) if line in ours]
    theirs = _theirs(current or [], last["written"], wanted)
    parts = [(name, [line for line in lines if line not in dropped]) for name, lines in wanted]
    lines = laid_out(_fitted(_without_doubles(parts), room - len(theirs)))
    return lines, theirs, {"written": lines, "dropped": dropped}


def _theirs(current: list[str], written: list[str], wanted: Parts) -> list[str]:
    """Lines that somebody else put into the section, with what is empty between them."""
    left: list[str] = []
    for line in current:
        is_blank = not line.strip()
        if not is_blank and not is_ours(line.strip(), written, wanted):
            left.append(line)
        elif is_blank and left and left[-1]:
            left.append("")
    return left if not left or left[-1] else left[:-1]


def is_ours(line: str, written: list[str], wanted: Parts) -> bool:
    """Whether a line is, or was, one that Holdfast writes."""
    headings = [f"## {name}" for name in (ACTIVE, ENDED, PREFERRED)]
    if line in written or line in headings or line in laid_out(wanted):
        return True
    return any(said.startswith(memory_lines.BEGINNINGS) for said in bullets([line]))


def _without_doubles(parts: Parts) -> Parts:
    seen: set[str] = set()
    found = []
    for name, lines in parts:
        fresh = [line for line in dict.fromkeys(lines) if line not in seen]
        seen.update(fresh)
        found.append((name, fresh))
    return found


def _fitted(parts: Parts, room: int) -> Parts:
    """As many as there is room for: the last of the last part leave first."""
    kept = [(name, list(lines)) for name, lines in parts]
    while sum(len(lines) + bool(lines) for _, lines in kept) > max(room, 0):
        next(lines for _, lines in reversed(kept) if lines).pop()
    return kept
