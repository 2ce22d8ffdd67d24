"""The pages of a loop as text: brief, context, units and guardrails, rendered from its state.

The pages are shared documents: rendered once, then patched by ``page_model``. No Markdown parser is
needed here.

Stored text may hold anything, and must not start structure where it is put. So it is encoded with
two of Markdown's own marks. A backslash goes before what would start structure at the beginning of
a line, and is alone on an empty line. ``&#13;`` is a character that a page cannot show: a control
character, or white space at either end of a line. Text with such a mark of its own gets one more.
Decoding returns the stored text, and the words of text that people wrote.
"""

from __future__ import annotations

import re
from itertools import pairwise

from holdfast.core.visible import clean, original
from holdfast.core.workflow.tasks import limit_of, signal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Task, Workflow
    from holdfast.layers.markdown import Block

UNITS_PAGES = {"development": "tasks.md", "knowledge": "plan.md"}
"""The name of the page of units, by mode."""
UNITS_SECTIONS = {"development": "Tasks", "knowledge": "Phases"}
"""The section of that page which has the units, by mode."""
BULLETS = {
    "files": "Files",
    "criteria": "Criteria",
    "output": "Output",
    "completion": "Completion",
    "max_iterations": "Max iterations",
    "depends": "Depends",
    "model": "Model",
    "verify": "Verify",
}
"""The labels of a unit's bullets, in their order."""
READ_BULLETS = ("criteria", "files", "output", "max_iterations", "depends", "model")
"""The command that verifies a unit is shown and not read: a page does not decide what is run."""
LESSON_FIELDS = ("when", "problem", "solution", "learned")
MAX_CONTEXT_WORDS = 200
"""``context.md`` has fewer words than this."""
BRIEF_HEADINGS = {
    "outcome": "Outcome Needed",
    "done_when": "Done When",
    "constraints": "Constraints",
    "notes": "Approach / Notes",
}
"""The sections of ``brief.md``; the last one has the approach, and below it the notes."""
_MAX_PATTERNS = 6
"""The number of patterns in a ``context.md`` that is cut to its limit."""

_UNIT_NAME = re.compile(r"[TR][1-9][0-9]{0,3}")
_GUARDRAILS = "# Guardrails\n\nRead before starting any iteration. Append when issues discovered.\n"
_BULLET_INDENT = 4
_ARROW = " → "
_CHAIN = " (sequential)"
_ALONE = " (independent)"
_STATUS_WORDS = {
    "completed": "done",
    "in_progress": "in progress",
    "confirming": "in progress",
    "verifying": "in progress",
    "pending": "pending",
    "blocked": "blocked",
    "timeout": "timed out",
}

_CODE = re.compile(r"&#([0-9]{1,7});")
_LAST_CHARACTER = 0x10FFFF
_OUTER_BLANK = re.compile(r"\A[ \t]|[ \t]\Z")
_STRUCTURE = re.compile(r"[0-9]{1,9}(?=\\*[.)])|(?=\\*(?:[#>+*_=~<|:-]|`{3}|\Z))")
"""Matches a line that would start structure, up to where a backslash prevents that."""


# Stored text on a page


def encode_line(text: str) -> str:
    """Encode text for one line, such as a name or a path: line breaks become codes too."""
    return "&#10;".join(_encode(line) for line in text.split("\n"))


def encode_heading(text: str) -> str:
    """Encode text for a heading. Markdown would drop a final ``#``."""
    line = encode_line(text)
    return f"{line[:-1]}&#35;" if line.endswith("#") else line


def encode_span(text: str) -> str:
    """Encode text as inline code, such as a path."""
    return "`" + encode_line(text).replace("`", "&#96;") + "`"


def encode_after_key(text: str, indent: int) -> str:
    """Encode text that follows a key on its line; further lines are indented below it."""
    first, *others = text.split("\n")
    line = _encode(first)
    if text and not line.strip("\\"):
        line = "\\" + line
    return ("\n" + " " * indent).join([line, *map(_encode_at_start, others)])


def encode_item(text: str, indent: int) -> str:
    """Encode text that is the whole item of a list."""
    return ("\n" + " " * indent).join(map(_encode_at_start, text.split("\n")))


