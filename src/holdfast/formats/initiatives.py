"""The record of initiatives, ``.claude/initiative.json``: its document is the current initiative.

The other initiatives are in ``rest``, each as a document and a rest of its own. A document that
names another initiative makes that one current, and changes nothing else of the others.

The document of an initiative has the status of each milestone; titles, tasks and times are in its
rest. A document of another tool needs a name and a status, and may list only begun milestones.
"""

from __future__ import annotations

from holdfast.core.initiatives import MILESTONE_STATUSES_WITH, STATUSES, current_of, key_of
from holdfast.formats import schema
from holdfast.formats.schema import REST_PATH, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from holdfast.core.types import (
        Fields,
        Initiative,
        InitiativesState,
        Json,
        Milestone,
        Origin,
    )
    from holdfast.formats.schema import Path

KEYS = ("name", "status", "currentMilestone", "lastUpdated", "progress")

_MILESTONE_STATUSES = ("pending", "in_progress", "blocked", "completed")
_STATUSES_WITH = {
    "reason": ("blocked",),
    "completed_at": ("completed", "archived"),
    "archived_at": ("archived",),
    "forced": ("completed", "archived"),
}
"""Fields of an initiative that only these statuses have: an edit of the status drops the others."""


def render(state: InitiativesState) -> tuple[Fields, Fields]:
    """Return the document, and the rest of the state."""
    current = current_of(state)
    others = {
        key: dict(zip(("document", "rest"), render_initiative(other), strict=True))
        for key, other in state["all"].items()
        if key != state["current"]
    }
    if current is None:
        return {}, {"others": others}
    document, rest = render_initiative(current)
    return document, {**rest, "key": state["current"], "name": current["name"], "others": others}


def parse(document: Fields, rest: Fields, origin: Origin) -> InitiativesState:
    """Return the state; raise ``Invalid`` if a field has no valid value."""
    name = schema.named(document, "name", [])
    initiatives: dict[str, Initiative] = {}
    own_rest: Fields = {}
    key = key_of(name)
    for other_key, other in schema.tables(rest, "others", REST_PATH).items():
        path: Path = [*REST_PATH, "others", other_key]
        _check_key(other_key, path)
        other_rest = schema.table(other, "rest", path)
        initiative = parse_initiative(schema.table(other, "document", path), other_rest, origin)
        if initiative["name"] == name:
            key, own_rest = other_key, other_rest
        initiatives[other_key] = initiative
    former = schema.texts(rest, "former", REST_PATH) if "former" in rest else []
    if name in (schema.text(rest, "name", REST_PATH, None), *former):
        key, own_rest = schema.text(rest, "key", REST_PATH, key), rest
        _check_key(key, [*REST_PATH, "key"])
    initiatives[key] = parse_initiative(document, own_rest, origin)
    return {"current": key, "all": initiatives}


def _check_key(key: str, path: Path) -> None:
    """Raise ``Invalid`` for a key that is not a safe folder name."""
    if key_of(key) != key:
        raise Invalid(path, "must be lower case letters, digits and -")


def render_initiative(state: Initiative) -> tuple[Fields, Fields]:
    """Return the document of one initiative, and the rest of its state."""
    document = {
        "name": state["name"],
        "status": state["status"],
        "currentMilestone": state["current_milestone"],
        "lastUpdated": state["updated_at"],
        "progress": {milestone["id"]: milestone["status"] for milestone in state["milestones"]},
        **state["extra"],
    }
    names = ("created_at", "files", "folder", "former", *_STATUSES_WITH)
    rest: Fields = {name: value for name, value in state.items() if name in names}
    rest["milestones"] = [
        {name: value for name, value in milestone.items() if name != "status"}
        for milestone in state["milestones"]
    ]
    return document, rest


