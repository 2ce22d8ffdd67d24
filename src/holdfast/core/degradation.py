"""What can be resumed from which layers: the eight ways in which they can be there or not."""

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
    """The name of the tier, whether one can resume, and what from."""
    name, resume, behaviour = _ROWS[record, memory, graph]
    return {"tier": name, "resume": resume, "behaviour": behaviour}


def told(observations: list[str]) -> dict[str, str]:
    """What an entity's observations say, by their names."""
    pairs = (observation.partition(": ") for observation in observations)
    return {name: value for name, found, value in pairs if found}


def phases_at(
    recipe: Recipe, phase: str, at: str, known: list[Phase] | None = None
) -> list[Phase] | None:
    """The phases of a workflow that stands in this one; ``None`` where the recipe has no such.

    Of what is ``known`` already, a phase stays as it is where that agrees.
    """
    way = _way_to(recipe, phase)
    if way is None:
        return None
    before = {(one["name"], one["status"]): one for one in known or []}
    found: list[Phase] = []
    for declared in recipe["phases"]:
        name = declared["name"]
        entry: Phase = {"name": name, "status": "completed" if name in way else "pending"}
        if name == phase:
            entry = {"name": name, "status": "in_progress", "started_at": at}
        elif name in way and declared.get("approval"):
            entry["approved"] = True
        found.append(before.get((name, entry["status"]), entry))
    return found


def _way_to(recipe: Recipe, phase: str) -> list[str] | None:
    """The phases on the shortest way from the first one to this, both with it."""
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
