"""Degradation tiers: what can be resumed from each combination of available layers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Phase, Recipe

_ROWS = {
    (True, True, True): (
        "Full",
        "yes",
        "complete state from the record, history from the graph, learnings from memory",
    ),
    (True, True, False): (
        "Standard",
        "yes",
        "complete state from the record, learnings from memory, no history to ask",
    ),
    (True, False, True): (
        "Standard",
        "yes",
        "complete state from the record, history from the graph, no learnings",
    ),
    (True, False, False): ("Minimal", "yes", "complete state from the record alone"),
    (False, True, True): (
        None,
        "partial",
        "no record: the position comes from the graph, memory has hints",
    ),
    (False, True, False): (
        None,
        "no",
        "memory tells the last known position; the work has to be started again",
    ),
    (False, False, True): (
        None,
        "partial",
        "no record: the position comes from the graph, and may be old",
    ),
    (False, False, False): (None, "no", "nothing is known: a fresh start"),
}


def tier(*, record: bool, memory: bool, graph: bool) -> Fields:
    """Return the name of the tier, whether a workflow can be resumed, and from what."""
    name, resume, behaviour = _ROWS[record, memory, graph]
    return {"tier": name, "resume": resume, "behaviour": behaviour}


def observed_values(observations: list[str]) -> dict[str, str]:
    """Return the values of an entity's observations by their names."""
    pairs = (observation.partition(": ") for observation in observations)
    return {name: value for name, separator, value in pairs if separator}


def phases_at(
    recipe: Recipe, phase: str, at: str, known: list[Phase] | None = None
) -> list[Phase] | None:
    """Return the phases of a workflow that is in ``phase``; ``None`` if the recipe lacks it.

    A ``known`` phase is kept as it is if it has the same status.
    """
    way = _way_to(recipe, phase)
    if way is None:
        return None
    before = {(entry["name"], entry["status"]): entry for entry in known or []}
    phases: list[Phase] = []
    for declared in recipe["phases"]:
        name = declared["name"]
        entry: Phase = {"name": name, "status": "completed" if name in way else "pending"}
        if name == phase:
            entry = {"name": name, "status": "in_progress", "started_at": at}
        elif name in way and declared.get("approval"):
            entry["approved"] = True
        phases.append(before.get((name, entry["status"]), entry))
    return phases


def _way_to(recipe: Recipe, phase: str) -> list[str] | None:
    """Return the phases on the shortest way from the first to this one, inclusive."""
    names = [declared["name"] for declared in recipe["phases"]]
    following = {
        declared["name"]: declared.get("next", names[number + 1 : number + 2])
        for number, declared in enumerate(recipe["phases"])
    }
    ways = [[name] for name in names[:1]]
    for way in ways:
        if way[-1] == phase:
            return way
        ahead = [name for name in following[way[-1]] if name in names]
        ways += [[*way, name] for name in ahead if not any(name in other for other in ways)]
    return None
