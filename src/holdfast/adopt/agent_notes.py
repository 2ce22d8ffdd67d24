"""Read the workflows that an agent without Holdfast keeps in notes of its own.

There are two kinds of notes: ``CLAUDE.local.md``, which names a workflow and its phase, and a plan
under ``CLAUDE/Plan/`` that is in progress. Each becomes a document in the formal format, as the
agent would have written it. Whatever the notes do not state is left out of ``said``.
"""

from __future__ import annotations

import os

from holdfast.core import task_lists
from holdfast.core.next_step import COMPLETE, GONE
from holdfast.workspace.location import NOTES, PLANS, names_in, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

PLAN = "PLAN.md"
_MARKER = "workflow state"
_KINDS = ("planning", "qa-loop", "implementation")
_ALIASES = {
    "current phase": "phase",
    "current workflow": "workflow",
    "workflow name": "workflow",
    "workflow type": "type",
    "phase status": "status",
    "key reminder": "reminder",
    "key reminders": "reminders",
    "workflow context": "context",
}
"""Other names of keys and headings."""
_KEY_DECORATION = "#*_-> \t`|[]\ufeff"
_VALUE_DECORATION = "*_` \t|>"
_BEFORE_NAME = " -\u2013\u2014:.)`*_"
_MOVING = "🔄"
_DONE = "✅"
_BLOCKED = "❌"
_IN_PROGRESS = f"{_MOVING} in progress"
_MARKS = f"{_MOVING}{_DONE}⬜⏳{_BLOCKED}"
_STATUSES = {
    "completed": ("complete", "completed", "done", "finished"),
    "blocked": ("blocked",),
    "not_started": ("not started", "not_started", "pending", "todo"),
    "in_progress": ("in progress", "in_progress", "active", "started", "ongoing"),
}
_MAX_BYTES = 256 * 1024
_MAX_FOLDERS = 2_000
_MAX_PLANS = 200
_MAX_PHASES = 200
_MAX_NAME = 200
_MAX_DIGITS = 6
_MAX_READING = 100
_MAX_ITEMS = 50
_MAX_TEXT = 1_000


def detect(root: str) -> list[Fields]:
    """Return a document for each workflow that the notes in this folder describe.

    ``said`` has the phase as written in the notes, and ``source`` is the path of the notes.
    """
    notes = from_notes(read_text(root, NOTES, _MAX_BYTES))
    try:
        folders = names_in(os.path.join(root, PLANS))
    except OSError:
        folders = []
    # Plans are numbered in the order of their creation and never removed: the newest come last.
    paths = [os.path.join(PLANS, name, PLAN) for name in folders[-_MAX_FOLDERS:]]
    plans = [from_plan(read_text(root, path, _MAX_BYTES), path) for path in paths]
    documents = [plan for plan in plans if plan is not None]
    return [*([] if notes is None else [notes]), *documents[-_MAX_PLANS:]]


def why_over(root: str, source: str, title: str) -> str:
    """Return ``COMPLETE`` or ``GONE`` if these notes no longer describe the workflow; else "".

    ``source`` came with a record, perhaps a stranger's: only a path of notes is read.
    """
    text = read_text(root, source, _MAX_BYTES) if _is_path_of_notes(source) else ""
    if source != NOTES:
        is_in_progress = from_plan(text, source) is not None
        return "" if is_in_progress else COMPLETE if _is_complete_plan(text) else GONE
    document = from_notes(text)
    if document is None or document["workflow"] != title:
        return GONE
    return COMPLETE if document["is_over"] else ""


def _is_path_of_notes(path: str) -> bool:
    folder, _, name = path.removeprefix(f"{PLANS}/").partition("/")
    is_plan = path.startswith(f"{PLANS}/") and name == PLAN and folder not in (".", "..")
    return path == NOTES or is_plan


def _is_complete_plan(text: str) -> bool:
    stated = _values(text, ("status",)).get("status", "")
    return _status(stated) == "completed" or f"{_DONE} complete" in text.lower()


def from_notes(text: str) -> Fields | None:
    """Return the workflow of notes with a marker, ``Workflow:`` and ``Phase:``; else ``None``."""
    if _MARKER not in text.lower():
        return None
    values = _values(text, ("workflow", "phase", "status", "type", "reminder", "reminders"))
    name = values.get("workflow", "")
    if not name or "phase" not in values:
        return None
    phase, stated = _parse_phase(values["phase"]), _status(values.get("status", ""))
    if stated not in ("", "in_progress"):
        phase["status"] = stated
    elif _status(values["phase"]) == "completed":
        phase["status"] = "completed"
    document = _document(NOTES, name, phase, _reading(text), _context(text), values.get("type", ""))
    single = [values[key] for key in ("reminder", "reminders") if key in values]
    items = [_item(line) for line in _section(text, "reminders")]
    reminders = [item for item in [*single, *items] if item and not item.startswith("@")]
    document["key_reminders"] = [item[:_MAX_TEXT] for item in dict.fromkeys(reminders)][:_MAX_ITEMS]
    is_last = phase.get("current", 1) >= phase.get("total", 1)
    document["is_over"] = stated == "completed" or (is_last and phase.get("status") == "completed")
    return document


