"""The position of a workflow in a document of which an editor may have changed only half.

A script that sets the current phase does not update the statuses, or the other way round. ``rest``
has what was rendered (``was``), so that an edited value can be told from an old one.
"""

from __future__ import annotations

from holdfast.core.workflow.state import find_phase, pending_phase
from holdfast.formats.schema import REST_PATH, SAME, Invalid, named, phases, table, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.core.types import Fields, Json, Phase, Recipe, Workflow
    from holdfast.formats.schema import Path

    Position = tuple[str | None, list[Phase]]

_DROPPED_FIELDS = {
    "pending": ("started_at", "completed_at", "approved", "reason"),
    "in_progress": ("completed_at", "reason"),
}
"""Fields that a phase loses when it gets this status."""


def index_to_show(current: str | None, listed: list[Phase]) -> int:
    """Return the index of the phase to show: the current one, else the next, else the last."""
    following = len(listed) - 1
    for index in range(len(listed) - 1, -1, -1):
        if listed[index]["name"] == current:
            return index
        if listed[index]["status"] == "pending":
            following = index
    return following


def position_in_rest(rest: Fields, recipe: Recipe) -> Position:
    """Return the position that was rendered, if ``rest`` has all of it."""
    if "phases" in rest:
        listed = phases(rest, "phases", REST_PATH)
    else:
        listed = [pending_phase(phase) for phase in recipe["phases"]]
    current = text(rest, "phase", REST_PATH, None)
    if current is not None and all(phase["name"] != current for phase in listed):
        raise Invalid([*REST_PATH, "phase"], "is the name of no phase")
    return current, listed


def rendered_position(state: Workflow) -> Fields:
    """Return the position as ``was``, from which a later parse detects edits."""
    statuses = {phase["name"]: phase["status"] for phase in state["phases"]}
    return {"phase": state["phase"], "statuses": statuses}


def rendered_statuses(rest: Fields) -> dict[str, str] | None:
    """Return the statuses that were rendered; ``None`` for another tool's document."""
    if "was" not in rest:
        return None
    return table(table(rest, "was", REST_PATH), "statuses", [*REST_PATH, "was"])


def parse_position(
    doc: Fields,
    key: str,
    path: Path,
    recipe: Recipe,
    rest: Fields,
    *,
    names: Mapping[str, str] = SAME,
) -> Position:
    """Return the position in a document that lists its phases, the current one under ``key``."""
    listed = phases(doc, "phases", path, names)
    current = None if doc.get(key) is None else named(doc, key, path)
    before = rendered_statuses(rest)
    if not listed and before is None:
        return current, complete_until(
            [pending_phase(phase) for phase in recipe["phases"]], current
        )
    if current is not None and all(phase["name"] != current for phase in listed):
        raise Invalid([*path, key], "is the name of no phase")
    if key not in doc:
        begun = [phase["name"] for phase in listed if phase["status"] == "in_progress"]
        return (begun[0] if begun else None), listed
    if before is None:
        return current, _catch_up(listed, current)
    was = text(table(rest, "was", REST_PATH), "phase", [*REST_PATH, "was"], None)
    return _merge_edit(listed, current, was, before)


def _catch_up(listed: list[Phase], current: str | None) -> list[Phase]:
    """Return another tool's phases, whose statuses may lag behind its current phase."""
    statuses = {phase["name"]: phase["status"] for phase in listed}
    status = statuses.pop(current or "", "in_progress")
    lags = status == "pending" or (status == "completed" and "in_progress" in statuses.values())
    return move_to(listed, current, statuses.keys() | {current}) if current and lags else listed


def _merge_edit(
    listed: list[Phase], current: str | None, was: str | None, before: dict[str, str]
) -> Position:
    """Return the position of an edited record: edited statuses stay, the others follow the move."""
    changed = [p["name"] for p in listed if p["status"] != before.get(p["name"], "pending")]
    if current == was:
        begun = [
            phase["name"]
            for phase in listed
            if phase["status"] == "in_progress" and phase["name"] in changed
            if phase["name"] != current
        ]
        if len(begun) != 1:
            return current, listed
        current = begun[0]
    if current is None:
        return None, listed
    following = {was, current}.difference(changed) if changed else {p["name"] for p in listed}
    return current, move_to(listed, current, following)


def move_to(listed: list[Phase], current: str, following: Collection[str | None]) -> list[Phase]:
    """Return the phases after a move to ``current``; only those in ``following`` change status."""
    target = [phase["name"] for phase in listed].index(current)
    after: list[Phase] = []
    for position, phase in enumerate(listed):
        status = phase["status"]
        if phase["name"] not in following:
            after.append(phase)
        elif position == target:
            after.append(with_status(phase, "in_progress"))
        elif position < target and status == "in_progress":
            after.append(with_status(phase, "completed"))
        elif position > target and status != "pending":
            after.append(with_status(phase, "pending"))
        else:
            after.append(phase)
    return after


def next_cycle(base: Workflow, edited: Workflow) -> Workflow:
    """Return the edited state; in its next cycle if the edit went back to where cycles begin.

    A phase keeps only what the edit wrote: the fields of ``base`` belong to the last cycle.
    """
    current = edited["phase"]
    before = find_phase(base, current)
    is_back = current != base["phase"] and before is not None and before["status"] == "completed"
    if not is_back or edited["recipe"].get("cycles_at") != current:
        return edited
    begun = [_begun(phase, find_phase(base, phase["name"]), current) for phase in edited["phases"]]
    is_counted = edited["cycle"] != base["cycle"]
    return {**edited, "cycle": edited["cycle"] + (not is_counted), "phases": begun}


def _begun(phase: Phase, was: Phase | None, current: str | None) -> Phase:
    edited: Json = {
        key: value for key, value in phase.items() if was is None or was.get(key) != value
    }
    fresh: Json = {**pending_phase(phase), **edited}  # type: ignore[arg-type]
    return with_status(fresh, phase["status"] if phase["name"] == current else "pending")


def complete_until(listed: list[Phase], current: str | None) -> list[Phase]:
    """Return phases of which only the current one is known: those before it are completed."""
    if current is None:
        return listed
    names = [phase["name"] for phase in listed]
    if current not in names:
        names.append(current)
        listed = [*listed, {"name": current, "status": "pending"}]
    index = names.index(current)
    done = [with_status(phase, "completed") for phase in listed[:index]]
    return [*done, with_status(listed[index], "in_progress"), *listed[index + 1 :]]


def with_status(phase: Phase, status: str) -> Phase:
    gone = _DROPPED_FIELDS.get(status, ())
    changed: Json = {key: value for key, value in phase.items() if key not in gone}
    changed["status"] = status
    after: Phase = changed
    return after