def parse_initiative(document: Fields, rest: Fields, origin: Origin) -> Initiative:
    """Return the state of one initiative; raise ``Invalid`` if a field has no valid value."""
    status = schema.one_of(document, "status", [], STATUSES)
    updated_at = schema.when(document, "lastUpdated", [], origin["at"])
    milestones = _milestones(document, rest)
    state: Initiative = {
        "name": schema.named(document, "name", []),
        "status": status,
        "created_at": schema.when(rest, "created_at", REST_PATH, updated_at),
        "updated_at": updated_at,
        "current_milestone": _current(document, milestones),
        "milestones": milestones,
        "extra": {key: value for key, value in document.items() if key not in KEYS},
    }
    if schema.flag(rest, "files", REST_PATH, default=False):
        state["files"] = True
    if (folder := schema.text(rest, "folder", REST_PATH, None)) is not None:
        if folder in ("", ".", "..") or "/" in folder or not folder.isprintable():
            raise Invalid([*REST_PATH, "folder"], "must be the name of a folder")
        state["folder"] = folder
    if "former" in rest:
        state["former"] = schema.texts(rest, "former", REST_PATH)
    return {**state, **_notes(rest, REST_PATH, status, _STATUSES_WITH)}  # type: ignore[typeddict-item]


def _notes(
    fields: Fields, path: Path, status: str, statuses_with: Mapping[str, Collection[str]]
) -> Fields:
    """Return the optional fields that a status can have."""
    return {
        name: _NOTES.get(name, schema.when)(fields, name, path)
        for name, statuses in statuses_with.items()
        if name in fields and status in statuses
    }


def _forced(fields: Fields, name: str, path: Path) -> Fields:
    forced = schema.table(fields, name, path)
    path = [*path, name]
    reason, left = schema.text(forced, "reason", path), schema.texts(forced, "open", path)
    return {"reason": reason, "open": left}


_NOTES: dict[str, Callable[[Fields, str, Path], Json]] = {"reason": schema.text, "forced": _forced}
"""What reads those that are no times."""


def _current(document: Fields, milestones: list[Milestone]) -> str | None:
    open_ids = [milestone["id"] for milestone in milestones if milestone["status"] != "completed"]
    last = milestones[-1]["id"] if milestones else None
    return schema.text(document, "currentMilestone", [], None) or next(iter(open_ids), last)


def _milestones(document: Fields, rest: Fields) -> list[Milestone]:
    """Return the document's milestones in the order of ``rest``: tools sort an object's keys."""
    progress = schema.table(document, "progress", [])
    current = schema.text(document, "currentMilestone", [], None)
    stored: dict[str, tuple[Fields, Path]] = {}
    for position, entry in enumerate(schema.rows(rest, "milestones", REST_PATH)):
        path = [*REST_PATH, "milestones", position]
        stored[schema.named(entry, "id", path)] = (entry, path)
    if current and current not in progress:
        if stored and current not in stored:
            raise Invalid(["currentMilestone"], "must be one of the milestones in progress")
        begun = document["status"] == "in_progress"
        progress = {**progress, current: "in_progress" if begun else "pending"}
    ordered = dict.fromkeys([*(name for name in stored if name in progress), *progress])
    return [_milestone(name, progress, *stored.get(name, ({}, REST_PATH))) for name in ordered]


def _milestone(milestone_id: str, progress: Fields, entry: Fields, path: Path) -> Milestone:
    status = schema.one_of(progress, milestone_id, ["progress"], _MILESTONE_STATUSES)
    if not milestone_id.strip():
        raise Invalid(["progress", milestone_id], "must have a name")
    milestone: Milestone = {
        "id": milestone_id,
        "title": schema.text(entry, "title", path, ""),
        "status": status,
        "tasks": [
            {
                "text": schema.named(task, "text", [*path, "tasks", position]),
                "done": schema.flag(task, "done", [*path, "tasks", position]),
            }
            for position, task in enumerate(schema.rows(entry, "tasks", path))
        ],
    }
    return {**milestone, **_notes(entry, path, status, MILESTONE_STATUSES_WITH)}  # type: ignore[typeddict-item]
