"""``holdfast log`` and ``holdfast watch``: what happened here, and what happens.

``watch`` only reads. Between two looks it asks the file system whether anything was written since,
and opens nothing if not. Without a terminal to draw on, it shows the workspace once.
``frame_lines`` is pure: the same view, size and time give the same lines, never wider and never
more than asked for.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import chain, islice

from holdfast.answers import json
from holdfast.answers.failure import failure_fields
from holdfast.answers.text import clean
from holdfast.cli.answer import Answer, Silence, StreamAnswer, encode
from holdfast.cli.commands.workflow import gate_mark
from holdfast.cli.parser import WORKFLOW, Parameter, command
from holdfast.cli.screen import Screen, clip, count_cells, format_pairs, pad
from holdfast.core.diff import path_text
from holdfast.core.time import iso
from holdfast.errors import HoldfastError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Event, Fields, Json, Workflow
    from holdfast.keeper import Keeper

    Key = tuple[str, ...]

_FAULT = 3
_STREAM_MAX, _TYPE_COLUMNS = 28, 18
_FIRST_EVENTS = 200
_COMMIT_CHARS = 12
_GAP = "  "
_NOT_SHOWN_OF_START = ("record", "ttl", "base")
RECENT_MS = 10_000
"""The time for which a change is marked."""
_MAX_EVENTS, _MAX_SHOWN_EVENTS = 20, 8
_MIN_FOOT_LINES, _MIN_EVENT_LINES = 6, 10
"""Lines from which on the window has room for the foot, and for events."""
_LAYER_MARKS = {"current": "completed", "behind": "pending", "unavailable": "blocked"}
_OWN_FILES = ("lock", "-wal", "-shm", "-journal")
"""Ends of names in the ledger's folder that say nothing: reading touches them too."""


@command(
    "log: list events, oldest first; without an ID those of the whole workspace",
    WORKFLOW,
    Parameter("--limit N", "only the newest N", kind="count"),
    Parameter("--follow", "go on with new events until Ctrl-C (JSON: one event a line)"),
    "holdfast log --limit 20",
    "holdfast log dev-1f2e3d4c --follow",
)
def log(keeper: Keeper, args: Arguments) -> Answer:
    events = keeper.events(workflow=args["workflow"], limit=args["limit"])
    if not args["follow"]:
        return EventLog(events)

    def followed() -> Iterator[Event]:
        seq = 0
        for event in events:
            seq = event["seq"]
            yield event
        yield from keeper.follow(workflow=args["workflow"], after=seq)

    return StreamAnswer(followed(), _event_line)


class EventLog(Answer):
    """Events that are printed while the ledger is read, so ``ok`` comes last in the JSON."""

    def __init__(self, events: Iterable[Event]) -> None:
        super().__init__(
            lambda: {"events": list(events)}, lambda screen: _log_lines(screen, events)
        )
        self._events = events

    def json_pieces(self, *, ascii_only: bool) -> Iterator[str]:
        """Yield the object event by event. A fault on the way ends it as a failed answer."""
        yield '{"events":['
        separator = ""
        end: Fields = {"ok": True}
        try:
            for event in self._events:
                yield f"{separator}{encode(event, ascii_only=ascii_only)}"
                separator = ","
        except HoldfastError as error:
            self.code = _FAULT
            end = {"ok": False, "error": failure_fields(error)}
        yield f"],{encode(end, ascii_only=ascii_only)[1:]}\n"


def _log_lines(screen: Screen, events: Iterable[Event]) -> Iterator[str]:
    """Yield a line for each event. The first ones decide how wide the column of streams is."""
    coming = iter(events)
    first = list(islice(coming, _FIRST_EVENTS))
    width = max([count_cells(clean(event["stream"])) for event in first], default=0)
    for event in chain(first, coming):
        yield _event_line(screen, event, min(width, _STREAM_MAX))


