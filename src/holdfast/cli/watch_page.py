"""The picture of ``holdfast watch``: from what there is and the size of the window to lines.

Pure: the same view, size and time give the same lines, never wider and never more than asked for.
"""

from __future__ import annotations

from holdfast.cli.panels import event_told
from holdfast.cli.terminal_text import cells, clean, padded, shortened
from holdfast.core.workflow.state import is_passed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.screen import Screen, Tone
    from holdfast.core.types import Event, Fields, Task, Workflow

    Key = tuple[str, ...]
    Spans = list[tuple[str, Tone | None]]
    """Clean pieces of a line, each with its colour."""
    Line = tuple[Key, Spans]

FRESH_MS = 10_000
"""So long a change is pointed at."""
_EVENTS, _LEAST, _ROOMY = 8, 6, 10
"""The most events; below so many lines only workflows are shown; from so many on, events too."""
_NO_KEY: Key = ()
_LAYERS = {"current": "completed", "behind": "pending", "unavailable": "blocked"}


class Fresh:
    """What changed from one view to the next, and when."""

    def __init__(self) -> None:
        self._known: dict[Key, object] | None = None
        self._since: dict[Key, int] = {}

    def see(self, view: Fields, now_ms: int) -> None:
        """Takes in a view; the first one is no news."""
        items = items_of(view)
        if self._known is not None:
            for key, value in items.items():
                if self._known.get(key, _NO_KEY) != value:
                    self._since[key] = now_ms
        self._known = items

    def keys(self, now_ms: int) -> set[Key]:
        return {key for key, since in self._since.items() if 0 <= now_ms - since < FRESH_MS}


def items_of(view: Fields) -> dict[Key, object]:
    """Everything that can change, by a name that stays."""
    found: dict[Key, object] = {}
    for name, state in view["states"].items():
        found[name,] = (state["status"], state["title"])
        found[name, "phases"] = [(p["name"], p["status"]) for p in state["phases"]]
        found[name, "gates"] = {gate: _passing(held) for gate, held in state["gates"].items()}
        for task in state["tasks"]:
            found[name, "task", str(task["id"])] = task
    if view["initiative"] is not None:
        found["initiative",] = {**view["initiative"], "updated_at": ""}
    for event in view["events"]:
        found["event", str(event["seq"])] = event["type"]
    return found


