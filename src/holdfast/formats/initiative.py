"""One initiative as the document of a record. Where several stand is ``formats.initiatives``.

The document tells how far each milestone is; titles, tasks and times are in the rest. A document
of another tool needs a name and a status, and may list only those milestones that were begun.
"""

from __future__ import annotations

from holdfast.core.initiative import STATUSES
from holdfast.formats.schema import (
    PHASE_STATUSES,
    PLACE,
    Invalid,
    check_object,
    flag,
    named,
    one_of,
    rows,
    table,
    text,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.core.types import Fields, Initiative, Milestone, MilestoneTask, Origin
    from holdfast.formats.schema import Path

KEYS = ("name", "status", "currentMilestone", "lastUpdated", "progress")

_TRUE_WHILE = {
    "reason": ("blocked",),
    "completed_at": ("completed", "archived"),
    "archived_at": ("archived",),
}
_TRUE_OF_MILESTONE_WHILE = {
    "started_at": ("in_progress", "blocked", "completed"),
    "completed_at": ("completed",),
}
"""A status that was changed by hand leaves behind what was said of the one before."""


def render(state: Initiative) -> tuple[Fields, Fields]:
    """The document, and the rest of the state."""
    document = {
        "name": state["name"],
        "status": state["status"],
        "currentMilestone": state["current_milestone"],
        "lastUpdated": state["updated_at"],
        "progress": {milestone["id"]: milestone["status"] for milestone in state["milestones"]},
        **state["extra"],
    }
    names = ("created_at", "files", "folder", *_TRUE_WHILE)
    rest: Fields = {name: value for name, value in state.items() if name in names}
    rest["milestones"] = [
        {name: value for name, value in milestone.items() if name != "status"}
        for milestone in state["milestones"]
    ]
    return document, rest


def parse(document: Fields, rest: Fields, origin: Origin) -> Initiative:
    """The state; ``Invalid`` when the document makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    status = one_of(document, "status", [], STATUSES)
    updated_at = when(document, "lastUpdated", [], origin["at"])
    milestones = _milestones(document, rest)
    state: Initiative = {
        "name": named(document, "name", []),
        "status": status,
        "created_at": when(rest, "created_at", PLACE, updated_at),
        "updated_at": updated_at,
        "current_milestone": _current(document, milestones),
        "milestones": milestones,
        "extra": {key: value for key, value in document.items() if key not in KEYS},
    }
    if flag(rest, "files", PLACE, default=False):
        state["files"] = True
    if (folder := text(rest, "folder", PLACE, None)) is not None:
        if folder in ("", ".", "..") or "/" in folder or not folder.isprintable():
            raise Invalid([*PLACE, "folder"], "must be the name of a folder")
        state["folder"] = folder
    return {**state, **_notes(rest, PLACE, status, _TRUE_WHILE)}  # type: ignore[typeddict-item]


def _notes(
    found: Fields, place: Path, status: str, while_: Mapping[str, Collection[str]]
) -> Fields:
    """What the rest tells, as far as it can be true in this status."""
    names = [name for name, statuses in while_.items() if name in found and status in statuses]
    return {name: (text if name == "reason" else when)(found, name, place) for name in names}


def _current(document: Fields, milestones: list[Milestone]) -> str | None:
    open_ids = [milestone["id"] for milestone in milestones if milestone["status"] != "completed"]
    last = milestones[-1]["id"] if milestones else None
    return text(document, "currentMilestone", [], None) or next(iter(open_ids), last)


def _milestones(document: Fields, rest: Fields) -> list[Milestone]:
    """Those of the document, in the order of the rest: tools sort the keys of an object."""
    progress = table(document, "progress", [])
    current = text(document, "currentMilestone", [], None)
    known: dict[str, tuple[Fields, Path]] = {}
    for position, entry in enumerate(rows(rest, "milestones", PLACE)):
        place = [*PLACE, "milestones", position]
        known[named(entry, "id", place)] = (entry, place)
    if current and current not in progress:
        if known and current not in known:
            raise Invalid(["currentMilestone"], "must be one of the milestones in progress")
        begun = document["status"] == "in_progress"
        progress = {**progress, current: "in_progress" if begun else "pending"}
    ordered = dict.fromkeys([*(each for each in known if each in progress), *progress])
    return [_milestone(each, progress, *known.get(each, ({}, PLACE))) for each in ordered]


def _milestone(milestone_id: str, progress: Fields, found: Fields, place: Path) -> Milestone:
    status = one_of(progress, milestone_id, ["progress"], PHASE_STATUSES)
    if not milestone_id.strip():
        raise Invalid(["progress", milestone_id], "must have a name")
    milestone: Milestone = {
        "id": milestone_id,
        "title": text(found, "title", place, ""),
        "status": status,
        "tasks": [
            _task(entry, [*place, "tasks", position])
            for position, entry in enumerate(rows(found, "tasks", place))
        ],
    }
    return {**milestone, **_notes(found, place, status, _TRUE_OF_MILESTONE_WHILE)}  # type: ignore[typeddict-item]


def _task(entry: Fields, place: Path) -> MilestoneTask:
    return {"text": named(entry, "text", place), "done": flag(entry, "done", place)}
