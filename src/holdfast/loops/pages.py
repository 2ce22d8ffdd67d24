"""Render the pages of a loop from its state: brief, context, units and guardrails.

The pages are shared documents: rendered once, then patched by ``page_model``. No Markdown parser is
needed here. ``markdown_text`` encodes stored text so that it reads the same again.
"""

from __future__ import annotations

import re

from holdfast.core.workflow.tasks import limit_of, signal_of
from holdfast.loops.markdown_text import (
    encode_after_key,
    encode_block,
    encode_heading,
    encode_item,
    encode_line,
    encode_span,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Task, Workflow

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


def mode_of(state: Workflow) -> str:
    """Return ``knowledge`` or ``development``."""
    return "knowledge" if state["recipe"].get("mode") == "knowledge" else "development"


def units_page(mode: str) -> str:
    """Return the name of the page of units."""
    return "plan.md" if mode == "knowledge" else "tasks.md"


def is_unit_name(text: str) -> bool:
    """Return whether a unit can have this id: T1 to T9999, R1 to R9999."""
    return _UNIT_NAME.fullmatch(text) is not None


def count_words(text: str) -> int:
    """Count the words of a text: parts between white space that have a letter or a digit."""
    return sum(any(c.isalnum() or c == "_" for c in part) for part in text.split())


# Pages


def render_brief(state: Workflow) -> str:
    """Render ``brief.md``: the outcome that is needed, and how to tell that it is reached."""
    about = state["context"]
    return _page(
        [f"# {encode_heading(state['title'])}", ""],
        _header(state, Mode=mode_of(state), Domain=_text(about, "domain")),
        ["", "## Outcome Needed", *_block(about, "outcome")],
        ["", "## Done When", *_items(about, "done_when")],
        ["", "## Constraints", *_items(about, "constraints")],
        ["", "## Approach / Notes", *_block(about, "notes")],
    )


def render_context(state: Workflow) -> str:
    """Render ``context.md``, which every iteration reads first.

    If it would have too many words, leave out what the page of units has.
    """
    text = _context(state, state["tasks"])
    return text if count_words(text) < MAX_CONTEXT_WORDS else _context(state, [])


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
    """Return the fields of a lesson that make it the same under any name."""
    return {key: str(lesson[key]) for key in LESSON_FIELDS if lesson.get(key) is not None}


def render_units(state: Workflow) -> str:
    """Render ``tasks.md``, or in knowledge mode ``plan.md``."""
    mode, tasks = mode_of(state), state["tasks"]
    dependencies = _section("Dependencies", render_dependencies(tasks))
    lines = [line for task in tasks for line in render_unit(task)]
    counts = {"Total": total(tasks, mode), "Status": status_counts(tasks)}
    if mode == "knowledge":
        return _page(
            [f"# {encode_heading(state['title'])} - Phases", ""],
            _header(state, Domain=_text(state["context"], "domain"), **counts),
            _section("Phases", lines),
            dependencies,
        )
    return _page(
        [f"# {encode_heading(state['title'])} - Tasks", ""],
        _header(state, **counts),
        dependencies,
        _section("Tasks", lines),
        _section("Notes", _block(state["context"], "notes")),
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
    """Return the encoded id of a unit; one of foreign origin may hold anything."""
    return encode_line(str(task["id"])).replace("*", "&#42;").replace(":", "&#58;")


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


def total(tasks: list[Task], mode: str) -> str:
    """Return the number of units: ``3 tasks``."""
    return f"{len(tasks)} {'phase' if mode == 'knowledge' else 'task'}{'s' * (len(tasks) != 1)}"


def status_counts(tasks: list[Task]) -> str:
    """Return the number of units by status: ``2 done, 1 in progress, 3 pending``."""
    words = [_STATUS_WORDS[task["status"]] for task in tasks]
    always = [f"{words.count(word)} {word}" for word in ("done", "in progress", "pending")]
    stuck = [f"{words.count(word)} {word}" for word in ("blocked", "timed out") if word in words]
    return ", ".join([*always, *stuck])


def render_dependencies(tasks: list[Task]) -> list[str]:
    """Return the lines of the section on dependencies."""
    return render_arrows(
        {
            name_of(task): [encode_line(str(name)) for name in task.get("depends", [])]
            for task in tasks
        }
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
