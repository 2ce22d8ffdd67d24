"""The window of ``watch`` as lines: the list of all workflows. Pure.

The same views, choices, size and time give the same lines, never wider and never more than the
window has. Where there is little room, of each workflow its first line stays longest, and details
are left out by their rank.
"""

from __future__ import annotations

from holdfast.cli.screen import Screen, count_cells, counted
from holdfast.cli.watching.lines import NEXT, Line, spread
from holdfast.cli.watching.rows import event_lines, has_words, workflow_rows
from holdfast.core.visible import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.watching.lines import Foot, Key
    from holdfast.cli.watching.poller import Pick
    from holdfast.core.types import Fields

_MAX_SHOWN_EVENTS = 8
_MIN_FOOT_LINES, _MIN_EVENT_LINES = 6, 10
"""The least lines of a window with room for the foot, and for events."""
_LAYER_MARKS = {"current": "completed", "behind": "pending", "unavailable": "blocked"}


class Entry:
    """Lines that belong together, such as those of a workflow; the first is never left out."""

    def __init__(self, lines: list[Line], pick: Pick | None = None) -> None:
        self.lines = lines
        self.pick = pick
        """The workflow that it is about; ``None`` for a heading."""


def list_page(
    screen: Screen, views: list[Fields], height: int | None, *, changed: set[Key],
    chosen: Pick | None = None, words: str = "", foot: Foot | None = None,
) -> list[str]:  # fmt: skip
    """Return the list of workflows; ``height`` is ``None`` where everything has room.

    ``words`` are those that every listed workflow has to have.
    """
    is_one = len(views) == 1
    head = _head(screen, views, words)
    below: list[Line] = []
    if is_one and (height is None or height >= _MIN_FOOT_LINES):
        below += _layers(screen, views[0])
    if height is None or height >= _MIN_EVENT_LINES:
        room = _MAX_SHOWN_EVENTS if height is None else height // 4
        below += _events(screen, views, room)
    entries, unopened = [], 0
    for view in views:
        own = workflow_entries(screen, view, words)
        unopened += view["unopened"]
        if not is_one and (own or (view["damage"] and not words)):
            entries.append(_heading(screen, view, len(own)))
        entries += own
    for entry in entries:
        for line in entry.lines:
            line.is_chosen = entry.pick is not None and entry.pick == chosen
    if not entries:
        text = "Nothing here has these words." if words else "No workflow is active here."
        entries = [Entry([Line(text)])]
    if height is None:
        body = [line for entry in entries for line in entry.lines] + _more(screen, unopened)
    else:
        last = [] if foot is None else foot.lines(screen, height)
        if foot is not None and not foot.is_urgent and height <= len(head) + len(below):
            last = []
        head = head[: height - len(last)]
        below = [*below[: height - len(head) - len(last)], *last]
        room = height - len(head) - len(below)
        body = _fitted(screen, entries, room, unopened, chosen)
        body += [Line("")] * (room - len(body))
    return [line.show(screen, changed) for line in [*head, *body, *below]]


def _head(screen: Screen, views: list[Fields], words: str) -> list[Line]:
    count = sum(len(view["states"]) + view["unopened"] for view in views)
    about = counted(count, "workflows")
    if len(views) == 1:
        title = views[0]["title"]
        about += f"{screen.dot}event {views[0]['seq']}"
        damage = views[0]["damage"][:2]
    else:
        title = f"{len(views)} repositories"
        damage = []
    if words:
        about = f"only with: {words}{screen.dot}{about}"
    lines = [spread(screen, screen.paint(clean(title), "strong"), screen.dim(about))]
    return lines + _damage(screen, damage)


def _damage(screen: Screen, texts: list[str]) -> list[Line]:
    return [
        Line(f"{screen.mark('blocked')} {screen.paint(clean(text), 'bad')}", rank=NEXT)
        for text in texts
    ]


def _heading(screen: Screen, view: Fields, count: int) -> Entry:
    """Return the heading of one repository among several, with what is wrong with it."""
    about = counted(count, "workflows")
    title, rule = clean(view["title"]), "─" if screen.fancy else "-"
    columns = 2 if screen.width is None else screen.width - count_cells(title + about) - 6
    line = f"{screen.paint(title, 'strong')} {screen.dim(rule * max(2, columns))}"
    lines = [Line(f"{line} {screen.dim(about)}")]
    return Entry([*lines, *_damage(screen, view["damage"][:1])])