def encode_block(text: str) -> str:
    """Encode the text of a section. Empty lines inside it stay: they separate paragraphs."""
    lines = text.split("\n") if text else []
    return "\n".join(
        _encode_at_start(line) if line or index in (0, len(lines) - 1) else line
        for index, line in enumerate(lines)
    )


def _encode(line: str) -> str:
    line = _CODE.sub(lambda match: f"&#38;{match.group()[1:]}", line)
    return _OUTER_BLANK.sub(lambda match: f"&#{ord(match.group())};", clean(line))


def _encode_at_start(line: str) -> str:
    """Encode a line, with a backslash before what would start structure."""
    line = _encode(line)
    match = _STRUCTURE.match(line)
    return f"{line[: match.end()]}\\{line[match.end() :]}" if match else line


def decode_line(line: str) -> str:
    """Return the text of an encoded line."""
    return original(_CODE.sub(_decode_character, line))


def decode_after_key(lines: list[str]) -> str:
    """Return the text that follows a key."""
    first, *others = [line.strip() for line in lines]
    if first and not first.strip("\\"):
        first = first[1:]
    return "\n".join([decode_line(first), *map(_decode_at_start, others)])


def decode_item(lines: list[str]) -> str:
    """Return the text of a list's item."""
    return "\n".join(_decode_at_start(line.strip()) for line in lines)


def decode_block(lines: list[str]) -> str:
    """Return the text of a section without the empty lines around it; people's indents stay."""
    first, end = trim_lines(lines, 0, len(lines))
    return "\n".join(_decode_at_start(line.rstrip()) for line in lines[first:end])


def _decode_character(match: re.Match[str]) -> str:
    number = int(match[1])
    return chr(number) if number <= _LAST_CHARACTER else match.group()


def _decode_at_start(line: str) -> str:
    match = _STRUCTURE.match(line)
    if match and line.startswith("\\", match.end()):
        line = line[: match.end()] + line[match.end() + 1 :]
    return decode_line(line)


def trim_lines(lines: list[str], first: int, end: int) -> tuple[int, int]:
    """Return a range of lines without the empty ones at its ends."""
    while first < end and not lines[first].strip():
        first += 1
    while first < end and not lines[end - 1].strip():
        end -= 1
    return first, end


def sections_of(blocks: list[Block], line_count: int) -> list[tuple[Block, int, list[Block]]]:
    """Return the headings of the second level, each with its section's end and blocks."""
    heads = [i for i, b in enumerate(blocks) if b.kind == "heading" and b.depth <= 2]
    sections = []
    for head, following in pairwise([*heads, len(blocks)]):
        end = blocks[following].first if following < len(blocks) else line_count
        if blocks[head].depth == 2:
            sections.append((blocks[head], end, blocks[head + 1 : following]))
    return sections


# Pages


def mode_of(state: Workflow) -> str:
    """Return ``knowledge`` or ``development``."""
    return "knowledge" if state["recipe"].get("mode") == "knowledge" else "development"


def is_unit_name(text: str) -> bool:
    """Return whether a unit can have this id: T1 to T9999, R1 to R9999."""
    return _UNIT_NAME.fullmatch(text) is not None


def count_words(text: str) -> int:
    """Count the words of a text: parts between white space that have a letter or a digit."""
    return sum(any(c.isalnum() or c == "_" for c in part) for part in text.split())


def render_brief(state: Workflow) -> str:
    """Render ``brief.md``: the outcome that is needed, and how to tell that it is reached."""
    domain = _text(state["context"], "domain")
    sections = brief_sections(state["context"])
    return _page(
        [f"# {encode_heading(state['title'])}", ""],
        _header(state, Mode=mode_of(state), Domain=domain),
        *(["", f"## {BRIEF_HEADINGS[key]}", *lines] for key, lines in sections.items()),
    )


def brief_sections(about: Fields) -> dict[str, list[str]]:
    """Return the lines of each section of ``brief.md``, without its heading."""
    notes = [text for key in ("approach", "notes") if (text := _text(about, key))]
    return {
        "outcome": _block(about, "outcome"),
        "done_when": _items(about, "done_when"),
        "constraints": _items(about, "constraints"),
        "notes": _block({"notes": "\n\n".join(notes)}, "notes"),
    }


