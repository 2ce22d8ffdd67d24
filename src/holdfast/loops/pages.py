"""The pages of a loop's folder, made from its state.

They are shared documents: made once, and then patched. ``markdown_text`` says how stored text is
written, so that it stays where it is put, and reads the same again.
"""

from __future__ import annotations

from holdfast.loops import markdown_text, page_reader, unit_item
from holdfast.loops.page_patcher import GUARDRAILS, lesson, patched_guardrails, patched_units
from holdfast.loops.progress_log import HEADER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json, Task, Workflow

__all__ = [
    "brief", "context", "guardrails", "patched_guardrails", "patched_units", "progress_header",
    "units",
]  # fmt: skip


MOST_WORDS = 200
"""``context.md`` has fewer words than this."""


def brief(state: Workflow) -> str:
    """``brief.md``: what is wanted, and when it is there."""
    said = state["context"]
    return _page(
        [f"# {markdown_text.heading(state['title'])}", ""],
        _header(state, Mode=unit_item.mode_of(state), Domain=_text(said, "domain")),
        ["", "## Outcome Needed", *_block(said, "outcome")],
        ["", "## Done When", *_listed(said, "done_when")],
        ["", "## Constraints", *_listed(said, "constraints")],
        ["", "## Approach / Notes", *_block(said, "notes")],
    )


def context(state: Workflow) -> str:
    """``context.md``: what every iteration reads first, so with few words.

    Where all of it would be too much, what the units' own page has is left out of it.
    """
    whole = _context(state, state["tasks"])
    return whole if page_reader.words(whole) < MOST_WORDS else _context(state, [])


def _context(state: Workflow, tasks: list[Task]) -> str:
    said = state["context"]
    goal = _text(said, "outcome") or state["title"]
    parts = [[f"# {markdown_text.heading(state['title'])} Context", ""], _goal("Goal", goal)]
    if _text(said, "approach"):
        parts.append(["", *_goal("Approach", _text(said, "approach"))])
    lists = {
        "Key files/outputs": _places(tasks),
        "Patterns to follow": _listed(said, "patterns"),
        "Signals": _signals(tasks),
    }
    parts += [["", f"**{name}:**", *lines] for name, lines in lists.items() if lines]
    return _page(*parts)


def guardrails(state: Workflow) -> str:
    """``guardrails.md``: lessons, which every iteration reads."""
    return GUARDRAILS + "".join("\n" + lesson(one) for one in state.get("guardrails", []))


def units(state: Workflow) -> str:
    """``tasks.md``, or in knowledge mode ``plan.md``."""
    mode, tasks = unit_item.mode_of(state), state["tasks"]
    waits = _section("Dependencies", unit_item.dependencies(tasks))
    listed = [line for task in tasks for line in unit_item.item(task)]
    counts = {"Total": unit_item.total(tasks, mode), "Status": unit_item.status(tasks)}
    if mode == "knowledge":
        return _page(
            [f"# {markdown_text.heading(state['title'])} - Phases", ""],
            _header(state, Domain=_text(state["context"], "domain"), **counts),
            _section("Phases", listed),
            waits,
        )
    return _page(
        [f"# {markdown_text.heading(state['title'])} - Tasks", ""],
        _header(state, **counts),
        waits,
        _section("Tasks", listed),
        _section("Notes", _block(state["context"], "notes")),
    )


def progress_header() -> str:
    """How ``progress.md`` begins; ``progress_log`` has what is appended to it."""
    return HEADER


def _page(*parts: list[str]) -> str:
    return "\n".join(line for part in parts for line in part).rstrip("\n") + "\n"


def _section(name: str, lines: list[str]) -> list[str]:
    return ["", f"## {name}", *(["", *lines] if lines else [])]


def _header(state: Workflow, **values: str) -> list[str]:
    shown = {"Created": state["created_at"], **values}
    return [f"**{key}:** {markdown_text.one_line(value)}" for key, value in shown.items() if value]


def _text(said: Fields, key: str) -> str:
    value: Json = said.get(key)
    return "" if value is None else str(value)


def _texts(said: Fields, key: str) -> list[str]:
    """A list of texts; somebody may have set a single one."""
    value: Json = said.get(key)
    if value is None or value == "":
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _block(said: Fields, key: str) -> list[str]:
    text = _text(said, key)
    return [markdown_text.block(text)] if text else []


def _listed(said: Fields, key: str) -> list[str]:
    return [f"- {markdown_text.item(text, 2)}" for text in _texts(said, key)]


def _goal(name: str, text: str) -> list[str]:
    return [f"**{name}:** {markdown_text.after_key(text, 2)}"]


def _places(tasks: list[Task]) -> list[str]:
    """The files and outputs of all units, each with the first unit that names it."""
    found: dict[str, Task] = {}
    for task in tasks:
        for path in [*_texts({**task}, "files"), *_texts({**task}, "output")]:
            found.setdefault(path, task)
    return [
        f"- {markdown_text.span(path)} — {markdown_text.after_key(task['description'], 2)}".rstrip(
            " —"
        )
        for path, task in found.items()
    ]


def _signals(tasks: list[Task]) -> list[str]:
    told = {unit_item.name_of(task): task.get("criteria") or task["description"] for task in tasks}
    return [f"- {name}: {markdown_text.after_key(text, 2)}" for name, text in told.items()]
