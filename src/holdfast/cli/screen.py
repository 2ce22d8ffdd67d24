"""Answers for people: colour and glyphs where the terminal has them, plain lines where not.

Stored text reaches the screen through ``terminal_text.clean`` alone, here and in ``panels``.
"""

from __future__ import annotations

import os

from holdfast.cli.terminal_text import cells, clean, shortened, wrapped
from holdfast.core.refusal import word as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal, TextIO

    from holdfast.cli.shapes import Answer
    from holdfast.core.types import Workflow

    Tone = Literal["good", "active", "bad", "warn", "dim", "strong"]

_TONES = {"good": "32", "active": "36", "bad": "31", "warn": "33", "dim": "2", "strong": "1"}
_MARKS: dict[str, tuple[str, str, Tone]] = {
    "completed": ("✓", "[x]", "good"),
    "in_progress": ("▶", "[>]", "active"),
    "pending": ("○", "[ ]", "dim"),
    "blocked": ("✗", "[!]", "bad"),
}
_NARROWEST, _USUAL, _LONGEST = 20, 80, 200
_AS_THEY_ARE = ("demo", "script", "candidates", "settings")
"""What is not wrapped: the demonstration told itself, and what completes a command line is for a
shell; a line of a diff is one line."""


class Screen:
    """What a stream can show. ``width`` is ``None`` where lines need not end."""

    __slots__ = ("colour", "encoding", "fancy", "now", "width")

    def __init__(
        self,
        *,
        colour: bool = False,
        fancy: bool = True,
        width: int | None = None,
        now: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self.colour = colour
        self.fancy = fancy
        self.width = width
        self.now = now
        self.encoding = encoding

    @classmethod
    def of(cls, out: TextIO) -> Screen:
        encoding = out.encoding or "ascii"
        terminal = out.isatty()
        return cls(
            colour=_wants_colour(terminal=terminal),
            fancy=_can_encode("✓▶○✗·…", encoding),
            width=_terminal_width(out) if terminal else None,
            encoding=None if encoding.lower().startswith("utf") else encoding,
        )

    def paint(self, text: str, tone: Tone) -> str:
        """Already clean text in a colour."""
        return f"\x1b[{_TONES[tone]}m{text}\x1b[0m" if self.colour and text else text

    def mark(self, status: str) -> str:
        return self.paint(*self.glyph(status))

    def glyph(self, status: str) -> tuple[str, Tone]:
        """The mark of a status, not painted yet, and its colour."""
        glyph, spelled, tone = _MARKS.get(status, _MARKS["in_progress"])
        return glyph if self.fancy else spelled, tone

    def dot(self) -> str:
        return " · " if self.fancy else ", "

    def age(self, then: str) -> str:
        from holdfast.core.time import age, iso

        if self.now is None:
            import time

            self.now = iso(time.time_ns() // 1_000_000)
        return age(self.now, then)

    def fitted(self, line: str, taken: int = 0) -> str:
        """Clean, unpainted text cut to what is left of the line."""
        return line if self.width is None else shortened(line, max(10, self.width - taken))

    def encoded(self, line: str) -> str:
        """The line with whatever the stream's encoding lacks shown as an escape."""
        if self.encoding is None:
            return line
        spelled = line if self.fancy else line.replace("…", "~")
        return spelled.encode(self.encoding, "backslashreplace").decode(self.encoding)


def lines(answer: Answer, out: TextIO) -> Iterator[str]:
    """The answer as lines that the stream can take."""
    screen = Screen.of(out)
    render = _RENDERERS[answer["kind"]]
    for line in render(screen, answer["data"]):
        if screen.width is None or answer["kind"] in _AS_THEY_ARE:
            yield screen.encoded(line)
        else:
            yield from wrapped(screen.encoded(line), screen.width)


def _change(screen: Screen, data: Any) -> Iterator[str]:
    state = data["receipt"].state
    position = clean(screen.dot().join(progress(state)))
    said = shortened(clean(data["said"]), screen.width or _LONGEST)
    if screen.width and cells(said) + cells(position) + 4 > screen.width:
        said = shortened(said, max(screen.width - cells(position) - 4, screen.width // 2))
    yield f"{screen.mark('completed')} {said}  {screen.paint(position, 'dim')}".rstrip()
    yield from note_lines(screen, data["receipt"].notes)
    yield from next_lines(screen, state, aimed=data["aimed"])


def _run(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.panels import run_panel

    yield from run_panel(screen, data)
    yield from note_lines(screen, data["receipt"].notes)
    yield from next_lines(screen, data["receipt"].state, aimed=data["aimed"])


def _panel(
    module: str, name: str, *, noted: bool = False
) -> Callable[[Screen, Any], Iterable[str]]:
    """A picture that a module of its own draws, loaded when it is wanted."""

    def render(screen: Screen, data: Any) -> Iterator[str]:
        draw = getattr(__import__(f"holdfast.cli.{module}", fromlist=(name,)), name)
        yield from draw(screen, data)
        if noted:
            yield from note_lines(screen, data["notes"])

    return render


def _plan(screen: Screen, data: Any) -> Iterator[str]:
    yield f"{screen.mark('in_progress')} {clean(data['does'])}"
    if data["context"]:
        yield ""
        for line in data["context"].split("\n"):
            yield clean(line)


_CHECK_MARKS = {"good": "completed", "bad": "blocked", "unknown": "pending"}


def _check(screen: Screen, data: Any) -> Iterator[str]:
    for check in data["checks"]:
        mark = screen.mark(_CHECK_MARKS[check["status"]])
        yield f"{mark} {clean(check['what'])}  {screen.paint(clean(check['found']), 'dim')}"
        if check["hint"]:
            yield f"  next: {clean(check['hint'])}"


def _ended(screen: Screen, data: Any) -> Iterator[str]:
    yield from _change(screen, data)
    if data["signal"]:
        yield clean(data["signal"])


def _gates(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.panels import gate_lines

    state = data["receipt"].state
    yield from gate_lines(screen, state["gates"], "") if state["gates"] else ["No gate is known."]
    yield from note_lines(screen, data["receipt"].notes)


def _wishes(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.commands.approval import wish_lines

    yield from wish_lines(screen, data["wishes"], data["not_covered"])
    yield from note_lines(screen, data["notes"])


def _cleaned(screen: Screen, data: Any) -> Iterator[str]:
    would = "would leave" if data["dry_run"] else "left"
    for row in data["gone"]:
        about = screen.paint(clean(f"{row['why']}{screen.dot()}{row['record']}"), "dim")
        yield f"{screen.mark('completed')} {clean(row['id'])} {would} the folder  {about}"
    if not data["gone"]:
        yield "Nothing is old enough to go."
    elif not data["dry_run"]:
        yield screen.paint("  holdfast resume ID brings each of them back", "dim")
    yield from note_lines(screen, data["notes"])


def _started(screen: Screen, data: Any) -> Iterator[str]:
    state = data["receipt"].state
    title = clean(state["title"] or state["subject"])
    said = screen.paint(clean(data["said"]), "strong")
    yield f"{screen.mark('in_progress')} {said}" + (f"  {title}" if title else "")
    yield screen.paint(f"  record: {clean(state['record'])}", "dim")
    yield from note_lines(screen, data["receipt"].notes)
    yield from next_lines(screen, state, aimed=data["aimed"])


def _workflow(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.panels import workflow_panel

    state = data["receipt"].state
    yield from workflow_panel(screen, state, data["receipt"].record)
    yield from note_lines(screen, data["receipt"].notes)
    yield from next_lines(screen, state, aimed=data["aimed"])


def _briefing(screen: Screen, data: Any) -> Iterator[str]:
    """The briefing itself for whoever reads it from a pipe; a picture for a person."""
    if screen.width is None:
        for line in data["briefing"].split("\n"):
            yield clean(line)
        yield from note_lines(screen, data["receipt"].notes)
        return
    from holdfast.cli.resuming import resume_panel

    yield from resume_panel(screen, data["receipt"].state, data["branch"])
    yield from note_lines(screen, data["receipt"].notes)
    yield from next_lines(screen, data["receipt"].state, aimed=data["aimed"])


def _workflows(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.panels import status_table

    if data["rows"]:
        yield from status_table(screen, data["rows"])
    else:
        yield "No workflow is active here."
        yield screen.paint("  next: holdfast start RECIPE SUBJECT", "dim")
    yield from note_lines(screen, data["notes"])


def _events(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.panels import event_lines

    return event_lines(screen, data)


def _stream(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.panels import event_line

    for event in data:
        yield event_line(screen, event)


def _report(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.panels import report_panel

    return report_panel(screen, data["report"], data["command"])


def _recipes(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.recipe_panels import recipe_table

    return recipe_table(screen, data["recipes"])


def _recipe(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.cli.recipe_panels import recipe_panel

    return recipe_panel(screen, data["recipe"], data["source"])


def _candidates(_screen: Screen, data: Any) -> Iterable[str]:
    return data["lines"]  # type: ignore[no-any-return]


def _text(_screen: Screen, data: Any) -> Iterator[str]:
    for text in data.values():
        yield from text.split("\n")


def _demo(_screen: Screen, _data: Any) -> Iterable[str]:
    """It told its story while it ran."""
    return ()


def _failure(screen: Screen, data: Any) -> Iterator[str]:
    from holdfast.core.selection import MAX_NAMED, listed

    yield f"{screen.paint('holdfast:', 'bad')} {clean(data['message'])}"
    said = f"{data['message']} {data['hint']}"
    for name, value in data.get("details", {}).items():
        items = [str(item) for item in _leaves(value)]
        most = MAX_NAMED if name == "candidates" else len(items)
        if not all(item in said for item in items[:most]):
            yield f"  {clean(name)}: {clean(listed(items, most))}"
    if data["hint"]:
        yield f"  next: {clean(data['hint'])}"


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return [value]
    return [leaf for item in value for leaf in _leaves(item)]


def progress(state: Workflow) -> list[str]:
    """``phase 2/5 build`` and ``tasks 3/7``, as far as there are any."""
    parts = []
    names = [phase["name"] for phase in state["phases"]]
    if state["phase"] in names:
        place = names.index(state["phase"]) + 1
        parts.append(f"phase {place}/{len(names)} {state['phase']}")
    if state["tasks"]:
        done = [task for task in state["tasks"] if task["status"] == "completed"]
        parts.append(f"tasks {len(done)}/{len(state['tasks'])}")
    return parts


def next_lines(screen: Screen, state: Workflow, *, aimed: bool) -> Iterator[str]:
    """What comes next; a workflow that must be named, or was by the user, is named."""
    from holdfast.core.next_step import next_step

    following = next_step(state, is_named=aimed)
    if following is None:
        return
    about, words = following
    command = clean(" ".join(["holdfast", *[quote(word) for word in words]]))
    about = screen.fitted(clean(about), len(command) + len("  next:    "))
    yield f"  next: {command}" + screen.paint(f"   {about}", "dim")


def note_lines(screen: Screen, notes: list[str]) -> Iterator[str]:
    for note in notes:
        yield screen.paint(f"  note: {clean(note)}", "warn")


def _wants_colour(*, terminal: bool) -> bool:
    """What the person says, else what the terminal can do. See no-color.org, force-color.org."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


def _can_encode(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _terminal_width(out: TextIO) -> int:
    said = os.environ.get("COLUMNS", "")
    columns = int(said) if said.isascii() and said.isdigit() and len(said) < 5 else 0
    if not columns:
        try:
            columns = os.get_terminal_size(out.fileno()).columns
        except OSError:
            columns = 0
    return max(_NARROWEST, columns or _USUAL)


_RENDERERS: dict[str, Callable[[Screen, Any], Iterable[str]]] = {
    "here": _panel("commands.overview", "here_lines", noted=True),
    "watch": _panel("watch_page", "whole_page"),
    "change": _change,
    "started": _started,
    "workflow": _workflow,
    "briefing": _briefing,
    "workflows": _workflows,
    "events": _events,
    "stream": _stream,
    "report": _report,
    "run": _run,
    "gates": _gates,
    "wishes": _wishes,
    "cleaned": _cleaned,
    "ended": _ended,
    "plan": _plan,
    "silence": _demo,
    "check": _check,
    "turn": _panel("loop_panels", "turn_panel"),
    "loops": _panel("loop_panels", "loops_panel"),
    "driven": _panel("loop_panels", "driven_panel"),
    "unverified": _panel("loop_panels", "unverified_panel"),
    "settings": _panel("setup_panel", "settings_panel", noted=True),
    "layers": _panel("commands.layers", "layer_lines", noted=True),
    "recipes": _recipes,
    "recipe": _recipe,
    "script": _text,
    "candidates": _candidates,
    "text": _text,
    "demo": _demo,
    "page": _panel("pages", "lines", noted=True),
    "failure": _failure,
}
