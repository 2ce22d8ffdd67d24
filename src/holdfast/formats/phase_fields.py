"""Where a workflow stands, out of a document in which someone may have changed only half of it.

A script that sets the current phase leaves the statuses behind, and the other way round. What was
rendered is remembered in ``rest`` (``was``), so a change can be told from what merely stands there.
"""

from __future__ import annotations

from holdfast.core.workflow.state import find_phase, pending_phase
from holdfast.formats.schema import PLACE, SAME, Invalid, named, phases, table, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from holdfast.core.types import Fields, Json, Phase, Recipe, Workflow
    from holdfast.formats.schema import Path

    Position = tuple[str | None, list[Phase]]

_NO_LONGER = {
    "pending": ("started_at", "completed_at", "approved", "reason"),
    "in_progress": ("completed_at", "reason"),
}
"""What a phase that gets this status does not say any more."""


def place_of(current: str | None, listed: list[Phase]) -> int:
    """The phase that a document names: the current one, else the next, else the last."""
    following = len(listed) - 1
    for place in range(len(listed) - 1, -1, -1):
        if listed[place]["name"] == current:
            return place
        if listed[place]["status"] == "pending":
            following = place
    return following


def kept_in(rest: Fields, recipe: Recipe) -> Position:
    """The position as it was rendered, where ``rest`` holds all of it."""
    if "phases" in rest:
        listed = phases(rest, "phases", PLACE)
    else:
        listed = [pending_phase(phase) for phase in recipe["phases"]]
    current = text(rest, "phase", PLACE, None)
    if current is not None and all(phase["name"] != current for phase in listed):
        raise Invalid([*PLACE, "phase"], "is the name of no phase")
    return current, listed


def remembered(state: Workflow) -> Fields:
    """What tells an edit of the position from what was rendered."""
    statuses = {phase["name"]: phase["status"] for phase in state["phases"]}
    return {"phase": state["phase"], "statuses": statuses}


def statuses_before(rest: Fields) -> dict[str, str] | None:
    """The statuses that were rendered, by phase; ``None`` for a document of someone else."""
    if "was" not in rest:
        return None
    return table(table(rest, "was", PLACE), "statuses", [*PLACE, "was"])


def parsed(
    doc: Fields,
    key: str,
    path: Path,
    recipe: Recipe,
    rest: Fields,
    *,
    names: Mapping[str, str] = SAME,
) -> Position:
    """The position in a document that lists its phases and names the current one under ``key``."""
    listed = phases(doc, "phases", path, names)
    current = None if doc.get(key) is None else named(doc, key, path)
    before = statuses_before(rest)
    if not listed and before is None:
        return current, reached([pending_phase(phase) for phase in recipe["phases"]], current)
    if current is not None and all(phase["name"] != current for phase in listed):
        raise Invalid([*path, key], "is the name of no phase")
    if key not in doc:
        return _in_progress(listed), listed
    if before is None:
        return current, _caught_up(listed, current)
    was = text(table(rest, "was", PLACE), "phase", [*PLACE, "was"], None)
    return _settled(listed, current, was, before)


def _in_progress(listed: list[Phase]) -> str | None:
    return next((phase["name"] for phase in listed if phase["status"] == "in_progress"), None)


def _caught_up(listed: list[Phase], current: str | None) -> list[Phase]:
    """Another tool's phases: if its statuses lag behind its current phase, they follow it."""
    statuses = {phase["name"]: phase["status"] for phase in listed}
    status = statuses.pop(current or "", "in_progress")
    lags = status == "pending" or (status == "completed" and "in_progress" in statuses.values())
    return moved(listed, current, statuses.keys() | {current}) if current and lags else listed


def _settled(
    listed: list[Phase], current: str | None, was: str | None, before: dict[str, str]
) -> Position:
    """An edited record: the statuses its author changed stand, the others follow the move."""
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
    return current, moved(listed, current, following)


def moved(listed: list[Phase], current: str, following: Collection[str | None]) -> list[Phase]:
    """The phases once ``current`` is: of those that ``following`` names, the statuses follow."""
    place = [phase["name"] for phase in listed].index(current)
    after: list[Phase] = []
    for position, phase in enumerate(listed):
        status = phase["status"]
        if phase["name"] not in following:
            after.append(phase)
        elif position == place:
            after.append(with_status(phase, "in_progress"))
        elif position < place and status == "in_progress":
            after.append(with_status(phase, "completed"))
        elif position > place and status != "pending":
            after.append(with_status(phase, "pending"))
        else:
            after.append(phase)
    return after


def next_cycle(base: Workflow, edited: Workflow) -> Workflow:
    """An edit that goes back to where cycles begin has begun the next one, counted or not.

    Of the phases only what the edit wrote is kept: what ``base`` says was the last cycle's.
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
    said: Json = {
        key: value for key, value in phase.items() if was is None or was.get(key) != value
    }
    fresh: Json = {**pending_phase(phase), **said}  # type: ignore[arg-type]
    return with_status(fresh, phase["status"] if phase["name"] == current else "pending")


def reached(listed: list[Phase], current: str | None) -> list[Phase]:
    """Phases of which only the current one is known: those before it are completed."""
    if current is None:
        return listed
    names = [phase["name"] for phase in listed]
    if current not in names:
        names.append(current)
        listed = [*listed, {"name": current, "status": "pending"}]
    place = names.index(current)
    done = [with_status(phase, "completed") for phase in listed[:place]]
    return [*done, with_status(listed[place], "in_progress"), *listed[place + 1 :]]


def with_status(phase: Phase, status: str) -> Phase:
    gone = _NO_LONGER.get(status, ())
    changed: Json = {key: value for key, value in phase.items() if key not in gone}
    changed["status"] = status
    after: Phase = changed
    return after
