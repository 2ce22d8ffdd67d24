"""``holdfast watch``: what happens in a workspace, drawn until a key or a signal ends it.

It only reads. Between two looks it asks the file system whether anything was written since, and
opens nothing if not. Without a terminal to draw on, it shows the workspace once. ``frame_lines`` is
pure: the same view, size and time give the same lines, never wider and never more than asked for.
A frame is drawn whole, on the terminal's alternate screen, so what was there comes back at the end.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty

from holdfast import answers
from holdfast.answers.events import event_text
from holdfast.cli.answer import Answer, Silence, StreamAnswer
from holdfast.cli.commands.questions import question_row
from holdfast.cli.commands.upkeep import STREAM_MAX_COLUMNS
from holdfast.cli.commands.workflow import gate_mark
from holdfast.cli.parser import WORKFLOW, Parameter, command
from holdfast.cli.screen import Screen, clip, count_cells, counted, pad
from holdfast.core.time import iso
from holdfast.core.visible import clean
from holdfast.core.workflow.questions import open_questions
from holdfast.errors import HoldfastError, Refused
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any, TextIO

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Event, Fields, Workflow
    from holdfast.keeper import Keeper

    Key = tuple[str, ...]

RECENT_MS = 10_000
"""The time for which a change is marked."""
_MAX_EVENTS, _MAX_SHOWN_EVENTS = 20, 8
_MIN_FOOT_LINES, _MIN_EVENT_LINES = 6, 10
"""The least lines of a window with room for the foot, and for events."""
_LAYER_MARKS = {"current": "completed", "behind": "pending", "unavailable": "blocked"}
_OWN_FILES = ("lock", "-wal", "-shm", "-journal")
"""Suffixes of files in the ledger's folder to ignore, because reading changes them too."""
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A terminal that supports these marks shows the output between them at once."""
_CLEAR = "\x1b[2J"
_QUIT_KEYS = b"qQ\x04"
_ESCAPE = b"\x1b"
_USUAL_SIZE = (80, 24)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
            lambda: answers.watched(view), lambda screen: frame_lines(screen, view, None, set())
        )
    # A workflow that does not exist is refused here, before the screen changes.
    frame = Frame(poller, lambda: time.time_ns() // 1_000_000, every_s)
    terminal = Terminal(sys.stdout)
    try:
        with terminal:
            terminal.draw(frame.lines(*terminal.size()))
            while terminal.wait(every_s):
                terminal.draw(frame.lines(*terminal.size()))
    except KeyboardInterrupt:
        return Silence(code=128 + terminal.ended_by)
    return Silence()


def _poll_forever(poller: Poller, every_s: float) -> Iterator[Fields]:
    """Yield a view at once, and another after every change."""
    while True:
        yield {"ok": True, **answers.watched(poller.poll())}
        while not poller.is_stale():
            time.sleep(every_s)


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
        details = self._keeper.watched(overview, workflow=self._workflow, limit=_MAX_EVENTS)
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
            **details,
        }

    def is_stale(self) -> bool:
        """Return whether something was written since the last look."""
        return self._read_signs() != self._signs

    def _read_signs(self) -> list[object]:
        """Return what the file system says about the files that a change would write."""
        workspace = self._keeper.workspace
        signs: list[object] = [os.path.isdir(workspace.root)]
        try:
            names = names_in(workspace.home)
            ledger = [os.path.join(workspace.home, n) for n in names if not n.endswith(_OWN_FILES)]
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
    """Makes the lines that the terminal should show now, and marks what changed a moment ago."""

    def __init__(self, poller: Poller, clock_ms: Callable[[], int], every_s: float) -> None:
        self._poller = poller
        self._clock_ms = clock_ms
        self._keys = f"q quits{' ' * 4}a look every {every_s:g} s"
        self._items: dict[Key, object] = {}
        self._changed_ms: dict[Key, int] = {}
        self._view = self._poll()
        self._changed_ms.clear()  # in the first view nothing is a change

    def lines(self, width: int, height: int) -> list[str]:
        if self._poller.is_stale():
            try:
                self._view = self._poll()
            except (HoldfastError, OSError) as error:
                self._view = {**self._view, "damage": [str(error)]}
        now_ms = self._clock_ms()
        changed = {key for key, ms in self._changed_ms.items() if 0 <= now_ms - ms < RECENT_MS}
        screen = Screen.of(sys.stdout)
        screen.width, screen.now = width, iso(now_ms)
        return frame_lines(screen, self._view, height, changed)

    def _poll(self) -> Fields:
        view, before, now_ms = self._poller.poll(), self._items, self._clock_ms()
        self._items = view_items(view)
        for key, value in self._items.items():
            if key not in before or before[key] != value:
                self._changed_ms[key] = now_ms
        return {**view, "keys": self._keys}


def view_items(view: Fields) -> dict[Key, object]:
    """Return everything that can change, by a key that stays."""
    items: dict[Key, object] = {}
    for name, state in view["states"].items():
        items[name,] = (state["status"], state["title"])
        items[name, "phases"] = [(p["name"], p["status"]) for p in state["phases"]]
        items[name, "gates"] = {gate: gate_mark(state, gate) for gate in state["gates"]}
        for task in state["tasks"]:
            items[name, "task", str(task["id"])] = task
        for question in open_questions(state):
            items[name, "question", str(question["id"])] = question
    if view["initiative"] is not None:
        items["initiative",] = {**view["initiative"], "updated_at": ""}
    for event in view["events"]:
        items["event", str(event["seq"])] = event["type"]
    return items


def frame_lines(screen: Screen, view: Fields, height: int | None, changed: set[Key]) -> list[str]:
    """Return the view as lines; ``height`` is ``None`` where everything has room."""
    count = len(view["states"]) + view["unopened"]
    about = f"{counted(count, 'workflows')}{screen.dot}event {view['seq']}"
    title, gap = clean(view["title"]), 2
    if screen.width is not None:
        gap = max(2, screen.width - 1 - count_cells(title) - count_cells(about))
    head = [Line(screen.paint(title, "strong") + " " * gap + screen.dim(about))]
    damage = [screen.paint(clean(text), "bad") for text in view["damage"][:2]]
    head += [Line(f"{screen.mark('blocked')} {text}") for text in damage]
    foot: list[Line] = []
    if height is None or height >= _MIN_FOOT_LINES:
        foot += _foot(screen, view)
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
        room = height - len(head) - len(foot)
        body = _fitted(screen, blocks, room, view["unopened"])
        body += [Line("")] * (room - len(body))
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
        # In one line, from the one before the current.
        names = [phase["name"] for phase in state["phases"]]
        current = names.index(state["phase"]) if state["phase"] in names else 0
        first = max(0, current - 1)
        before = f"{screen.mark('completed', 'dim')} {screen.dim(f'{first} before')}"
        phases = [before] if first else []
        for number, phase in enumerate(state["phases"][first:], first):
            text = screen.paint(clean(phase["name"]), "strong" if number == current else "dim")
            phases.append(f"{screen.mark(phase['status'])} {text}")
        block.append(Line("  " + "  ".join(phases), (name, "phases")))
    for question in open_questions(state):
        key = (name, "question", str(question["id"]))
        block.append(Line(f"    {question_row(screen, question)}", key))
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
        gates = [f"{screen.mark(gate_mark(state, g))} {clean(g)}" for g in state["gates"]]
        text = screen.paint("  gates  ", "dim") + "  ".join(gates)
        block.append(Line(text, (name, "gates")))
    return block


def _foot(screen: Screen, view: Fields) -> list[Line]:
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
        lines.append(Line(f"{screen.paint('initiative  ', 'dim')}{name}  {about}", ("initiative",)))
    layers = []
    for layer in view["layers"]:
        about, status = layer["target"], layer["status"]
        if status == "behind" and "seq" in layer:
            about += f" at event {layer['seq']}"
        elif status not in ("current", "behind"):
            about += f" ({status})"
        layers.append(screen.row(_LAYER_MARKS.get(status, "pending"), about))
    return [*lines, Line(screen.paint("layers  ", "dim") + "  ".join(layers))]


def _events(screen: Screen, events: list[Event]) -> list[Line]:
    widest = max([count_cells(clean(event["stream"])) for event in events], default=0)
    lines = [Line("")] if events else []
    for event in events:
        at = screen.paint(f"{event['seq']:>5}  {clean(event['at'])[11:19]}", "dim")
        stream = pad(clean(event["stream"]), min(widest, STREAM_MAX_COLUMNS))
        kind = screen.paint(clean(event["type"]), "active")
        text = f"{at}  {stream}  {kind}  {screen.paint(event_text(event), 'dim')}"
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
    more = counted(count, "more workflows")
    return [Line(screen.dim(f"… and {more}"))] if count else []


def _choose(screen: Screen, details: list[Line], room: int) -> list[Line]:
    """Return as many lines as there is room for, those about open work first."""
    if len(details) <= room:
        return details
    if room < 1:
        return []
    ranked = sorted(range(len(details)), key=lambda number: (details[number].is_done, number))
    if room == 1:
        return [details[ranked[0]]]
    chosen = [details[number] for number in sorted(ranked[: room - 1])]
    return [*chosen, Line(screen.dim(f"    … and {len(details) - len(chosen)} more"))]


class Terminal:
    """The terminal behind ``out``, for as long as the ``with`` lasts."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._keys = 0 if os.isatty(0) else -1
        self._saved: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._wake = (-1, -1)
        """A pipe into which every signal writes, so that it ends the wait for a key."""
        self._frame = ""
        """The text that is drawn; empty if the window may show something else."""
        self._is_to_stop = False
        self._is_ending = False
        self.ended_by: int = signal.SIGINT
        """The signal after which ``KeyboardInterrupt`` is raised."""

    def __enter__(self) -> None:
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in (*_ENDING, signal.SIGTSTP, signal.SIGWINCH):
            self._handlers[number] = signal.signal(number, self._handle_signal)
        try:
            self._enter_screen()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_error: object) -> None:
        self._is_ending = True
        self._leave_screen()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        for end in self._wake:
            os.close(end)

    def _enter_screen(self) -> None:
        if self._keys >= 0:
            self._saved = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSANOW)
        self._frame = ""
        self._write(_ENTER)

    def _leave_screen(self) -> None:
        try:
            self._write(_LEAVE)
            if self._saved is not None:
                termios.tcsetattr(self._keys, termios.TCSANOW, self._saved)
        except OSError:
            # The terminal is gone, so there is nothing to restore.
            return

    def _handle_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in _ENDING and not self._is_ending:
            self._is_ending = True  # a second signal must not interrupt the leaving
            self.ended_by = number
            raise KeyboardInterrupt
        self._is_to_stop = self._is_to_stop or number == signal.SIGTSTP

    def size(self) -> tuple[int, int]:
        """Return columns and lines as they are now."""
        try:
            columns, lines = os.get_terminal_size(self._out.fileno())
        except OSError:
            return _USUAL_SIZE
        return (columns, lines) if columns and lines else _USUAL_SIZE

    def draw(self, lines: list[str]) -> None:
        """Draw the whole frame, one line for each of the window, unless it is shown already."""
        # A line is cleared first: after it, the terminal may count columns otherwise than we do.
        rows = [f"\x1b[{row};1H\x1b[0m\x1b[K{line}" for row, line in enumerate(lines, 1)]
        frame = "".join(rows)
        if frame != self._frame:
            clear = "" if self._frame else _CLEAR
            self._write(f"{_BEGIN}{clear}{frame}{_END}")
            self._frame = frame

    def wait(self, seconds: float) -> bool:
        """Wait for a key, a signal or the time; return whether to go on."""
        watched = [self._wake[0], *([self._keys] if self._keys >= 0 else [])]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._wake[0] in ready:
            os.read(self._wake[0], 512)
            self._frame = ""
        if self._is_to_stop:
            # Ctrl-Z: the shell has its terminal until ``fg``.
            self._is_to_stop = False
            self._leave_screen()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._enter_screen()
        if self._keys not in ready:
            return True
        keys = os.read(self._keys, 64)
        if not keys:
            self._keys = -1
        if keys.startswith(_ESCAPE):
            return keys != _ESCAPE  # with more behind it, it is another key, such as an arrow
        return not any(key in _QUIT_KEYS for key in keys)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
