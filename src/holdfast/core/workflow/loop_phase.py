"""The phase of a loop itself, from discover to complete: it follows what becomes of its units."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Draft, Task, Workflow

DECLARED = ("confirming", "verifying", "completed")
"""What a unit is from its signal on, as long as nothing is found."""
REVIEWED = ("verify", "deliver")
"""Phases in which no unit is worked on any more."""


def phase_of(units: list[Task]) -> str:
    """Where in its life a loop with these units stands."""
    if not units:
        return "discover"
    statuses = {unit["status"] for unit in units}
    if statuses == {"completed"}:
        return "deliver"
    if statuses.issubset(DECLARED):
        return "verify"
    return "execute" if any(unit.get("iterations_used") for unit in units) else "plan"


def move(state: Workflow, to: str, only_from: tuple[str, ...] = ()) -> list[Draft]:
    """The events that bring the loop's own phase there; it follows its units."""
    names = [phase["name"] for phase in state["phases"]]
    current = state["phase"]
    if to not in names or current == to or (only_from and current not in only_from):
        return []
    if current not in names or names.index(to) < names.index(str(current)):
        return [{"type": "phase_started", "data": {"phase": to}}]
    drafts: list[Draft] = []
    for place in range(names.index(str(current)), names.index(to)):
        drafts.append({"type": "phase_completed", "data": {"phase": names[place]}})
        drafts.append({"type": "phase_started", "data": {"phase": names[place + 1]}})
    return drafts
