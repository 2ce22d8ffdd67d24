"""``holdfast completion``: a script for a shell, and the candidates that the script asks for.

The scripts know no command: at every Tab they ask here. So one that was installed long ago is never
out of step, and the line is read by the parser that reads it afterwards. Nothing in it is expanded
or run: a quote is only taken off, or put on.
"""

from __future__ import annotations

import os

from holdfast.answers.documents import REPORT_FORMATS
from holdfast.cli.answer import Answer
from holdfast.cli.main import open_keeper
from holdfast.cli.parser import GROUPS, Parameter, Usage, WordReader, command, load_all, next_words
from holdfast.cli.screen import count_cells, pad, shorten
from holdfast.core.logs import LEARNING_KINDS
from holdfast.core.refusal import Refusal
from holdfast.core.selection import ACTIVE, short_id
from holdfast.core.visible import clean
from holdfast.core.workflow.evidence import SEVERITIES
from holdfast.errors import HoldfastError
from holdfast.hub import Sharing
from holdfast.hub.contract import KINDS
from holdfast.initiatives import Initiatives
from holdfast.install.agents import AGENTS
from holdfast.keeper.event_log import event_types
from holdfast.keeper.logs import unknown_folders
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.cli.parser import Arguments
    from holdfast.core.types import Question, Workflow
    from holdfast.keeper import Keeper

    Candidates = list[tuple[str, str]]
    """Values, each with a word about it."""

SHELLS = ("bash", "zsh", "fish")
_SCRIPTS = os.path.join(os.path.dirname(__file__), os.pardir, "completions")
_MAX_WORKFLOWS = 200
_MAX_ABOUT_COLUMNS = 60
_BASH_PLAIN = "@%+=:,./-_"
"""Characters that bash leaves alone, besides letters and digits."""
_BASH_BREAKS = "=:@"
"""Characters at which bash breaks a word, besides spaces and quotes: ``COMP_WORDBREAKS``."""
_IN_DOUBLE_QUOTES = '$`"\\'
"""Characters before which a backslash counts inside double quotes."""


@command(
    "completion: print a completion script for a shell",
    Parameter("SHELL", "bash, zsh or fish", names="shell"),
    Parameter("[WORD]...", "asked by the script: the command line so far, after --", into="words"),
    "holdfast completion bash",
    "holdfast completion zsh -- task ''",
    workspace=False,
)
def answer(args: Arguments) -> Answer:
    shell = args["shell"]
    if shell not in SHELLS:
        message = f"there is a completion for {', '.join(SHELLS)}, not for {clean(shell)!r}"
        raise Usage(message, "holdfast completion bash")
    if not args["words"]:
        with open(os.path.join(_SCRIPTS, shell), encoding="utf-8") as file:
            script = file.read().rstrip("\n")
        return Answer({"script": script}, lambda _screen: script.split("\n"), is_wrapped=False)
    words, prefix, open_quote = args["words"], "", ""
    if shell == "bash":
        words, prefix, open_quote = join_pieces(words)
    else:
        # fish has taken the quotes off, but for the word that is being typed.
        before = words[:-1] if shell == "fish" else [unquote(word)[0] for word in words[:-1]]
        words = [*before, unquote(words[-1])[0]]
    # Skip values that cannot be typed: they are not one line of visible text.
    pairs = [(value, about) for value, about in candidates(words) if clean(value) == value]
    if shell == "bash":
        fitting = [value for value, _ in pairs if value.startswith(words[-1])]
        lines = [quote(value[len(prefix) :], open_quote) for value in fitting]
    else:
        # A value, a tab, and what the shell shows of it.
        width = max([count_cells(value) for value, _ in pairs], default=0)
        texts = {v: f"{pad(v, width)}  -- " if shell == "zsh" else "" for v, _ in pairs}
        lines = [f"{v}\t{texts[v]}{about}" if about else v for v, about in pairs]
    rows = [{"value": value, "about": about} for value, about in pairs]
    return Answer({"candidates": rows}, lambda _screen: lines, is_wrapped=False)


def join_pieces(pieces: list[str]) -> tuple[list[str], str, str]:
    """Return the words, what bash keeps of the last one before a candidate, and the open quote.

    Bash hands ``--workflow=dev`` over in three pieces, and replaces the last of them alone.
    """
    words: list[str] = []
    prefix_length, goes_on = 0, False
    for piece in pieces:
        is_break = bool(piece) and all(char in _BASH_BREAKS for char in piece)
        if words and (goes_on or (is_break and piece[0] != "@")):
            words[-1] += piece
        else:
            words.append(piece)
            prefix_length = 0
        if is_break:
            # An @ is a break, and belongs to what is replaced all the same.
            prefix_length = len(words[-1].rstrip("@"))
        goes_on = is_break
    *before, last = words
    text, open_quote, begin = unquote(last)
    prefix = unquote(last[: max(prefix_length, begin if open_quote else 0)])[0]
    return [*[unquote(word)[0] for word in before], text], prefix, open_quote


