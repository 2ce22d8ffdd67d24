"""Workflows that an agent began without Holdfast, read from the notes that it keeps for itself.

Two kinds of notes tell: ``CLAUDE.local.md`` that names a workflow and its phase, and a plan under
``CLAUDE/Plan/`` that is in progress. What is found is a document of the formal format, as the agent
itself would have written it. Text in, documents out: nothing here writes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

NOTES = "CLAUDE.local.md"
PLANS = os.path.join("CLAUDE", "Plan")
PLAN = "PLAN.md"
_MARKER = "workflow state"
_KINDS = ("planning", "qa-loop", "implementation")
_DECORATION = "#*_-> \t`|[]\ufeff"
_AROUND = "*_` \t|>"
_BETWEEN = " -\u2013\u2014:.)`*_"
_MOVING = "🔄"
_DONE = "✅"
_IN_PROGRESS = f"{_MOVING} in progress"
_MARKS = f"{_MOVING}{_DONE}⬜⏳❌"
_MAX_BYTES = 256 * 1024
_MAX_FOLDERS = 2_000
_MAX_PLANS = 200
_MAX_PHASES = 200
_MAX_NAME = 200
_MAX_DIGITS = 6
_MAX_READING = 100


def detect(root: str) -> list[Fields]:
    """The documents of every workflow that the notes in this folder tell of.

    ``said`` in each is what the notes themselves say of the phase, and ``source`` is their path.
    """
    notes = from_notes(_text(root, NOTES))
    plans: list[Fields] = []
    # Plans are numbered as they come, and those that are done stay: the newest are the last.
    for name in reversed(_folders(os.path.join(root, PLANS))[-_MAX_FOLDERS:]):
        path = os.path.join(PLANS, name, PLAN)
        plan = from_plan(_text(root, path), path)
        if plan is not None and len(plans) < _MAX_PLANS:
            plans.insert(0, plan)
    return plans if notes is None else [notes, *plans]


def from_notes(text: str) -> Fields | None:
    """The workflow of ``CLAUDE.local.md``: a marker, ``Workflow:`` and ``Phase:``, in any case."""
    if _MARKER not in text.lower():
        return None
    said = _said(text, ("workflow", "phase"))
    name = said.get("workflow", "")
    if not name or "phase" not in said:
        return None
    return _document(NOTES, name, _phase(said["phase"]), _reading(text), {})


def from_plan(text: str, path: str) -> Fields | None:
    """The workflow of a plan that is in progress and speaks of phases or a workflow."""
    low = text.lower()
    if _IN_PROGRESS not in low or not ("phase" in low or "workflow" in low):
        return None
    folder = os.path.basename(os.path.dirname(path))
    said = _said(text, ("workflow", "phase", "plan"))
    phase = _phase(said["phase"]) if "/" in said.get("phase", "") else _headed(text)
    name = said.get("workflow") or _heading(text) or folder
    number = folder.partition("-")[0]
    context: Fields = {"plan": folder}
    if number.isascii() and number.isdigit() and len(number) < 10:
        context["plan_number"] = int(number)
    return _document(path, name, phase, [f"@{path}", *_reading(text)], context)


def _document(source: str, name: str, said: Fields, reading: list[str], context: Fields) -> Fields:
    low = name.lower()
    kind = next((kind for kind in _KINDS if kind in low.replace(" ", "-")), "custom")
    current = said.get("current", 1)
    return {
        "source": source,
        "said": said,
        "workflow": name[:_MAX_NAME],
        "workflow_type": kind,
        "phase": {
            "current": current,
            "total": said.get("total", current),
            "name": said.get("name", f"Phase {current}"),
            "status": "in_progress",
        },
        "required_reading": list(dict.fromkeys(reading))[:_MAX_READING],
        "context": context,
        "key_reminders": [],
    }


def _said(text: str, keys: tuple[str, ...]) -> dict[str, str]:
    """What the first line of each ``Key: value`` says, whatever marks stand around the key."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        name = key.strip(_DECORATION).lower()
        said = value.strip(_AROUND)
        if colon and name in keys and said:
            found.setdefault(name, said)
    return found


def _phase(said: str) -> Fields:
    """``4/10 - SEO Generation``, ``4 of 10: Build``, ``Build``: what of it is said, and no more."""
    if said[:5].lower() == "phase":
        said = said[5:].strip() or said
    current, rest = _number(said)
    total: int | None = None
    if current is not None:
        rest = rest.lstrip()
        for between in ("/", "of "):
            if total is None and rest.lower().startswith(between):
                total, rest = _number(rest[len(between) :].lstrip())
    found: Fields = {}
    if current is not None:
        found["current"] = min(max(current, 1), _MAX_PHASES)
    if total is not None:
        found["total"] = min(max(total, found["current"]), _MAX_PHASES)
    name = _name(rest)
    return {**found, "name": name} if name else found


def _name(text: str) -> str:
    text = text.lstrip(_BETWEEN + _MARKS)
    for mark in _MARKS:
        text = text.partition(mark)[0]
    return text.rstrip(f"{_AROUND} -(:[")[:_MAX_NAME]


def _number(text: str) -> tuple[int | None, str]:
    """The number that the text begins with, if it does, and what follows it."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    rest = text[len(digits) :]
    if not digits or rest[:1].isalpha():
        return None, text
    return int(digits[:_MAX_DIGITS]), rest


def _headed(text: str) -> Fields:
    """The phases that a plan's headings name; the first in progress, or not done, is current.

    The mark stands in the heading, or in a line ``Status:`` below it.
    """
    phases: list[str] = []
    marks: list[str] = []
    for line in text.splitlines():
        title = line.lstrip("# ")
        if line.startswith("#") and title.lower().startswith("phase "):
            phases.append(title)
            marks.append(title)
        elif phases and "status" in _said(line, ("status",)):
            marks[-1] += line
    if not phases:
        return {}
    moving = [place for place, said in enumerate(marks) if _MOVING in said]
    left = [place for place, said in enumerate(marks) if _DONE not in said]
    current = [*moving, *left, len(phases) - 1][0]
    said = _phase(phases[current])
    return {**said, "current": current + 1, "total": min(len(phases), _MAX_PHASES)}


def _heading(text: str) -> str:
    titles = (line.lstrip("#").strip() for line in text.splitlines() if line.startswith("# "))
    return next((title for title in titles if title), "")


def _reading(text: str) -> list[str]:
    """Lines that name a file with ``@``, alone or as an item of a list."""
    items = (line.strip().lstrip("-*+ ").strip("`") for line in text.splitlines())
    return [item for item in items if item.startswith("@") and " " not in item and len(item) > 1]


def _folders(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(root: str, path: str) -> str:
    """The beginning of a file in the workspace; empty where there is none to be read."""
    full = os.path.join(root, path)
    top = os.path.join(os.path.realpath(root), "")
    if not os.path.isfile(full) or not os.path.realpath(full).startswith(top):
        return ""
    try:
        with open(full, "rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
