"""What the section says next: ours anew, what others wrote in it kept, what they took out gone."""

from __future__ import annotations

from holdfast.core import sentences
from holdfast.memory.section import bullets, laid_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields

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
    """Lines that somebody else put into the section."""
    known = {
        "",
        *written,
        *laid_out(wanted),
        *[f"## {name}" for name in (ACTIVE, ENDED, PREFERRED)],
    }
    left = [line for line in current if line not in known]
    old = [f"- {line}" for line in bullets(left) if line.startswith(sentences.BEGINNINGS)]
    return [line for line in left if line not in old]


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