def unquote(word: str) -> tuple[str, str, int]:
    """Return the word without quotes, the quote that is still open, and where its inside begins."""
    text, open_quote, begin, escaped = "", "", 0, False
    for index, char in enumerate(word):
        if escaped:
            text += char if not open_quote or char in _IN_DOUBLE_QUOTES else f"\\{char}"
            escaped = False
        elif char == "\\" and open_quote != "'":
            escaped = True
        elif open_quote == char:
            open_quote = ""
        elif not open_quote and char in "'\"":
            open_quote, begin = char, index + 1
        else:
            text += char
    return text, open_quote, begin


def quote(text: str, open_quote: str) -> str:
    """Return the text as bash takes it, inside an open quote or outside of any."""
    if not open_quote:
        return "".join([c if c.isalnum() or c in _BASH_PLAIN else f"\\{c}" for c in text])
    if open_quote == "'":
        inside = text.replace("'", "'\\''")
    else:
        inside = "".join([f"\\{char}" if char in _IN_DOUBLE_QUOTES else char for char in text])
        # No backslash keeps an exclamation mark from the history inside double quotes.
        inside = inside.replace("!", '"\\!"')
    # Bash takes a single quote at either end for the end of the word, so it is doubled.
    opening = open_quote if inside.startswith(open_quote) else ""
    return opening + inside + (open_quote if inside.endswith(open_quote) else "")


def candidates(words: list[str]) -> Candidates:
    """Return the candidates for the last word, not filtered by what was typed of it."""
    *before, current = words
    reader, awaiting = WordReader(before), None
    try:
        reader.read()
    except Usage:
        # The last word may be an option whose value comes next; else the words are wrong.
        reader = WordReader(before[:-1])
        try:
            reader.read()
        except Usage:
            return []
        awaiting = reader.options.get(before[-1])
        if awaiting is None:
            return []
    has_ended = "--" in before
    name, equals, value = current.partition("=")
    if awaiting is None and name.startswith("-") and not has_ended:
        option = reader.options.get(name)
        if equals and option is not None:
            return [(f"{name}={v}", about) for v, about in find_values(option, reader, value)]
        return [
            (name, _short(option.about))
            for name, option in reader.options.items()
            if name != option.short and (option.is_many or option.into not in reader.values)
        ]
    names: Candidates = []
    if awaiting is None:
        names = [] if reader.positionals else _names(reader.path)
        arguments = reader.command.arguments if reader.command else []
        index = len(reader.positionals)
        if arguments and arguments[-1].is_many:
            index = min(index, len(arguments) - 1)
        awaiting = arguments[index] if index < len(arguments) else None
    values = [] if awaiting is None else find_values(awaiting, reader, current)
    # A name that begins with a dash would be read as an option.
    return [*names, *[pair for pair in values if has_ended or not pair[0].startswith("-")]]


def _names(path: list[str]) -> Candidates:
    """Return the words with which a command's name can go on."""
    about = {**{name: spec.about for name, spec in load_all().items()}, **GROUPS}
    return [(word, _short(about[" ".join([*path, word])])) for word in next_words(" ".join(path))]


def find_values(parameter: Parameter, reader: WordReader, current: str) -> Candidates:
    """Return the values that a parameter can have here."""
    find = _FINDERS.get(parameter.names)
    try:
        return find(reader, current) if find is not None else []
    except (HoldfastError, OSError):
        # There is no workspace, or it cannot be read: the command itself will say so.
        return []


def _units(reader: WordReader, _current: str) -> Candidates:
    """Return the units of the loop that is named, or of the active ones."""
    keeper = _keeper(reader)
    workflow = reader.values.get("workflow")
    units: dict[str, str] = {}
    for row in keeper.known(most=_MAX_WORKFLOWS, format="loop"):
        if row["status"] in ACTIVE and workflow in (None, row["id"]):
            state = keeper.peek(workflow=row["id"])
            tasks = [] if isinstance(state, Refusal) else state["tasks"]
            units |= {str(task["id"]): _short(task["description"]) for task in tasks}
    return list(units.items())


def _workflows(reader: WordReader, format: str | None = None) -> Candidates:
    rows = _keeper(reader).known(most=_MAX_WORKFLOWS, format=format)
    return [(r["id"], _short(f"{r['status'].replace('_', ' ')}: {r['title']}")) for r in rows]


