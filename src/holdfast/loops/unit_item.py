"""A unit as an item of ``tasks.md`` or ``plan.md``: how its values are shown, and read again."""

from __future__ import annotations

import re

from holdfast.core.workflow.units import limit_of, signal_of
from holdfast.loops import markdown_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Json, Task, Workflow

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
"""What the bullets of a unit are called, in their order."""

MOST_ITERATIONS = 1_000
_INDENT = 4
_SPAN = re.compile(r"`([^`]+)`")
_PARTS = re.compile(r"(?:`[^`]*`|[^,`\n])+")
_BETWEEN_NAMES = re.compile(r"[\s,;&`*]+|\band\b")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ARROW = " → "
_ARROWS = re.compile(r"\s*(?:→|[-=]>)\s*")
_REMARK = re.compile(r"\s*\([^()]*\)\Z")
_CHAIN = " (sequential)"
_ALONE = " (independent)"


def mode_of(state: Workflow) -> str:
    return "knowledge" if state["recipe"].get("mode") == "knowledge" else "development"


def name_of(task: Task) -> str:
    """A unit's id; one that came from elsewhere may hold anything."""
    return markdown_text.one_line(str(task["id"])).replace("*", "&#42;").replace(":", "&#58;")


def item(task: Task) -> list[str]:
    """The lines of a unit."""
    mark = "x" if task["status"] == "completed" else " "
    title = markdown_text.after_key(task["description"], 2)
    bullets = [
        f"  - {label}: {value}"
        for key, label in BULLETS.items()
        if (value := shown(task, key)) is not None
    ]
    return "\n".join([f"- [{mark}] **{name_of(task)}**: {title}".rstrip(), *bullets]).split("\n")


def shown(task: Task, key: str, indent: int = _INDENT) -> str | None:
    """The value of a bullet; ``None`` when there is nothing to show."""
    if key == "completion":
        return f"`<signal>{markdown_text.one_line(signal_of(task))}</signal>`"
    if key == "max_iterations":
        return str(limit_of(task))
    if key == "depends":
        names = [markdown_text.one_line(str(one)) for one in task.get("depends", [])]
        return ", ".join(names) or "none"
    value: Json = task.get(key)
    if not value:
        return None
    if key == "files":
        return ", ".join(markdown_text.span(str(path)) for path in value)
    if key in ("output", "verify"):
        return markdown_text.span(str(value))
    return markdown_text.after_key(str(value), indent)


def understood(key: str, lines: list[str]) -> Json:
    """The value that the lines of a bullet tell; ``None`` when they make no sense."""
    text = "\n".join(line.strip() for line in lines)
    if key == "files":
        return _paths(text)
    if key == "max_iterations":
        number = int(text) if _NUMBER.fullmatch(text) else 0
        return number if 1 <= number <= MOST_ITERATIONS else None
    if key == "depends":
        names = [markdown_text.decoded(name) for name in _BETWEEN_NAMES.split(text) if name]
        return [] if [name.lower() for name in names] in (["none"], ["-"], ["—"]) else names
    single = _SPAN.fullmatch(text) if key in ("output", "verify") else None
    return markdown_text.decoded(single[1]) if single else markdown_text.plain(lines)


def _paths(text: str) -> list[str]:
    """Paths as code, or parted by commas; a word beside code is a remark."""
    paths: list[str] = []
    for part in _PARTS.findall(text):
        spans = _SPAN.findall(part)
        bare = part.replace("`", "").strip().removeprefix("- ").strip()
        paths += map(markdown_text.decoded, spans or ([bare] if bare else []))
    return [] if [path.lower() for path in paths] == ["none"] else paths


def total(tasks: list[Task], mode: str) -> str:
    return f"{len(tasks)} {'phase' if mode == 'knowledge' else 'task'}{'s' * (len(tasks) != 1)}"


def status(tasks: list[Task]) -> str:
    """How many units stand where: ``2 done, 1 in progress, 3 pending``."""
    words = [_STANDS[task["status"]] for task in tasks]
    always = [f"{words.count(word)} {word}" for word in ("done", "in progress", "pending")]
    stuck = [f"{words.count(word)} {word}" for word in ("blocked", "timed out") if word in words]
    return ", ".join([*always, *stuck])


_STANDS = {
    "completed": "done",
    "in_progress": "in progress",
    "confirming": "in progress",
    "verifying": "in progress",
    "pending": "pending",
    "blocked": "blocked",
    "timeout": "timed out",
}


def dependencies(tasks: list[Task]) -> list[str]:
    """Who waits for whom: chains with arrows, then the units that stand alone."""
    return _drawn(
        {
            name_of(t): [markdown_text.one_line(str(one)) for one in t.get("depends", [])]
            for t in tasks
        }
    )


def chains(lines: Iterable[str]) -> dict[str, list[str]]:
    """What lines with arrows tell: every unit in them, with those it waits for."""
    depends: dict[str, list[str]] = {}
    for line in lines:
        text = line.strip()
        names = _ARROWS.split(_REMARK.sub("", text))
        if names == [text] or not all(names) or any(" " in name for name in names):
            continue
        for place, name in enumerate(names):
            waits = depends.setdefault(name, [])
            if place and names[place - 1] not in waits:
                waits.append(names[place - 1])
    return depends


def is_drawn(lines: list[str]) -> bool:
    """Whether these are lines that ``dependencies`` would have written for some units."""
    return [line.strip() for line in lines if line.strip()] == _drawn(chains(lines))


def _drawn(depends: dict[str, list[str]]) -> list[str]:
    """Each dependency is in exactly one line; chains begin at units that wait for nobody."""
    names = sorted({*depends, *(one for waits in depends.values() for one in waits)}, key=counted)
    ahead: dict[str, list[str]] = {name: [] for name in names}
    for name in reversed(names):
        for one in dict.fromkeys(depends.get(name, [])):
            ahead[one].append(name)
    alone = [name for name in names if not depends.get(name) and not ahead[name]]
    lines: list[str] = []
    for name in sorted(names, key=lambda name: bool(depends.get(name))):
        while ahead[name]:
            chain = [name]
            while ahead[chain[-1]]:
                chain.append(ahead[chain[-1]].pop())
            lines.append(_ARROW.join(chain) + _CHAIN)
    return [*lines, *(name + _ALONE for name in alone)]


def counted(name: str) -> tuple[int, str]:
    """T2 comes before T10."""
    number = name.lstrip("TR")
    return (int(number) if _NUMBER.fullmatch(number) else 0, name)