def from_plan(text: str, path: str) -> Fields | None:
    """Return the workflow of a plan in progress that has phases or a workflow; else ``None``."""
    low = text.lower()
    if _IN_PROGRESS not in low or not ("phase" in low or "workflow" in low):
        return None
    folder = os.path.basename(os.path.dirname(path))
    values = _values(text, ("workflow", "phase", "plan"))
    titles = (line.lstrip("#").strip() for line in text.splitlines() if line.startswith("# "))
    name = values.get("workflow") or next(filter(None, titles), folder)
    number = folder.partition("-")[0]
    context: Fields = {"plan": folder}
    if number.isascii() and number.isdigit() and len(number) < 10:
        context["plan_number"] = int(number)
    phase = _phase_of_plan(text, values.get("phase", ""))
    return _document(path, name, phase, [f"@{path}", *_reading(text)], context)


def _document(
    source: str, name: str, phase: Fields, reading: list[str], context: Fields, kind: str = ""
) -> Fields:
    words = (kind or name).lower().replace(" ", "-")
    current = phase.get("current", 1)
    return {
        "source": source,
        "said": phase,
        "is_over": False,
        "workflow": name[:_MAX_NAME],
        "workflow_type": next((kind for kind in _KINDS if kind in words), "custom"),
        "phase": {
            "current": current,
            "total": phase.get("total", current),
            "name": phase.get("name", f"Phase {current}"),
            "status": phase.get("status", "in_progress"),
        },
        "required_reading": list(dict.fromkeys(reading))[:_MAX_READING],
        "context": context,
        "key_reminders": [],
    }


def _values(text: str, keys: tuple[str, ...]) -> dict[str, str]:
    """Return the value of the first ``Key: value`` line of each key. Ignore Markdown around it."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, after_colon = line.partition(":")
        name = _plain_key(key)
        value = after_colon.strip(_VALUE_DECORATION)
        if colon and name in keys and value:
            values.setdefault(name, value)
    return values


def _plain_key(text: str) -> str:
    name = " ".join(text.strip(_KEY_DECORATION).lower().split())
    return _ALIASES.get(name, name)


def _section(text: str, name: str) -> list[str]:
    """Return the lines below a heading, or below ``Name:`` without a value, up to the next one."""
    lines: list[str] = []
    is_inside = False
    for line in text.splitlines():
        title, colon, value = line.partition(":")
        is_item = line.strip()[:1] in ("-", "*", "+") and not line.strip().startswith("**")
        is_label = bool(colon) and not value.strip(_VALUE_DECORATION) and not is_item
        if line.lstrip().startswith("#") or is_label:
            is_inside = _plain_key(title) == name
        elif is_inside and line.strip():
            lines.append(line)
    return lines


def _item(line: str) -> str:
    """Return the text of an item of a list; empty if the line is not one."""
    bullet, _, rest = line.strip().partition(" ")
    is_item = bullet in ("-", "*", "+") or (bullet[-1:] in (".", ")") and bullet[:-1].isdigit())
    return rest.strip(_VALUE_DECORATION) if is_item else ""


def _context(text: str) -> Fields:
    """Return the ``key: value`` lines of the section Context."""
    context: Fields = {}
    for line in _section(text, "context"):
        key, colon, after_colon = (_item(line) or line).partition(":")
        name = "_".join(key.strip(_KEY_DECORATION).split())
        value = after_colon.strip(_VALUE_DECORATION)
        if colon and name and value and len(name) <= _MAX_NAME and len(context) < _MAX_ITEMS:
            is_number = value.isascii() and value.isdigit() and str(int(value[:18])) == value
            context[name] = int(value) if is_number else value[:_MAX_TEXT]
    return context


def _status(text: str) -> str:
    """Return the status of a phase that a text states; empty if it states none."""
    if _MOVING in text:
        return "in_progress"
    if _DONE in text:
        return "completed"
    words = text.lower().strip(f"{_MARKS}{_VALUE_DECORATION} .!()[]\ufe0f")
    for status, spellings in _STATUSES.items():
        for spelling in spellings:
            after = words[len(spelling) : len(spelling) + 1]
            if words.startswith(spelling) and not after.isalnum():
                return status
    return ""


def _parse_phase(text: str) -> Fields:
    """Parse ``4/10 - SEO Generation``, ``4 of 10: Build`` or ``Build``.

    Return only those of ``current``, ``total`` and ``name`` that the text contains.
    """
    if text[:5].lower() == "phase":
        text = text[5:].strip() or text
    current, tail = _number(text)
    total: int | None = None
    if current is not None:
        tail = tail.lstrip()
        for between in ("/", "of "):
            if total is None and tail.lower().startswith(between):
                total, tail = _number(tail[len(between) :].lstrip())
    phase: Fields = {}
    if current is not None:
        phase["current"] = min(max(current, 1), _MAX_PHASES)
    if total is not None:
        phase["total"] = min(max(total, phase["current"]), _MAX_PHASES)
    # The name comes without the punctuation and the status marks around it.
    name = tail.lstrip(_BEFORE_NAME + _MARKS)
    for mark in _MARKS:
        name = name.partition(mark)[0]
    before, bracket, remark = name.rstrip(_VALUE_DECORATION).rpartition("(")
    if bracket and remark.endswith(")") and _status(remark):
        name = before
    name = name.rstrip(f"{_VALUE_DECORATION} -(:[")[:_MAX_NAME]
    return {**phase, "name": name} if name else phase


def _number(text: str) -> tuple[int | None, str]:
    """Return the number at the beginning of a text, or ``None``, and the text after it."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    tail = text[len(digits) :]
    if not digits or tail[:1].isalpha():
        return None, text
    return int(digits[:_MAX_DIGITS]), tail