def _event_line(screen: Screen, event: Event, stream_width: int = 0) -> str:
    """``12  2026-01-02 03:04:05Z  dev-1f2e3d4c  task_completed  task=3``."""
    seq = screen.paint(f"{event['seq']:>5}", "dim")
    at = clean(event["at"])[:19].replace("T", " ") + "Z"
    stream = pad(clean(event["stream"]), stream_width)
    kind = pad(clean(event["type"]), _TYPE_COLUMNS)
    taken = 5 + count_cells(at) + count_cells(stream) + count_cells(kind) + 4 * len(_GAP)
    about = screen.fitted(event_text(event), taken)
    parts = [seq, screen.paint(at, "dim"), stream, screen.paint(kind, "active"), about]
    return _GAP.join(parts).rstrip()


def event_text(event: Event) -> str:
    """Return what people want to know of an event, cleaned; the JSON has all of it."""
    data: Fields = event["data"]
    fields: Fields = {}
    for name, value in data.items():
        if name in ("fields", "values", "tests") and isinstance(value, dict):
            fields |= value
        elif value not in (None, "", [], {}):
            fields |= _summary(name, value)
    if "recipe" in data:
        fields = {name: value for name, value in fields.items() if name not in _NOT_SHOWN_OF_START}
        if fields.get("subject") == fields.get("title"):
            fields.pop("subject", None)
    return clean(" ".join(format_pairs(fields)))


def _summary(name: str, value: Json) -> Fields:
    """Return a large value in a few words, or as it is if it has another form than expected."""
    try:
        match name:
            case "recipe":
                return {"recipe": value["name"]}
            case "session" if isinstance(value, dict):
                return {"session": value["id"]}
            case "commit":
                return {"commit": str(value)[:_COMMIT_CHARS]}
            case "changes":
                return {"changed": ", ".join([path_text(change[0]) for change in value])}
            case "state" if "all" in value:
                return {"initiatives": ", ".join(value["all"]), "current": value["current"]}
            case "state" if "milestones" in value:
                return {"status": value["status"], "milestone": value["current_milestone"]}
            case "state":
                return {"recipe": value["recipe"]["name"], "title": value["title"]}
    except (LookupError, TypeError, AttributeError):
        pass
    return {name: value}


@command(
    "watch: see workflows, tasks, gates and layers move, until q or Ctrl-C; only reads",
    WORKFLOW,
    Parameter("--every SECONDS", "how often to look (default 1)", kind="count"),
    Parameter("--once", "show it once and end, as without a terminal"),
    "holdfast watch",
    "holdfast watch dev-1f2e3d4c --every 5",
)
def watch(keeper: Keeper, args: Arguments) -> Answer:
    poller = Poller(keeper, args["workflow"])
    every_s = args["every"] or 1
    if args["json"] and not args["once"]:
        return StreamAnswer(_poll_forever(poller, every_s), lambda _screen, _view: "")
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    if args["once"] or not is_terminal or os.environ.get("TERM") == "dumb":
        view = poller.poll()
        return Answer(
            lambda: json.watched(view), lambda screen: frame_lines(screen, view, None, set())
        )
    return Silence(code=_draw_forever(poller, every_s))


def _poll_forever(poller: Poller, every_s: float) -> Iterator[Fields]:
    """Yield a view at once, and another after every change."""
    while True:
        yield {"ok": True, **json.watched(poller.poll())}
        while not poller.is_stale():
            time.sleep(every_s)


