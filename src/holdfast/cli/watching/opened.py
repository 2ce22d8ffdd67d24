"""The window of ``watch`` where it shows more than the list: a workflow, hits, the keys. Pure.

Each page is a list of lines of which a part is in sight; lines that are too long are folded.
"""

from __future__ import annotations

from holdfast.cli.commands.search import hit_lines
from holdfast.cli.commands.workflow import workflow_lines
from holdfast.cli.screen import Screen, clip, count_cells, pad, wrap
from holdfast.cli.watching.lines import Line, spread
from holdfast.cli.watching.rows import event_lines, next_line, now_ms
from holdfast.core.durations import duration_ms, span
from holdfast.core.next_step import lessons
from holdfast.core.visible import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.watching.lines import Foot
    from holdfast.core.types import Fields, Phase, Task

_VERBS = {"completed": "took"}
_MIN_COLUMNS, _MAX_EVENT_LINES = 12, 3
KEYS = (
    ("up, down, k, j", "choose a workflow, or scroll"),
    ("PgUp, PgDn, space", "a page up or down"),
    ("Home, End, g, G", "to the first, to the last"),
    ("Enter", "open the chosen workflow: everything about it"),
    ("Esc", "back; in the list: list all workflows again"),
    ("/", "list only workflows with the words that you type; then"),
    ("    Enter", "search for them in all that happened (holdfast search)"),
    ("    up, down", "go on in the list"),
    ("a", "approve the phase that waits for it, as a person"),
    ("b", "block the current phase or task; asks for the reason"),
    ("u", "unblock a phase or a task"),
    ("?", "these keys"),
    ("q", "end"),
)


def page(
    screen: Screen, title: str, about: str, lines: list[Line], height: int, offset: int, foot: Foot
) -> tuple[list[str], int]:
    """Return a window with the lines from ``offset`` in sight, and the offset that fits."""
    last = foot.lines(screen, height)
    if not foot.is_urgent and height < 3:
        last = []
    room = max(0, height - len(last) - 1)
    offset = max(0, min(offset, len(lines) - room))
    if len(lines) > room > 0:
        about = f"{about}{screen.dot}" if about else ""
        about += f"{offset + 1} to {min(offset + room, len(lines))} of {len(lines)}"
    head = [spread(screen, screen.paint(clean(title), "strong"), screen.dim(about))]
    head = head[: height - len(last)]
    body = lines[offset : offset + room]
    body = body + [Line("")] * (room - len(body))
    return [line.show(screen, set()) for line in [*head, *body, *last]], offset


def workflow_page(screen: Screen, details: Fields) -> list[Line]:
    """Return everything about one workflow."""
    state, step = details["state"], details["step"]
    texts = [] if step is None else [next_line(screen, step)]

    def time_of(item: Phase | Task) -> str:
        ms = duration_ms(state, item, now_ms(screen))
        return "" if ms is None else f"{_VERBS.get(item['status'], 'for')} {span(ms)}"

    texts += workflow_lines(screen, state, state["record"], details["missing"], time_of)
    if lessons(state):
        texts += [screen.paint("Guardrails", "strong"), *(f"  {clean(t)}" for t in lessons(state))]
    lines = folded(screen, texts)
    lines.append(Line(screen.paint("Last events", "strong")))
    events = details["events"]
    rows = [line.text for line in event_lines(screen, events, [""] * len(events))]
    if screen.width is not None:
        rows = [clip(row, _MAX_EVENT_LINES * screen.width) for row in rows]
    return lines + folded(screen, rows)


def hits_page(screen: Screen, hits: list[Fields], here: str, chosen: int) -> tuple[list[Line], int]:
    """Return what a search has found, and the number of the line at which the chosen hit begins."""
    lines: list[Line] = []
    begin = 0
    for number, hit in enumerate(hits):
        own = folded(screen, list(hit_lines(screen, hit, here)))
        if number == chosen:
            begin = len(lines)
            for line in own:
                line.is_chosen = True
        lines += own
    return lines, begin


def keys_page(screen: Screen) -> list[Line]:
    """Return what the keys do."""
    widest = max(count_cells(key) for key, _ in KEYS)
    texts = [f"  {screen.paint(pad(key, widest), 'active')}   {clean(what)}" for key, what in KEYS]
    return folded(screen, texts)


def folded(screen: Screen, texts: Sequence[str]) -> list[Line]:
    """Return the texts as lines that fit the window."""
    if screen.width is None:
        return list(map(Line, texts))
    width = max(_MIN_COLUMNS, screen.width - 1)
    return [Line(piece) for text in texts for piece in wrap(text, width)]
