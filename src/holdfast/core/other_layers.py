"""The layers beside the record: the lines of the memory file, and what the graph can restore."""

from __future__ import annotations

from holdfast.core.logs import summarize_delegations
from holdfast.core.visible import clean, folded
from holdfast.core.workflow import find_phase
from holdfast.core.workflow.lifecycle import overruled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, LearningEntry, Phase, Recipe, Workflow

MAX_LINE_CHARACTERS = 200
MAX_PREFERENCES = 5
_REACHED = {
    ("apex", "plan"): "analyze completed, planning",
    ("apex", "implement"): "plan {plan}, implementing",
    ("apex", "review"): "implementation done, reviewing",
    ("debug", "fix"): "root cause found, fixing",
    ("debug", "implement"): "root cause found, fixing",
    ("brainstorm", "design"): "exploring → designing",
}
"""The words for a recipe and the phase that was reached."""
LINE_BEGINNINGS = (
    "Active ",
    "Completed ",
    "Expired workflow: ",
    "The user chose ",
    "The user wanted ",
)
"""The beginnings of lines that Holdfast replaces when they are outdated."""


def active_line(state: Workflow) -> str | None:
    """Return where an active workflow is, by its begun phases; ``None`` before the first."""
    recipe = state["recipe"]["name"]
    for phase in reversed(state["phases"]):
        if phase["status"] != "pending" and (recipe, phase["name"]) in _REACHED:
            reached = _REACHED[recipe, phase["name"]].format(plan=_how_left(state, "plan"))
            return f"Active {recipe.upper()} workflow: {reached} {one_line(state['title'])}"
    return None


def _how_left(state: Workflow, name: str) -> str:
    """Return how a phase was left: ``approved`` only if a person approved it."""
    phase = find_phase(state, name)
    if phase is not None and phase.get("approved"):
        return "approved"
    return "skipped" if phase is not None and phase["status"] == "skipped" else "completed"


def completion_line(recipe: str, title: str, state: Workflow) -> str:
    """Return the line about a completed workflow: its outcome, and what was forced or waived."""
    skipped = state.get("skipped", {})
    outcome = str(state.get("outcome") or "done")
    if skipped:
        outcome = f"{state.get('outcome') or 'ended'}, by force: {state.get('reason')}"
    left_out = overruled(state, skipped)
    return f"Completed {recipe.upper()} for {one_line(title)}: {one_line(outcome + left_out)}"


def outcome_line(state: Workflow) -> str:
    """Return how an ended workflow ended."""
    if state["status"] == "completed":
        return completion_line(state["recipe"]["name"], state["title"], state)
    if state["status"] == "expired":
        return expiry_line(state["recipe"]["name"], state["title"], state["phase"])
    reason = f": {one_line(str(state['reason']))}" if state.get("reason") else ""
    return f"Abandoned {state['recipe']['name'].upper()} for {one_line(state['title'])}{reason}"


def expiry_line(recipe: str, title: str, phase: str | None) -> str:
    return f"Expired workflow: {recipe.upper()} at {phase or 'no phase'} for {one_line(title)}"


def learning_line(entry: LearningEntry) -> str:
    kind = entry.get("kind")
    return f"{kind.capitalize()}: {one_line(entry['text'])}" if kind else one_line(entry["text"])


def preference_lines(delegations: Fields, interviews: Fields) -> list[str]:
    """Return what people chose instead of what was suggested, most frequent first."""
    counts: dict[str, int] = {}
    for entry in delegations["entries"]:
        if entry.get("kind") in ("override", "routing"):
            act = f"chose {one_line(entry['chosen'])} instead of {one_line(entry['suggested'])}"
            intent = entry.get("intent")
            act += f" for {one_line(intent)}" if intent else ""
            counts[act] = counts.get(act, 0) + 1
    for entry in interviews["skips"]:
        act = f"wanted no interview for {one_line(entry['skill'])}"
        counts[act] = counts.get(act, 0) + 1
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    return [
        f"The user {act}{f' ({times} times)' if times > 1 else ''}"
        for act, times in ranked[:MAX_PREFERENCES]
    ]


def delegation_lines(delegations: Fields, interviews: Fields) -> list[str]:
    """Return what matters for the next delegation: who failed, gave up, or was not wanted."""
    summary = summarize_delegations(delegations["entries"])
    lines = []
    for row in summary["agents"]:
        ends = ", ".join(f"{count} {one_line(name)}" for name, count in row["outcomes"].items())
        if len(row["outcomes"]) > 1 or row["count"] > 1:
            lines.append(f"{one_line(row['agent'])}: {ends or row['count']}")
    for row in summary["escalations"]:
        resolved = f", {row['resolved']} resolved" if "resolved" in row else ""
        ends = f"{row['count']} handed over to {one_line(row['to'])}{resolved}"
        lines.append(f"{one_line(row['from'])}: {ends}")
    return [*preference_lines(delegations, interviews), *lines][:MAX_PREFERENCES]


def one_line(text: str) -> str:
    """Return stored text as a part of one line of another document."""
    words = clean(folded(text))
    words = words.replace("<!--", "<! --").replace("-->", "-- >").replace("</", "\u2039/")
    return words if len(words) <= MAX_LINE_CHARACTERS else f"{words[: MAX_LINE_CHARACTERS - 1]}…"


_TIERS = ("Minimal", "Standard", "Full")
"""The names of the tiers, by how many layers there are besides the record."""
_BEHAVIOUR = {
    (True, True, True): "complete state from the record, history from the graph, "
    "learnings from memory",
    (True, True, False): "complete state from the record, learnings from memory, no history to ask",
    (True, False, True): "complete state from the record, history from the graph, no learnings",
    (True, False, False): "complete state from the record alone",
    (False, True, True): "no record: the position comes from the graph, memory has hints",
    (False, True, False): "memory tells the last known position; the work has to be started again",
    (False, False, True): "no record: the position comes from the graph, and may be old",
    (False, False, False): "nothing is known: a fresh start",
}
"""From what a workflow can be resumed, by whether there are record, memory and graph."""


def tier(*, record: bool, memory: bool, graph: bool) -> Fields:
    """Return the name of the tier, whether a workflow can be resumed, and from what."""
    without_record = "partial" if graph else "no"
    return {
        "tier": _TIERS[memory + graph] if record else None,
        "resume": "yes" if record else without_record,
        "behaviour": _BEHAVIOUR[record, memory, graph],
    }


def observed_values(observations: list[str]) -> dict[str, str]:
    """Return the values of an entity's observations by their names."""
    pairs = (observation.partition(": ") for observation in observations)
    return {name: value for name, separator, value in pairs if separator}


def phases_at(recipe: Recipe, phase: str, at: str) -> list[Phase] | None:
    """Return the phases of a workflow that is in ``phase``; ``None`` if the recipe lacks it."""
    way = _way_to(recipe, phase)
    if way is None:
        return None
    phases: list[Phase] = []
    for declared in recipe["phases"]:
        name = declared["name"]
        entry: Phase = {"name": name, "status": "completed" if name in way else "pending"}
        if name == phase:
            entry = {"name": name, "status": "in_progress", "started_at": at}
        elif name in way and declared.get("approval"):
            entry["approved"] = True
        phases.append(entry)
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