def render_context(state: Workflow) -> str:
    """Render ``context.md``, which every iteration reads first, with fewer than 200 words.

    If it would have more, leave out what the page of units has, then the ends of long texts.
    """
    text = _context(state, state["tasks"])
    if count_words(text) >= MAX_CONTEXT_WORDS:
        text = render_long_context(state)
    if count_words(text) < MAX_CONTEXT_WORDS:
        return text
    about = {**state["context"], "outcome": _text(state["context"], "outcome") or state["title"]}
    about["patterns"] = [_beginning(text, 12) for text in _texts(about, "patterns")[:_MAX_PATTERNS]]
    for key in ("outcome", "approach"):
        about[key] = _beginning(_text(about, key), 40)
    title = _beginning(state["title"], 20)
    return render_long_context({**state, "title": title, "context": about})


def render_long_context(state: Workflow) -> str:
    """Render ``context.md`` without what the page of units has, however many words it has."""
    return _context(state, [])


def _beginning(text: str, most: int) -> str:
    """Return the first words of a text, with dots if it has more."""
    words = text.split()
    return text if len(words) <= most else f"{' '.join(words[:most])} …"


def _context(state: Workflow, tasks: list[Task]) -> str:
    about = state["context"]
    goal = encode_after_key(_text(about, "outcome") or state["title"], 2)
    parts = [[f"# {encode_heading(state['title'])} Context", "", f"**Goal:** {goal}"]]
    if _text(about, "approach"):
        parts.append(["", f"**Approach:** {encode_after_key(_text(about, 'approach'), 2)}"])
    first_units: dict[str, Task] = {}
    for task in tasks:
        for path in [*_texts({**task}, "files"), *_texts({**task}, "output")]:
            first_units.setdefault(path, task)
    signals = {name_of(task): task.get("criteria") or task["description"] for task in tasks}
    lists = {
        "Key files/outputs": [
            f"- {encode_span(path)} — {encode_after_key(task['description'], 2)}".rstrip(" —")
            for path, task in first_units.items()
        ],
        "Patterns to follow": _items(about, "patterns"),
        "Signals": [f"- {name}: {encode_after_key(text, 2)}" for name, text in signals.items()],
    }
    parts += [["", f"**{name}:**", *lines] for name, lines in lists.items() if lines]
    return _page(*parts)


def render_guardrails(state: Workflow) -> str:
    """Render ``guardrails.md``: the lessons that every iteration reads."""
    lessons = state.get("guardrails", [])
    return _GUARDRAILS + "".join("\n" + render_lesson(lesson) for lesson in lessons)


def render_lesson(lesson: Fields) -> str:
    """Render one lesson as a section."""
    lines = [f"## {encode_heading(str(lesson.get('name', '')))}"]
    for key, value in lesson_content(lesson).items():
        lines.append(f"- **{key.capitalize()}**: {encode_after_key(value, 2)}")
    return "\n".join(lines) + "\n"


def lesson_content(lesson: Fields) -> dict[str, str]:
    """Return the fields by which two lessons are equal, whatever their names."""
    return {key: str(lesson[key]) for key in LESSON_FIELDS if lesson.get(key) is not None}


def render_units(state: Workflow) -> str:
    """Render ``tasks.md``, or in knowledge mode ``plan.md``."""
    mode, context, tasks = mode_of(state), state["context"], state["tasks"]
    name = UNITS_SECTIONS[mode]
    domain = _text(context, "domain") if mode == "knowledge" else ""
    units = _section(name, [line for task in tasks for line in render_unit(task)])
    dependencies = _section("Dependencies", render_dependencies(tasks))
    notes = _section("Notes", _block(context, "notes"))
    return _page(
        [f"# {encode_heading(state['title'])} - {name}", ""],
        _header(state, Domain=domain, **counts(state)),
        *([units, dependencies] if mode == "knowledge" else [dependencies, units, notes]),
    )


def _page(*parts: list[str]) -> str:
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _section(name: str, lines: list[str]) -> list[str]:
    return ["", f"## {name}", *(["", *lines] if lines else [])]


def _header(state: Workflow, **values: str) -> list[str]:
    pairs = {"Created": state["created_at"], **values}
    return [f"**{key}:** {encode_line(value)}" for key, value in pairs.items() if value]


def _text(fields: Fields, key: str) -> str:
    value: Json = fields.get(key)
    return "" if value is None else str(value)


