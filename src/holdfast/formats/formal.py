"""The formal format: a named process that survives compaction, with required reading.

The document names only the current phase, by number and name; ``rest`` holds them all. So an edit
of the number, the name, the status or the total is read against what the document showed before.
"""

from __future__ import annotations

from holdfast.core.time import epoch_ms, iso
from holdfast.formats.leftover_state import (
    EVERYWHERE,
    both_names,
    composed,
    fitted,
    identity,
    one_name,
    put_back,
    recipe_here,
    relabelled,
    remembered_recipe,
    rest_of,
    unknown,
)
from holdfast.formats.phase_fields import kept_in, moved, place_of, reached, with_status
from holdfast.formats.schema import (
    MAX_PHASES,
    PLACE,
    REQUIRED,
    Invalid,
    check_object,
    count,
    folder,
    named,
    one_of,
    table,
    text,
    texts,
    when,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import Fields, Origin, Phase, Workflow
    from holdfast.formats.phase_fields import Position

_SHOWN = EVERYWHERE | {"subject", "title", "required_reading", "context", "reminders"}
_NESTED = ("phase",)
_SHOWN_STATUS = {"pending": "not_started"}
_IN_FILE_NAMES = str.maketrans("T", "_", "-:")
_STATUS = {
    "not_started": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "blocked": "blocked",
}


def path(workflow_id: str, created_at: str) -> str:
    """Where the record stands, from the worktree's root."""
    start = iso(epoch_ms(created_at) or 0)[:19].translate(_IN_FILE_NAMES)
    return f"untracked/workflow-state/{workflow_id}/state-{workflow_id}-{start}.json"


def render(state: Workflow) -> tuple[Fields, Fields]:
    """The document, and the state that it cannot express."""
    rest = rest_of(state, _SHOWN)
    document: Fields = {
        "workflow": one_name(state, rest),
        "workflow_type": state["recipe"]["name"],
        "phase": _shown(state["phase"], state["phases"]),
        "required_reading": state["required_reading"],
        "context": state["context"],
        "key_reminders": state["reminders"],
        "created_at": state["created_at"],
    }
    if state["extra"]:
        put_back(document, rest, state["extra"], _NESTED)
    return document, rest


def _shown(current: str | None, listed: list[Phase]) -> Fields:
    """The one phase that the document names."""
    if not listed:
        return {"current": 0, "total": 0, "name": "", "status": "not_started"}
    place = place_of(current, listed)
    phase = listed[place]
    return {
        "current": place + 1,
        "total": len(listed),
        "name": phase["name"],
        "status": _SHOWN_STATUS.get(phase["status"], phase["status"]),
    }


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """The state of a document; ``Invalid`` where it makes no sense."""
    check_object(document, [])
    check_object(rest, PLACE)
    title = text(document, "workflow", [])
    kind = named(document, "workflow_type", [])
    remembered = remembered_recipe(rest)
    recipe = remembered
    if recipe is None or recipe["name"] != kind:
        recipe = recipe_here(kind, "formal", origin)
    said = _said(document)
    if remembered is None:
        phase, listed = _counted(said)
        recipe = fitted(recipe, listed)
    else:
        was, before = kept_in(rest, remembered)
        phase, listed = _moved(said, was, before)
        names = [(p["name"], q["name"]) for p, q in zip(before, listed, strict=False)]
        recipe = relabelled(recipe, {old: new for old, new in names if old != new})
        if remembered is not recipe or len(before) != len(listed):
            recipe = fitted(recipe, listed)
    created_at = when(document, "created_at", [], None) or origin["at"]
    parts: Fields = {
        **both_names(title, rest),
        "created_at": created_at,
        "phase": phase,
        "phases": listed,
        "required_reading": _reading(document),
        "context": table(document, "context", []),
        "reminders": texts(document, "key_reminders", []),
    }
    workflow_id = identity(rest, folder(origin["path"]))
    state = composed(workflow_id, recipe, parts, rest, origin)
    state["extra"] = unknown(document, rest, render(state)[0], _NESTED)
    return state


def _reading(document: Fields) -> list[str]:
    reading = texts(document, "required_reading", [])
    for number, entry in enumerate(reading):
        if not entry.startswith("@"):
            raise Invalid(["required_reading", number], f"must start with @, as in @{entry[:80]!r}")
    return reading


def _said(document: Fields) -> Fields:
    """What the document says about its phases, in bounds and in its own words."""
    phase = table(document, "phase", [], REQUIRED)
    total = count(phase, "total", ["phase"])
    if total > MAX_PHASES:
        raise Invalid(["phase", "total"], f"must be {MAX_PHASES:,} at most")
    current = count(phase, "current", ["phase"])
    if not min(1, total) <= current <= total:
        raise Invalid(["phase", "current"], f"must be a number from 1 to {total}, the total")
    return {
        "current": current,
        "total": total,
        "name": text(phase, "name", ["phase"], ""),
        "status": one_of(phase, "status", ["phase"], _STATUS, "in_progress"),
    }


def _counted(said: Fields) -> Position:
    """The phases of another tool's document: those it does not name are numbered."""
    total, place = said["total"], said["current"] - 1
    if total == 0:
        return None, []
    own = said["name"] if said["name"].strip() else _numbered(place + 1, ())
    names = [_numbered(number, (own,)) for number in range(1, total + 1)]
    names[place] = own
    pending: list[Phase] = [{"name": name, "status": "pending"} for name in names]
    listed = reached(pending, own)
    listed[place] = with_status(listed[place], _STATUS[said["status"]])
    return _unless_ahead(own, listed)


def _numbered(number: int, taken: Collection[str]) -> str:
    name = f"Phase {number}"
    while name in taken:
        name += "'"
    return name


def _unless_ahead(current: str | None, listed: list[Phase]) -> Position:
    """A phase that is next and not started is not the current one yet."""
    shown = _shown(current, listed)
    ahead = shown["status"] == "not_started" and shown == _shown(None, listed)
    return (None if ahead else current), listed


def _moved(said: Fields, current: str | None, listed: list[Phase]) -> Position:
    """The phases after the edit that made ``said`` of what the document showed."""
    shown = _shown(current, listed)
    edited = {key for key in shown if said[key] != shown[key]}
    if not edited:
        return current, listed
    if said["total"] == 0:
        raise Invalid(["phase", "total"], "must be 1 at least")
    listed = _grown(listed, said["total"])
    names = [phase["name"] for phase in listed]
    place = said["current"] - 1
    if "name" in edited and "current" not in edited and said["name"] in names:
        place = names.index(said["name"])
    if place != shown["current"] - 1:
        current = names[place]
        listed = moved(listed, current, names)
    if "name" in edited and said["name"] != names[place]:
        listed = _renamed(listed, place, said["name"])
        current = said["name"] if current == names[place] else current
    if "status" in edited:
        listed = [*listed]
        listed[place] = with_status(listed[place], _STATUS[said["status"]])
        current, listed = _unless_ahead(listed[place]["name"], listed)
    return current, _cut(listed, said["total"])


def _grown(listed: list[Phase], total: int) -> list[Phase]:
    names = [phase["name"] for phase in listed]
    for number in range(len(listed) + 1, total + 1):
        names.append(_numbered(number, names))
    added: list[Phase] = [{"name": name, "status": "pending"} for name in names[len(listed) :]]
    return [*listed, *added]


def _renamed(listed: list[Phase], place: int, name: str) -> list[Phase]:
    if not name.strip():
        raise Invalid(["phase", "name"], "must not be empty")
    if any(phase["name"] == name for phase in listed):
        raise Invalid(["phase", "name"], "is the name of another phase")
    return [*listed[:place], {**listed[place], "name": name}, *listed[place + 1 :]]


def _cut(listed: list[Phase], total: int) -> list[Phase]:
    if any(phase["status"] != "pending" for phase in listed[total:]):
        raise Invalid(["phase", "total"], "would drop a phase that has begun")
    return listed[:total]