def _draw_forever(poller: Poller, every_s: float) -> int:
    """Draw until a key or a signal ends it, and return the exit code."""
    from holdfast.cli.terminal import Ended, Terminal

    # A workflow that does not exist is refused here, before the screen changes.
    frame = Frame(poller, lambda: time.time_ns() // 1_000_000, every_s)
    try:
        with Terminal(sys.stdout) as terminal:
            terminal.draw(frame.lines(*terminal.size()))
            while terminal.wait(every_s):
                terminal.draw(frame.lines(*terminal.size()))
    except Ended as ended:
        return ended.code
    return 0


class Poller:
    """Reads a workspace again only after something in it was written."""

    def __init__(self, keeper: Keeper, workflow: str | None) -> None:
        self._keeper = keeper
        self._workflow = workflow
        self._signs: list[object] = []
        self._records: list[str] = []

    def poll(self) -> Fields:
        """Return all that is shown; raise ``Refused`` if the folder is gone."""
        before = self._read_signs()
        workspace = self._keeper.workspace
        if not os.path.isdir(workspace.root):
            self._signs = []
            message = f"the folder {workspace.root} is gone"
            raise Refused("not_found", message, "run holdfast in a project's folder")
        overview = self._keeper.overview()
        if self._workflow is not None:
            state = overview.states.get(self._workflow)
            state = state or self._keeper.show(workflow=self._workflow).state
            overview.states, overview.unopened = {self._workflow: state}, 0
        more = self._keeper.watched(overview, workflow=self._workflow, limit=_MAX_EVENTS)
        self._records = [state["record"] for state in overview.states.values()]
        after = self._read_signs()
        # What was written meanwhile may not have been read: then the next look reads again.
        self._signs = after if set(before) <= set(after) else []
        branch = workspace.branch()
        name = os.path.basename(workspace.root) or workspace.root
        return {
            "title": f"{name} on {branch}" if branch else name,
            "seq": overview.seq,
            "states": overview.states,
            "unopened": overview.unopened,
            "unsettled": overview.unsettled,
            "mine": overview.mine,
            "initiative": overview.initiative,
            "damage": overview.damage,
            **more,
        }

    def is_stale(self) -> bool:
        """Return whether something was written since the last look."""
        return self._read_signs() != self._signs

    def _read_signs(self) -> list[object]:
        """Return what the file system says about the files that a change would write."""
        workspace = self._keeper.workspace
        signs: list[object] = [os.path.isdir(workspace.root)]
        try:
            with os.scandir(workspace.home) as entries:
                ledger = [entry.path for entry in entries if not entry.name.endswith(_OWN_FILES)]
        except OSError:
            ledger = []
        records = [os.path.join(workspace.root, path) for path in self._records]
        head = [] if workspace.git is None else [os.path.join(workspace.git, "HEAD")]
        for path in [*sorted(ledger), *records, *head]:
            try:
                stat = os.stat(path)
            except OSError:
                signs.append((path, None))
                continue
            signs.append((path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return signs


class Frame:
    """Makes the lines that the terminal should show now."""

    def __init__(self, poller: Poller, clock_ms: Callable[[], int], every_s: float) -> None:
        self._poller = poller
        self._clock_ms = clock_ms
        self._changes = RecentChanges()
        self._keys = f"q quits{' ' * 4}a look every {every_s:g} s"
        self._view = self._poll()

    def lines(self, width: int, height: int) -> list[str]:
        if self._poller.is_stale():
            try:
                self._view = self._poll()
            except (HoldfastError, OSError) as error:
                self._view = {**self._view, "damage": [str(error)]}
        now_ms = self._clock_ms()
        screen = Screen.of(sys.stdout)
        screen.width, screen.now = width, iso(now_ms)
        return frame_lines(screen, self._view, height, self._changes.keys(now_ms))

    def _poll(self) -> Fields:
        view = self._poller.poll()
        self._changes.compare(view, self._clock_ms())
        return {**view, "keys": self._keys}


class RecentChanges:
    """Remembers what changed from one view to the next, and when."""

    def __init__(self) -> None:
        self._known: dict[Key, object] | None = None
        self._since_ms: dict[Key, int] = {}

    def compare(self, view: Fields, now_ms: int) -> None:
        """Note what differs from the view before; in the first one nothing is a change."""
        items = view_items(view)
        if self._known is not None:
            for key, value in items.items():
                if key not in self._known or self._known[key] != value:
                    self._since_ms[key] = now_ms
        self._known = items

    def keys(self, now_ms: int) -> set[Key]:
        return {key for key, since in self._since_ms.items() if 0 <= now_ms - since < RECENT_MS}


def view_items(view: Fields) -> dict[Key, object]:
    """Return everything that can change, by a key that stays."""
    items: dict[Key, object] = {}
    for name, state in view["states"].items():
        items[name,] = (state["status"], state["title"])
        items[name, "phases"] = [(p["name"], p["status"]) for p in state["phases"]]
        items[name, "gates"] = {gate: gate_mark(fields) for gate, fields in state["gates"].items()}
        for task in state["tasks"]:
            items[name, "task", str(task["id"])] = task
    if view["initiative"] is not None:
        items["initiative",] = {**view["initiative"], "updated_at": ""}
    for event in view["events"]:
        items["event", str(event["seq"])] = event["type"]
    return items


def frame_lines(screen: Screen, view: Fields, height: int | None, changed: set[Key]) -> list[str]:
    """Return the view as lines; ``height`` is ``None`` where everything has room."""
    head = [_header(screen, view)]
    head += [
        Line(screen.mark("blocked") + " " + screen.paint(clean(text), "bad"))
        for text in view["damage"][:2]
    ]
    foot: list[Line] = []
    if height is None or height >= _MIN_FOOT_LINES:
        foot += [*_initiative(screen, view["initiative"]), _layers(screen, view["layers"])]
    if height is None or height >= _MIN_EVENT_LINES:
        room = _MAX_SHOWN_EVENTS if height is None else height // 4
        foot += _events(screen, view["events"][-room:] if room else [])
    blocks = [_block(screen, view, state) for state in view["states"].values()]
    blocks = blocks or [[Line("No workflow is active here.")]]
    if height is None:
        body = [line for block in blocks for line in block] + _more(screen, view["unopened"])
    else:
        if height > len(head) + len(foot):
            foot.append(Line(screen.dim(view["keys"])))
        body = _fitted(screen, blocks, height - len(head) - len(foot), view["unopened"])
        body += [Line("")] * (height - len(head) - len(foot) - len(body))
    return [line.show(screen, changed) for line in [*head, *body, *foot][:height]]


class Line:
    """A painted line; ``key`` is what it is about, ``is_done`` that it can be left out first."""

    def __init__(self, text: str, key: Key = (), *, is_done: bool = False) -> None:
        self.key = key
        self.text = text
        self.is_done = is_done

    def show(self, screen: Screen, changed: set[Key]) -> str:
        """Return the text within the width, behind a mark and highlighted if it changed."""
        text = screen.encoded(self.text.rstrip(" "))
        if self.key in changed:
            text = screen.highlight(("•" if screen.fancy else "*") + text)
        else:
            text = f" {text}"
        if screen.width is not None:
            text = screen.encoded(clip(text, screen.width))
        return text.rstrip(" ")


def _header(screen: Screen, view: Fields) -> Line:
    count = len(view["states"]) + view["unopened"]
    about = f"{count} workflow{'' if count == 1 else 's'}{screen.dot}event {view['seq']}"
    title, gap = clean(view["title"]), 2
    if screen.width is not None:
        gap = max(2, screen.width - 1 - count_cells(title) - count_cells(about))
    return Line(screen.paint(title, "strong") + " " * gap + screen.dim(about))


def _block(screen: Screen, view: Fields, state: Workflow) -> list[Line]:
    """Return one workflow: its name first, then its phases, tasks and gates."""
    name = state["id"]
    done = sum(task["status"] == "completed" for task in state["tasks"])
    about = screen.dim(
        f"tasks {done}/{len(state['tasks'])}" if state["tasks"] else "",
        "its record was edited: the next change takes that in" if name in view["unsettled"] else "",
        screen.age(state["updated_at"]),
    )
    strong = screen.paint(clean(name), "strong")
    title = clean(state["title"] or state["subject"] or "")
    block = [Line(f"{screen.mark(state['status'])} {strong}  {title}  {about}", (name,))]
    if state["phases"]:
        block.append(Line(_phases(screen, state), (name, "phases")))
    for task in state["tasks"]:
        used, is_done = task.get("iterations_used"), task["status"] == "completed"
        text = clean(f"{task['id']}  {task['description']}")
        facts = screen.dim(
            *[phase for phase, became in task.get("phases", {}).items() if became == "in_progress"],
            f"iteration {used}" if used else "",
            str(task.get("reason") or ""),
        )
        text = f"{screen.paint(text, 'dim') if is_done else text}  {facts}"
        key = (name, "task", str(task["id"]))
        block.append(Line(f"    {screen.mark(task['status'])} {text}", key, is_done=is_done))
    if state["gates"]:
        gates = [f"{screen.mark(gate_mark(g))} {clean(gate)}" for gate, g in state["gates"].items()]
        text = screen.paint("  gates  ", "dim") + "  ".join(gates)
        block.append(Line(text, (name, "gates")))
    return block


def _phases(screen: Screen, state: Workflow) -> str:
    """Return the phases in one line, from the one before the current."""
    names = [phase["name"] for phase in state["phases"]]
    current = names.index(state["phase"]) if state["phase"] in names else 0
    first = max(0, current - 1)
    parts = [f"{screen.mark('completed', 'dim')} {screen.dim(f'{first} before')}"] if first else []
    for number, phase in enumerate(state["phases"][first:], first):
        name = screen.paint(clean(phase["name"]), "strong" if number == current else "dim")
        parts.append(f"{screen.mark(phase['status'])} {name}")
    return "  " + "  ".join(parts)


def _initiative(screen: Screen, initiative: Fields | None) -> list[Line]:
    if initiative is None:
        return []
    milestone = initiative["current_milestone"]
    about = screen.dim(
        f"at {milestone}" if milestone else "",
        initiative["status"].replace("_", " "),
        f"milestones {initiative['completed']}/{initiative['total']}",
    )
    name = screen.paint(clean(initiative["name"]), "strong")
    return [Line(f"{screen.paint('initiative  ', 'dim')}{name}  {about}", ("initiative",))]


def _layers(screen: Screen, layers: list[Fields]) -> Line:
    parts = []
    for layer in layers:
        about, status = layer["target"], layer["status"]
        if status == "behind" and "seq" in layer:
            about += f" at event {layer['seq']}"
        elif status not in ("current", "behind"):
            about += f" ({status})"
        parts.append(screen.row(_LAYER_MARKS.get(status, "pending"), about))
    return Line(screen.paint("layers  ", "dim") + "  ".join(parts))


def _events(screen: Screen, events: list[Event]) -> list[Line]:
    widest = max([count_cells(clean(event["stream"])) for event in events], default=0)
    lines = [Line("")] if events else []
    for event in events:
        at = screen.paint(f"{event['seq']:>5}  {clean(event['at'])[11:19]}", "dim")
        stream = pad(clean(event["stream"]), min(widest, _STREAM_MAX))
        kind = screen.paint(clean(event["type"]), "active")
        text = f"{at}  {stream}  {kind}  {screen.dim(event_text(event))}"
        lines.append(Line(text, ("event", str(event["seq"]))))
    return lines


def _fitted(screen: Screen, blocks: list[list[Line]], room: int, unopened: int) -> list[Line]:
    """Return the first lines of as many workflows as fit, then details from the top."""
    if room <= 0:
        return []
    last: list[Line] = []
    if unopened or len(blocks) > room:
        room -= 1
        last = _more(screen, unopened + max(0, len(blocks) - room))
        blocks = blocks[:room]
    free = room - len(blocks)
    lines: list[Line] = []
    for first, *details in blocks:
        chosen = _choose(screen, details, free)
        free -= len(chosen)
        lines += [first, *chosen]
    return lines + last


def _more(screen: Screen, count: int) -> list[Line]:
    """Return a line about the workflows that are not shown."""
    what = "workflow" if count == 1 else "workflows"
    return [Line(screen.dim(f"… and {count} more {what}"))] if count else []


def _choose(screen: Screen, details: list[Line], room: int) -> list[Line]:
    """Return as many lines as there is room for, those about open work first."""
    if len(details) <= room:
        return details
    if room < 1:
        return []
    ranked = sorted(range(len(details)), key=lambda number: (details[number].is_done, number))
    if room == 1:
        return [details[ranked[0]]]
    kept = [details[number] for number in sorted(ranked[: room - 1])]
    return [*kept, Line(screen.dim(f"    … and {len(details) - len(kept)} more"))]