def _texts(fields: Fields, key: str) -> list[str]:
    """Return a list of texts; the field may hold a single one."""
    value: Json = fields.get(key)
    if value is None or value == "":
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _block(fields: Fields, key: str) -> list[str]:
    text = _text(fields, key)
    return [encode_block(text)] if text else []


def _items(fields: Fields, key: str) -> list[str]:
    return [f"- {encode_item(text, 2)}" for text in _texts(fields, key)]


# Units


def name_of(task: Task) -> str:
    """Return the encoded id of a unit."""
    return _encode_name(task["id"])


def _encode_name(unit: object) -> str:
    """Return an id as it may begin a line; one of foreign origin may hold anything."""
    name = encode_line(str(unit)).replace("*", "&#42;").replace(":", "&#58;")
    match = _STRUCTURE.match(name)
    if match is None or match.end() == len(name):
        return name
    start, character, tail = name[: match.end()], name[match.end()], name[match.end() + 1 :]
    return f"{start}&#{ord(character)};{tail}"


def render_unit(task: Task) -> list[str]:
    """Return the lines of a unit's item."""
    mark = "x" if task["status"] == "completed" else " "
    title = encode_after_key(task["description"], 2)
    bullets = [
        f"  - {label}: {value}"
        for key, label in BULLETS.items()
        if (value := render_value(task, key)) is not None
    ]
    return "\n".join([f"- [{mark}] **{name_of(task)}**: {title}".rstrip(), *bullets]).split("\n")


def render_value(task: Task, key: str, indent: int = _BULLET_INDENT) -> str | None:
    """Return the value of a unit's bullet; ``None`` if the unit has no such value."""
    if key == "completion":
        return f"`<signal>{encode_line(signal_of(task))}</signal>`"
    if key == "max_iterations":
        return str(limit_of(task))
    if key == "depends":
        return ", ".join([encode_line(str(name)) for name in task.get("depends", [])]) or "none"
    value: Json = task.get(key)
    if not value:
        return None
    if key == "files":
        return ", ".join(encode_span(str(path)) for path in value)
    if key in ("output", "verify"):
        return encode_span(str(value))
    return encode_after_key(str(value), indent)


def counts(state: Workflow) -> dict[str, str]:
    """Return the counts of units: ``3 tasks`` and ``1 done, 0 in progress, 2 pending``."""
    words = [_STATUS_WORDS[task["status"]] for task in state["tasks"]]
    always = [f"{words.count(word)} {word}" for word in ("done", "in progress", "pending")]
    stuck = [f"{words.count(word)} {word}" for word in ("blocked", "timed out") if word in words]
    unit = UNITS_SECTIONS[mode_of(state)].lower()
    total = f"{len(words)} {unit.removesuffix('s') if len(words) == 1 else unit}"
    return {"Total": total, "Status": ", ".join([*always, *stuck])}


def render_dependencies(tasks: list[Task]) -> list[str]:
    """Return the lines of the section on dependencies."""
    return render_arrows(
        {name_of(task): [_encode_name(name) for name in task.get("depends", [])] for task in tasks}
    )


def render_arrows(depends: dict[str, list[str]]) -> list[str]:
    """Return chains of units with arrows, then the units without any dependency.

    Every dependency is in exactly one chain. Chains begin at units that depend on none.
    """
    names = sorted({*depends, *(name for waits in depends.values() for name in waits)}, key=_order)
    followers: dict[str, list[str]] = {name: [] for name in names}
    for name in reversed(names):
        for dependency in dict.fromkeys(depends.get(name, [])):
            followers[dependency].append(name)
    alone = [name for name in names if not depends.get(name) and not followers[name]]
    lines: list[str] = []
    for name in sorted(names, key=lambda name: bool(depends.get(name))):
        while followers[name]:
            chain = [name]
            while followers[chain[-1]]:
                chain.append(followers[chain[-1]].pop())
            lines.append(_ARROW.join(chain) + _CHAIN)
    return [*lines, *(name + _ALONE for name in alone)]


def _order(name: str) -> tuple[int, str]:
    """Return a sort key by which T2 comes before T10."""
    number = name.lstrip("TR")
    is_number = number.isascii() and number.isdecimal() and len(number) <= 9
    return (int(number) if is_number else 0, name)
