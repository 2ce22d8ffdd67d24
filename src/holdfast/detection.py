"""Workflows that an agent began without Holdfast, read from the notes that it keeps for itself.

Two kinds of notes tell: ``CLAUDE.local.md`` that names a workflow and its phase, and a plan under
``CLAUDE/Plan/`` that is in progress. What is found is a document of the formal format, as the agent
itself would have written it. Text in, documents out: nothing here writes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields

NOTES = "CLAUDE.local.md"
PLANS = os.path.join("CLAUDE", "Plan")
PLAN = "PLAN.md"
_IN_PROGRESS = "🔄 in progress"
_MARKER = "workflow state"
_KINDS = ("planning", "qa-loop", "implementation")
_DECORATION = "#*_-> \t`|[]"
_BETWEEN = " -\u2013\u2014:.)"
_MAX_BYTES = 256 * 1024
_MAX_PLANS = 200
_MAX_PHASES = 200
_MAX_NAME = 200
_MAX_DIGITS = 6
_MAX_READING = 100


def detect(root: str) -> list[Fields]:
    """The documents of every workflow that the notes in this folder tell of."""
    found = [from_notes(_text(root, NOTES))]
    folder = os.path.join(root, PLANS)
    for name in _folders(folder)[:_MAX_PLANS]:
        path = os.path.join(PLANS, name, PLAN)
        found.append(from_plan(_text(root, path), path))
    return [document for document in found if document is not None]


def has_notes(root: str) -> bool:
    """A quick look: whether there is anything that could tell."""
    return os.path.exists(os.path.join(root, NOTES)) or os.path.exists(os.path.join(root, PLANS))


def from_notes(text: str) -> Fields | None:
    """The workflow of ``CLAUDE.local.md``: a marker, ``Workflow:`` and ``Phase:``, in any case."""
    if _MARKER not in text.lower():
        return None
    said = _said(text, ("workflow", "phase"))
    name = said.get("workflow", "")
    if not name or "phase" not in said:
        return None
    return _document(name, _phase(said["phase"]), _reading(text), {})


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
    return _document(name, phase, [f"@{path}", *_reading(text)], context)


def _document(name: str, phase: Fields, reading: list[str], context: Fields) -> Fields:
    low = name.lower()
    kind = next((kind for kind in _KINDS if kind in low.replace(" ", "-")), "custom")
    return {
        "workflow": name[:_MAX_NAME],
        "workflow_type": kind,
        "phase": phase,
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
        said = value.strip(_DECORATION).strip()
        if colon and name in keys and said:
            found.setdefault(name, said)
    return found


def _phase(said: str) -> Fields:
    """``4/10 - SEO Generation``, ``4 of 10: Build``, ``Build``; what is not named is numbered."""
    head = said.lower().removeprefix("phase").strip()
    said = said[len(said) - len(head) :] if head else said
    current, rest = _number(said)
    total: int | None = None
    if current is not None:
        rest = rest.lstrip()
        for between in ("/", "of "):
            if total is None and rest.lower().startswith(between):
                total, rest = _number(rest[len(between) :].lstrip())
    name = rest.lstrip(_BETWEEN).strip()
    first = max(current or 1, 1)
    last = min(max(total or 1, first), _MAX_PHASES)
    place = min(first, last)
    return {
        "current": place,
        "total": last,
        "name": name[:_MAX_NAME] or f"Phase {place}",
        "status": "in_progress",
    }


def _number(text: str) -> tuple[int | None, str]:
    """The number that the text begins with, if it does, and what follows it."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    if not digits:
        return None, text
    return int(digits[:_MAX_DIGITS]), text[len(digits) :]


def _headed(text: str) -> Fields:
    """The phases that a plan's headings name; the one in progress is current."""
    headings = [line for line in text.splitlines() if line.startswith("#")]
    phases = [line.lstrip("# ") for line in headings if "phase" in line.lower()]
    phases = [line for line in phases if line.lower().startswith("phase ")][:_MAX_PHASES]
    if not phases:
        return _phase("1")
    moving = [place for place, line in enumerate(phases) if "🔄" in line]
    current = moving[0] if moving else 0
    found = _phase(phases[current].replace("🔄", "").replace("In Progress", ""))
    return {**found, "current": current + 1, "total": len(phases)}


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