def _files(reader: WordReader, current: str) -> Candidates:
    """Return paths from the worktree's root, as every command takes them."""
    folder, slash, name_start = current.rpartition("/")
    root = _keeper(reader).workspace.root
    top = os.path.join(root, folder + slash)
    has_hidden = name_start.startswith(".")
    names = [name for name in names_in(top) if has_hidden or name[0] != "."]
    ends = ["/" if os.path.isdir(os.path.join(top, name)) else "" for name in names]
    return [(folder + slash + name + end, "") for name, end in zip(names, ends, strict=True)]


def _state(reader: WordReader) -> Workflow:
    """Return the workflow that the line is about; raise if there is none."""
    state = _keeper(reader).peek(workflow=reader.values.get("workflow"))
    if isinstance(state, Refusal):
        raise HoldfastError(state.code, state.message, state.hint)
    return state


def _keeper(reader: WordReader) -> Keeper:
    return open_keeper({"session": reader.values.get("session")})


def _questions(reader: WordReader) -> list[Question]:
    """Return the open questions of the workflow that the line is about, else of all."""
    keeper, workflow = _keeper(reader), reader.values.get("workflow")
    rows = keeper.open_questions()
    return [row for row in rows if workflow in (None, row["workflow"])]  # type: ignore[misc]


def _short(about: object) -> str:
    return shorten(clean(about), _MAX_ABOUT_COLUMNS)


def _plain(names: Iterable[str]) -> Candidates:
    return [(name, "") for name in names]


_FINDERS: dict[str, Callable[[WordReader, str], Candidates]] = {
    "workflow": lambda reader, _: _workflows(reader),
    "loop": lambda reader, _: _workflows(reader, "loop"),
    "recipe": lambda reader, _: [
        (row["name"], _short(row["title"] or ""))
        for row in _keeper(reader).recipes()
        if "bad" not in row
    ],
    "phase": lambda reader, _: [
        (phase["name"], phase["status"].replace("_", " ")) for phase in _state(reader)["phases"]
    ],
    "step": lambda reader, _: [
        (step, "")
        for state in [_state(reader)]
        for phase in state["phases"]
        if phase["name"] == state["phase"]
        for step in phase.get("steps", [])
    ],
    "task": lambda reader, _: [
        (str(task["id"]), _short(task["description"]))
        for task in _state(reader)["tasks"]
        if task["status"] != "completed"
    ],
    "any task": lambda reader, _: [
        (str(task["id"]), _short(task["description"])) for task in _state(reader)["tasks"]
    ],
    "task phase": lambda reader, _: _plain(_state(reader)["recipe"].get("task_phases", [])),
    "unit": _units,
    "initiative": lambda reader, _: [
        (key, _short(initiative["name"]))
        for key, initiative in Initiatives(_keeper(reader)).all()["all"].items()
    ],
    "folder": lambda reader, _: _plain(
        unknown_folders(_keeper(reader).workspace, Initiatives(_keeper(reader)).all())
    ),
    "milestone": lambda reader, _: [
        (milestone["id"], _short(milestone["title"]))
        for milestone in (Initiatives(_keeper(reader)).current() or {"milestones": []})[
            "milestones"
        ]
        if milestone["status"] != "completed"
    ],
    "gate": lambda reader, _: [
        (name, _short(gate.get("status", ""))) for name, gate in _state(reader)["gates"].items()
    ],
    "file": _files,
    "@file": lambda reader, current: [
        (f"@{path}", about) for path, about in _files(reader, current.removeprefix("@"))
    ],
    "command": lambda reader, _: _names([word for _, word in reader.positionals if word]),
    "shell": lambda _reader, _: _plain(SHELLS),
    "agent": lambda _reader, _: _plain(AGENTS),
    "severity": lambda _reader, _: _plain(SEVERITIES),
    "report": lambda _reader, _: _plain(REPORT_FORMATS),
    "yes or no": lambda _reader, _: _plain(("yes", "no")),
    "violation": lambda reader, _: [
        (violation["code"], _short(violation["details"]))
        for violation in _state(reader)["violations"]
    ],
    "kind": lambda _reader, _: _plain(LEARNING_KINDS),
    "reminder": lambda reader, _: [
        (str(number), _short(text)) for number, text in enumerate(_state(reader)["reminders"], 1)
    ],
    "question": lambda reader, _: [
        (str(question["id"]), _short(question["text"])) for question in _questions(reader)
    ],
    "reading": lambda reader, _: _plain(_state(reader)["required_reading"]),
    "key": lambda reader, _: _plain(_state(reader)["context"]),
    "event": lambda _reader, _: _plain(event_types()),
    "hub": lambda _reader, _: _plain(KINDS),
    "conflict": lambda reader, _: [
        (short_id(row["id"]), _short(row["command"]))
        for row in Sharing(_keeper(reader)).conflicts()
    ],
}
