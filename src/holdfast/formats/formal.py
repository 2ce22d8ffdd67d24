"""The formal format: a named process that survives compaction, with required reading.

The document names only the current phase, by number and name; ``rest`` has all of them. An edit of
the number, name, status or total is interpreted against what the document showed before.
"""

from __future__ import annotations

from holdfast.core.time import epoch_ms, iso
from holdfast.formats.document import (
    EVERYWHERE,
    complete_until,
    compose,
    fit_recipe,
    index_to_show,
    known_recipe,
    local_recipe,
    merge_extra,
    move_to,
    position_in_rest,
    rename_phases,
    rest_of,
    shared_name,
    title_and_subject,
    unknown_fields,
    with_status,
    workflow_id_of,
)
from holdfast.formats.schema import (
    MAX_PHASES,
    REQUIRED,
    REST_PATH,
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
    from holdfast.formats.document import Position

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
    """Return the record's path from the worktree's root."""
    start = iso(epoch_ms(created_at) or 0)[:19].translate(_IN_FILE_NAMES)
    return f"untracked/workflow-state/{workflow_id}/state-{workflow_id}-{start}.json"


def render(state: Workflow) -> tuple[Fields, Fields]:
    """Return the document, and the state that it cannot express."""
    rest = rest_of(state, _SHOWN)
    document: Fields = {
        "workflow": shared_name(state, rest),
        "workflow_type": state["recipe"]["name"],
        "phase": _shown_phase(state["phase"], state["phases"]),
        "required_reading": state["required_reading"],
        "context": state["context"],
        "key_reminders": state["reminders"],
        "created_at": state["created_at"],
    }
    if state["extra"]:
        merge_extra(document, rest, state["extra"], _NESTED)
    return document, rest


def _shown_phase(current: str | None, listed: list[Phase]) -> Fields:
    """Return the one phase that the document names."""
    if not listed:
        return {"current": 0, "total": 0, "name": "", "status": "not_started"}
    index = index_to_show(current, listed)
    phase = listed[index]
    return {
        "current": index + 1,
        "total": len(listed),
        "name": phase["name"],
        "status": _SHOWN_STATUS.get(phase["status"], phase["status"]),
    }


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """Return the state of a document; raise ``Invalid`` if a field has no valid value."""
    check_object(document, [])
    check_object(rest, REST_PATH)
    title = text(document, "workflow", [])
    kind = named(document, "workflow_type", [])
    remembered = known_recipe(rest)
    recipe = remembered
    if recipe is None or recipe["name"] != kind:
        recipe = local_recipe(kind, "formal", origin)
    stated = _parse_phase(document)
    if remembered is None:
        phase, listed = _number_phases(stated)
        recipe = fit_recipe(recipe, listed)
    else:
        was, before = position_in_rest(rest, remembered)
        phase, listed = _apply_edit(stated, was, before)
        names = [(p["name"], q["name"]) for p, q in zip(before, listed, strict=False)]
        recipe = rename_phases(recipe, {old: new for old, new in names if old != new})
        if remembered is not recipe or len(before) != len(listed):
            recipe = fit_recipe(recipe, listed)
    created_at = when(document, "created_at", [], None) or origin["at"]
    parts: Fields = {
        **title_and_subject(title, rest),
        "created_at": created_at,
        "phase": phase,
        "phases": listed,
        "required_reading": _reading(document),
        "context": table(document, "context", []),
        "reminders": texts(document, "key_reminders", []),
    }
    workflow_id = workflow_id_of(rest, folder(origin["path"]))
    state = compose(workflow_id, recipe, parts, rest, origin)
    state["extra"] = unknown_fields(document, rest, render(state)[0], _NESTED)
    return state


def _reading(document: Fields) -> list[str]:
    reading = texts(document, "required_reading", [])
    for number, entry in enumerate(reading):
        if not entry.startswith("@"):
            raise Invalid(["required_reading", number], f"must start with @, as in @{entry[:80]!r}")
    return reading


def _parse_phase(document: Fields) -> Fields:
    """Return the document's phase, checked."""
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


def _number_phases(stated: Fields) -> Position:
    """Return the phases of another tool's document; those without a name are numbered."""
    total, index = stated["total"], stated["current"] - 1
    if total == 0:
        return None, []
    own = stated["name"] if stated["name"].strip() else _numbered(index + 1, ())
    names = [_numbered(number, (own,)) for number in range(1, total + 1)]
    names[index] = own
    pending: list[Phase] = [{"name": name, "status": "pending"} for name in names]
    listed = complete_until(pending, own)
    listed[index] = with_status(listed[index], _STATUS[stated["status"]])
    return _unless_next(own, listed)


def _numbered(number: int, taken: Collection[str]) -> str:
    name = f"Phase {number}"
    while name in taken:
        name += "'"
    return name


def _unless_next(current: str | None, listed: list[Phase]) -> Position:
    """Return no current phase if it is the next one and not started."""
    shown = _shown_phase(current, listed)
    ahead = shown["status"] == "not_started" and shown == _shown_phase(None, listed)
    return (None if ahead else current), listed


def _apply_edit(stated: Fields, current: str | None, listed: list[Phase]) -> Position:
    """Return the phases after the edit that turned the shown phase into ``stated``."""
    shown = _shown_phase(current, listed)
    edited = {key for key in shown if stated[key] != shown[key]}
    if not edited:
        return current, listed
    if stated["total"] == 0:
        raise Invalid(["phase", "total"], "must be 1 at least")
    listed = _grown(listed, stated["total"])
    names = [phase["name"] for phase in listed]
    index = stated["current"] - 1
    if "name" in edited and "current" not in edited and stated["name"] in names:
        index = names.index(stated["name"])
    if index != shown["current"] - 1:
        current = names[index]
        listed = move_to(listed, current, names)
    if "name" in edited and stated["name"] != names[index]:
        listed = _renamed(listed, index, stated["name"])
        current = stated["name"] if current == names[index] else current
    if "status" in edited:
        listed = [*listed]
        listed[index] = with_status(listed[index], _STATUS[stated["status"]])
        current, listed = _unless_next(listed[index]["name"], listed)
    return current, _cut(listed, stated["total"])


def _grown(listed: list[Phase], total: int) -> list[Phase]:
    names = [phase["name"] for phase in listed]
    for number in range(len(listed) + 1, total + 1):
        names.append(_numbered(number, names))
    added: list[Phase] = [{"name": name, "status": "pending"} for name in names[len(listed) :]]
    return [*listed, *added]


def _renamed(listed: list[Phase], index: int, name: str) -> list[Phase]:
    if not name.strip():
        raise Invalid(["phase", "name"], "must not be empty")
    if any(phase["name"] == name for phase in listed):
        raise Invalid(["phase", "name"], "is the name of another phase")
    return [*listed[:index], {**listed[index], "name": name}, *listed[index + 1 :]]


def _cut(listed: list[Phase], total: int) -> list[Phase]:
    if any(phase["status"] != "pending" for phase in listed[total:]):
        raise Invalid(["phase", "total"], "would drop a phase that has begun")
    return listed[:total]