def _phase_of_plan(text: str, line: str) -> Fields:
    """Return the current phase of a plan: by its line ``Phase:``, else by its headings."""
    titles, current = _phases_of_plan(text)
    stated = _parse_phase(line) if line else {}
    names = [_parse_phase(title).get("name", "") for title in titles]
    if "current" not in stated and stated.get("name") in names:
        stated["current"] = names.index(stated["name"]) + 1
    if not titles:
        return stated
    total = min(len(titles), _MAX_PHASES)
    if "current" not in stated:
        return {**_parse_phase(titles[current]), "current": current + 1, "total": total}
    if "total" not in stated:
        stated["total"] = max(total, stated["current"])
    if "name" not in stated and stated["current"] <= len(names) and names[stated["current"] - 1]:
        stated["name"] = names[stated["current"] - 1]
    return stated


def _phases_of_plan(text: str) -> tuple[list[str], int]:
    """Return the headings that are phases, and the index of the current one.

    It is the first phase in progress, else the first that is not done. The status is in the
    heading or in a ``Status:`` line below it; a phase whose boxes are all ticked is done. Without
    such headings, the boxes that are phases count.
    """
    titles: list[str] = []
    sections: list[list[str]] = []
    level = 0
    for line in text.splitlines():
        title = line.lstrip("# ")
        depth = len(line) - len(line.lstrip("#"))
        if depth and title.lower().startswith("phase "):
            titles.append(title)
            sections.append([])
            level = depth
        elif 0 < depth <= level:
            level = 0
        elif level:
            sections[-1].append(line)
    statuses = list(map(_status_of_section, titles, sections))
    if not titles:
        boxes = [box for box in task_lists.parse(text) if box[0].lower().startswith("phase ")]
        titles = [title for title, _ in boxes]
        statuses = ["completed" if is_done else _status_in(title) for title, is_done in boxes]
    moving = [index for index, status in enumerate(statuses) if status == "in_progress"]
    not_done = [index for index, status in enumerate(statuses) if status != "completed"]
    return titles, [*moving, *not_done, len(titles) - 1][0]


def _status_of_section(title: str, lines: list[str]) -> str:
    stated = _values("\n".join(lines), ("status",)).get("status", "")
    status = _status_in(title) or _status(stated)
    boxes = task_lists.parse("\n".join(lines))
    is_ticked = bool(boxes) and all(is_done for _, is_done in boxes)
    return status or ("completed" if is_ticked else "")


def _status_in(title: str) -> str:
    """Return the status in a heading: a mark, or words in brackets or after a dash at its end."""
    if any(mark in title for mark in _MARKS):
        return _status(title)
    for bracket in ("(", "[", " - ", "\u2013", "\u2014"):
        before, is_there, remark = title.rpartition(bracket)
        if is_there and before and (status := _status(remark)):
            return status
    return ""


def _reading(text: str) -> list[str]:
    """Return every ``@path`` that stands alone on a line or in an item of a list."""
    items = (line.strip().lstrip("-*+ ").strip("`") for line in text.splitlines())
    return [item for item in items if item.startswith("@") and " " not in item and len(item) > 1]