def workflow_entries(screen: Screen, view: Fields, words: str = "") -> list[Entry]:
    """Return an entry for each workflow of a repository that has all of the words."""
    return [
        Entry(workflow_rows(screen, view, state), (view["root"], name))
        for name, state in view["states"].items()
        if has_words(state, view, words)
    ]


def _layers(screen: Screen, view: Fields) -> list[Line]:
    """Return the current initiative, if there is one, and the layers."""
    lines, initiative = [], view["initiative"]
    if initiative is not None:
        milestone = initiative["current_milestone"]
        about = screen.dim(
            f"at {milestone}" if milestone else "",
            initiative["status"].replace("_", " "),
            f"milestones {initiative['completed']}/{initiative['total']}",
        )
        name = screen.paint(clean(initiative["name"]), "strong")
        text = f"{screen.paint('initiative  ', 'dim')}{name}  {about}"
        lines.append(Line(text, (view["root"], "initiative")))
    layers = []
    for layer in view["layers"]:
        about, status = layer["target"], layer["status"]
        if status == "behind" and "seq" in layer:
            about += f" at event {layer['seq']}"
        elif status not in ("current", "behind"):
            about += f" ({status})"
        layers.append(screen.row(_LAYER_MARKS.get(status, "pending"), about))
    return [*lines, Line(screen.paint("layers  ", "dim") + "  ".join(layers))]


def _events(screen: Screen, views: list[Fields], room: int) -> list[Line]:
    """Return the newest events, of all repositories together."""
    rows = [(view, event) for view in views for event in view["events"]]
    if len(views) > 1:
        rows.sort(key=lambda row: str(row[1]["at"]))
    rows = rows[-room:] if room else []
    streams = [
        f"{view['name']} {event['stream']}" if len(views) > 1 else event["stream"]
        for view, event in rows
    ]
    lines = event_lines(screen, [event for _, event in rows], streams)
    for line, (view, _) in zip(lines, rows, strict=True):
        line.key = (view["root"], *line.key)
    return [Line(""), *lines] if lines else []


def _fitted(
    screen: Screen, entries: list[Entry], room: int, unopened: int, chosen: Pick | None
) -> list[Line]:
    """Return the first lines of as many entries as fit, around the chosen one, and then details:
    those of the chosen one first, then from the top.
    """
    if room <= 0:
        return []
    picks = [entry.pick for entry in entries]
    position = picks.index(chosen) if chosen is not None and chosen in picks else 0
    last: list[Line] = []
    if unopened or len(entries) > room:
        room -= 1
        first = min(max(0, position - room // 2), max(0, len(entries) - room))
        shown = entries[first : first + room]
        hidden = sum(1 for entry in entries if entry.pick) - sum(1 for e in shown if e.pick)
        last = _more(screen, unopened + hidden)
        entries = shown
    free = room - len(entries)
    details: dict[int, list[Line]] = {}
    order = sorted(range(len(entries)), key=lambda number: entries[number].pick != chosen)
    for number in order:
        details[number] = _choose(screen, entries[number].lines[1:], free)
        free -= len(details[number])
    lines: list[Line] = []
    for number, entry in enumerate(entries):
        lines += [entry.lines[0], *details[number]]
    return lines + last


def _more(screen: Screen, count: int) -> list[Line]:
    """Return a line about the workflows that are not shown."""
    more = counted(count, "more workflows")
    return [Line(screen.dim(f"… and {more}"))] if count else []


def _choose(screen: Screen, details: list[Line], room: int) -> list[Line]:
    """Return as many lines as there is room for, those of the lowest rank."""
    if len(details) <= room:
        return details
    if room < 1:
        return []
    ranked = sorted(range(len(details)), key=lambda number: (details[number].rank, number))
    if room == 1:
        return [details[ranked[0]]]
    chosen = [details[number] for number in sorted(ranked[: room - 1])]
    more = Line(screen.dim(f"    … and {len(details) - len(chosen)} more"))
    more.is_chosen = details[0].is_chosen
    return [*chosen, more]
