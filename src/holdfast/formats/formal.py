"""The formal format: a named process that survives compaction, with required reading.

The document names only the current phase, by number and name; ``rest`` has all of them. An edit of
the number, name, status or total is interpreted against what the document showed before.
"""

from __future__ import annotations

from holdfast.formats import schema
from holdfast.formats.schema import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import Fields, Json, Origin, Phase, Workflow
    from holdfast.formats.schema import Position

_SHOWN = schema.EVERYWHERE | {"subject", "title", "required_reading", "context", "reminders"}
_NESTED = ("phase",)
_SHOWN_STATUS = {"pending": "not_started", "skipped": "not_started"}
_STATUS = {
    "not_started": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "blocked": "blocked",
}


def render(state: Workflow) -> tuple[Fields, Fields]:
    """Return the document, and the state that it cannot express."""
    rest = schema.rest_of(state, _SHOWN)
    document: Fields = {
        "workflow": schema.shared_name(state, rest),
        "workflow_type": state["recipe"]["name"],
        "phase": _shown_phase(state["phase"], state["phases"]),
        "required_reading": state["required_reading"],
        "context": state["context"],
        "key_reminders": state["reminders"],
        "created_at": state["created_at"],
    }
    if state["extra"]:
        schema.merge_extra(document, rest, state["extra"], _NESTED)
    return document, rest


def _shown_phase(current: str | None, phases: list[Phase]) -> Fields:
    """Return the one phase that the document names."""
    if not phases:
        return {"current": 0, "total": 0, "name": "", "status": "not_started"}
    index = schema.index_to_show(current, phases)
    phase = phases[index]
    return {
        "current": index + 1,
        "total": len(phases),
        "name": phase["name"],
        "status": _SHOWN_STATUS.get(phase["status"], phase["status"]),
    }


def parse(document: Fields, rest: Fields, origin: Origin) -> Workflow:
    """Return the state of a document; raise ``Invalid`` if a field has no valid value."""
    title = schema.text(document, "workflow", [])
    kind = schema.named(document, "workflow_type", [])
    remembered = schema.known_recipe(rest)
    recipe = remembered
    if recipe is None or recipe["name"] != kind:
        recipe = schema.local_recipe(kind, "formal", origin)
    stated = _parse_phase(document)
    if remembered is None:
        phase, phases = _number_phases(stated)
        recipe = schema.fit_recipe(recipe, phases)
    else:
        was, before = schema.position_in_rest(rest, remembered)
        phase, phases = _apply_edit(stated, was, before)
        names = [(p["name"], q["name"]) for p, q in zip(before, phases, strict=False)]
        recipe = schema.rename_phases(recipe, {old: new for old, new in names if old != new})
        if remembered is not recipe or len(before) != len(phases):
            recipe = schema.fit_recipe(recipe, phases)
    reading = schema.texts(document, "required_reading", [])
    for number, entry in enumerate(reading):
        if not entry.startswith("@"):
            raise Invalid(["required_reading", number], f"must start with @, as in @{entry[:80]!r}")
    parts: Fields = {
        **schema.title_and_subject(title, rest),
        "created_at": schema.when(document, "created_at", [], None) or origin["at"],
        "phase": phase,
        "phases": phases,
        "required_reading": reading,
        "context": schema.table(document, "context", []),
        "reminders": schema.texts(document, "key_reminders", []),
    }
    if not rest:
        parts["updated_at"] = origin["at"]  # Another tool's document does not say it.
    workflow_id = schema.workflow_id_of(rest, schema.folder(origin["path"]))
    state = schema.compose(workflow_id, recipe, parts, rest, origin)
    state["extra"] = schema.unknown_fields(document, rest, render(state)[0], _NESTED)
    return state


def _parse_phase(document: Fields) -> Fields:
    """Return the document's phase, checked."""
    phase = schema.table(document, "phase", [], schema.REQUIRED)
    total = schema.count(phase, "total", ["phase"])
    if total > schema.MAX_PHASES:
        raise Invalid(["phase", "total"], f"must be {schema.MAX_PHASES:,} at most")
    current = schema.count(phase, "current", ["phase"])
    if not min(1, total) <= current <= total:
        raise Invalid(["phase", "current"], f"must be a number from 1 to {total}, the total")
    return {
        "current": current,
        "total": total,
        "name": schema.text(phase, "name", ["phase"], ""),
        "status": schema.one_of(phase, "status", ["phase"], _STATUS, "in_progress"),
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
    phases = schema.complete_until(pending, own)
    phases[index] = schema.with_status(phases[index], _STATUS[stated["status"]])
    return _unless_next(own, phases)


def _numbered(number: int, taken: Collection[str]) -> str:
    name = f"Phase {number}"
    while name in taken:
        name += "'"
    return name


def _unless_next(current: str | None, phases: list[Phase]) -> Position:
    """Return no current phase if it is the next one and not started."""
    shown_phase = _shown_phase(current, phases)
    ahead = shown_phase["status"] == "not_started" and shown_phase == _shown_phase(None, phases)
    return (None if ahead else current), phases


def _apply_edit(stated: Fields, current: str | None, phases: list[Phase]) -> Position:
    """Return the phases after the edit that turned the shown phase into ``stated``."""
    shown_phase = _shown_phase(current, phases)
    edited = {key for key in shown_phase if stated[key] != shown_phase[key]}
    if not edited:
        return current, phases
    if stated["total"] == 0:
        raise Invalid(["phase", "total"], "must be 1 at least")
    phases = list(phases)
    names = [phase["name"] for phase in phases]
    for number in range(len(phases) + 1, stated["total"] + 1):
        names.append(_numbered(number, names))
        phases.append({"name": names[-1], "status": "pending"})
    index = stated["current"] - 1
    if "name" in edited and "current" not in edited and stated["name"] in names:
        index = names.index(stated["name"])
    if index != shown_phase["current"] - 1:
        current = names[index]
        phases = schema.move_to(phases, current, names)
    if "name" in edited and stated["name"] != names[index]:
        if not stated["name"].strip():
            raise Invalid(["phase", "name"], "must not be empty")
        if stated["name"] in names:
            raise Invalid(["phase", "name"], "is the name of another phase")
        renamed: Json = {**phases[index], "name": stated["name"]}
        phases[index] = renamed
        current = stated["name"] if current == names[index] else current
    if "status" in edited:
        phases[index] = schema.with_status(phases[index], _STATUS[stated["status"]])
        current, phases = _unless_next(phases[index]["name"], phases)
    if any(phase["status"] != "pending" for phase in phases[stated["total"] :]):
        raise Invalid(["phase", "total"], "would drop a phase that has begun")
    return current, phases[: stated["total"]]