def page(screen: Screen, view: Fields, height: int | None, fresh: set[Key]) -> list[str]:
    """All of it as lines; ``height`` is ``None`` where everything has room."""
    head = [_header(screen, view), *[_trouble(screen, text) for text in view["damage"][:2]]]
    foot: list[Line] = []
    if height is None or height >= _LEAST:
        foot += [*_initiative(screen, view["initiative"]), _layers(screen, view["layers"])]
    if height is None or height >= _ROOMY:
        foot += _events(view["events"], _EVENTS if height is None else height // 4)
    blocks = [_block(screen, view, state) for state in view["states"].values()]
    blocks = blocks or [[(_NO_KEY, [("No workflow is active here.", None)])]]
    if height is None:
        body = [line for block in blocks for line in block] + _more(view["unopened"])
    else:
        if height > len(head) + len(foot):
            foot.append((_NO_KEY, [(view["keys"], "dim")]))
        body = _fitted(blocks, height - len(head) - len(foot), view["unopened"])
        body += [(_NO_KEY, [])] * (height - len(head) - len(foot) - len(body))
    lines = [*head, *body, *foot]
    return [_drawn(screen, line, fresh) for line in lines[:height]]


def whole_page(screen: Screen, view: Fields) -> list[str]:
    """The page for somebody who asked once."""
    return page(screen, view, None, set())


def _drawn(screen: Screen, line: Line, fresh: set[Key]) -> str:
    """The line within the width, behind a mark when it is news."""
    key, spans = line
    is_news = key in fresh
    bullet = ("•" if screen.fancy else "*") if is_news else " "
    left = screen.width
    drawn = ""
    for text, tone in [(bullet, "warn"), *spans]:
        shown = screen.encoded(text)
        if left is not None:
            shown = screen.encoded(shortened(shown, left)) if left > 0 else ""
            left -= cells(shown)
        strong: Tone | None = "warn" if is_news and tone in (None, "dim") else tone
        drawn += shown if strong is None else screen.paint(shown, strong)
    return drawn.rstrip(" ")


def _header(screen: Screen, view: Fields) -> Line:
    count = len(view["states"]) + view["unopened"]
    told = f"{count} workflow{'' if count == 1 else 's'}{screen.dot()}event {view['seq']}"
    place = clean(view["place"])
    gap = 2
    if screen.width is not None:
        gap = max(2, screen.width - 1 - cells(place) - cells(told))
    return _NO_KEY, [(place, "strong"), (" " * gap, None), (told, "dim")]


def _trouble(screen: Screen, text: str) -> Line:
    return _NO_KEY, [(_glyph(screen, "blocked") + " ", "bad"), (clean(text), "bad")]


def _glyph(screen: Screen, status: str) -> str:
    return screen.glyph(status)[0]


def _marked(screen: Screen, status: str) -> tuple[str, Tone]:
    glyph, tone = screen.glyph(status)
    return f"{glyph} ", tone


def _block(screen: Screen, view: Fields, state: Workflow) -> list[Line]:
    """One workflow: its name first, then what it consists of."""
    name = state["id"]
    facts = _position(state)
    if name in view["unsettled"]:
        facts.append("its record was edited: the next change takes that in")
    facts.append(screen.age(state["updated_at"]))
    title = clean(state["title"] or state["subject"] or "")
    about = f"  {clean(screen.dot().join(facts))}"
    head: Spans = [_marked(screen, state["status"]), (clean(name), "strong"), (f"  {title}", None)]
    block: list[Line] = [((name,), [*head, (about, "dim")])]
    if state["phases"]:
        block.append(((name, "phases"), _phases(screen, state)))
    block += [((name, "task", str(task["id"])), _task(screen, task)) for task in state["tasks"]]
    if state["gates"]:
        block.append(((name, "gates"), _gates(screen, state["gates"])))
    return block


def _position(state: Workflow) -> list[str]:
    done = sum(task["status"] == "completed" for task in state["tasks"])
    return [f"tasks {done}/{len(state['tasks'])}"] if state["tasks"] else []


def _phases(screen: Screen, state: Workflow) -> Spans:
    """The phases in one line, from the one before the current."""
    names = [phase["name"] for phase in state["phases"]]
    place = names.index(state["phase"]) if state["phase"] in names else 0
    first = max(0, place - 1)
    spans: Spans = [("  ", None)]
    if first:
        spans.append((f"{_glyph(screen, 'completed')} {first} before  ", "dim"))
    for number, phase in enumerate(state["phases"][first:], first):
        spans.append(_marked(screen, phase["status"]))
        spans.append((clean(phase["name"]) + "  ", "strong" if number == place else "dim"))
    return spans


def _task(screen: Screen, task: Task) -> Spans:
    facts = [name for name, status in task.get("phases", {}).items() if status == "in_progress"]
    if task.get("iterations_used"):
        facts.append(f"iteration {task.get('iterations_used')}")
    if task.get("reason"):
        facts.append(str(task.get("reason")))
    name = clean(f"{task['id']}  {task['description']}")
    tone: Tone | None = "dim" if task["status"] == "completed" else None
    about = clean(screen.dot().join(facts))
    spans: Spans = [("    ", None), _marked(screen, task["status"]), (name, tone)]
    return [*spans, (f"  {about}", "dim")] if about else spans


def _gates(screen: Screen, gates: dict[str, Fields]) -> Spans:
    spans: Spans = [("  gates  ", "dim")]
    for name, held in gates.items():
        spans += [_marked(screen, _passing(held)), (clean(name) + "  ", None)]
    return spans


def _passing(gate: Fields) -> str:
    status = str(gate.get("status", "pending"))
    failed = status in ("failed", "blocked", "rejected", "error") or gate.get("passed") is False
    return "blocked" if failed else "completed" if is_passed(gate) else "pending"


def _initiative(screen: Screen, one: Fields | None) -> list[Line]:
    if one is None:
        return []
    facts = [one["status"].replace("_", " "), f"milestones {one['completed']}/{one['total']}"]
    if one["current_milestone"]:
        facts.insert(0, f"at {one['current_milestone']}")
    about = clean(screen.dot().join(facts))
    name = clean(one["name"])
    return [(("initiative",), [("initiative  ", "dim"), (name, "strong"), (f"  {about}", "dim")])]


def _layers(screen: Screen, layers: list[Fields]) -> Line:
    spans: Spans = [("layers  ", "dim")]
    for layer in layers:
        about = layer["target"]
        if layer["status"] == "behind" and "seq" in layer:
            about += f" at event {layer['seq']}"
        elif layer["status"] not in ("current", "behind"):
            about += f" ({layer['status']})"
        mark = _marked(screen, _LAYERS.get(layer["status"], "pending"))
        spans += [mark, (clean(about) + "  ", None)]
    return _NO_KEY, spans


def _events(events: list[Event], room: int) -> list[Line]:
    shown = events[-room:] if room else []
    widest = max([cells(clean(event["stream"])) for event in shown], default=0)
    lines: list[Line] = [(_NO_KEY, [])] if shown else []
    for event in shown:
        spans: Spans = [(f"{event['seq']:>5}  {clean(event['at'])[11:19]}  ", "dim")]
        stream = padded(clean(event["stream"]), min(widest, 28))
        spans += [(f"{stream}  ", None), (clean(event["type"]), "active")]
        spans.append((f"  {event_told(event)}", "dim"))
        lines.append((("event", str(event["seq"])), spans))
    return lines


def _fitted(blocks: list[list[Line]], room: int, unopened: int) -> list[Line]:
    """Every workflow with its first line as far as there is room, then details from the top."""
    if room <= 0:
        return []
    last: list[Line] = []
    if unopened or len(blocks) > room:
        room -= 1
        last = _more(unopened + max(0, len(blocks) - room))
        blocks = blocks[:room]
    left = room - len(blocks)
    lines: list[Line] = []
    for first, *details in blocks:
        shown = _chosen(details, left)
        left -= len(shown)
        lines += [first, *shown]
    return lines + last


def _more(count: int) -> list[Line]:
    """A line about the workflows that are not shown."""
    what = "workflow" if count == 1 else "workflows"
    return [(_NO_KEY, [(f"… and {count} more {what}", "dim")])] if count else []


def _chosen(details: list[Line], room: int) -> list[Line]:
    """So many of the lines, those about open work first; one says how many are left out."""
    if len(details) <= room:
        return details
    if room < 1:
        return []
    ranked = sorted(range(len(details)), key=lambda place: (_is_done(details[place]), place))
    if room == 1:
        return [details[ranked[0]]]
    kept = sorted(ranked[: room - 1])
    more = (_NO_KEY, [(f"    … and {len(details) - len(kept)} more", "dim")])
    return [*[details[place] for place in kept], more]  # type: ignore[list-item]


def _is_done(line: Line) -> bool:
    """Whether it is a task that is done, by its mark."""
    key, spans = line
    return key[1:2] == ("task",) and spans[1][1] == "good"
