"""The lines that workflows and logs leave in a project's memory file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, LearningEntry, Workflow

MAX_CHARACTERS = 200
MAX_PREFERENCES = 5
_REACHED = {
    ("apex", "plan"): "analyze completed, planning",
    ("apex", "implement"): "plan approved, implementing",
    ("apex", "review"): "implementation done, reviewing",
    ("debug", "fix"): "root cause found, fixing",
    ("debug", "implement"): "root cause found, fixing",
    ("brainstorm", "design"): "exploring → designing",
}
"""The words for a recipe and the phase that was reached."""
BEGINNINGS = ("Active ", "Completed ", "Expired workflow: ", "The user chose ", "The user wanted ")
"""How lines begin that Holdfast replaces when they are outdated."""


def position(recipe: str, title: str, begun: Sequence[str]) -> str | None:
    """Return where an active workflow is, by its begun phases; ``None`` before the first."""
    for phase in reversed(begun):
        if (recipe, phase) in _REACHED:
            reached = _REACHED[recipe, phase]
            return f"Active {recipe.upper()} workflow: {reached} {one_line(title)}"
    return None


def completion(recipe: str, title: str, ending: Fields) -> str:
    """Return how a workflow ended, by its last event; an end by force is said to be one."""
    outcome = str(ending.get("outcome") or "done")
    if ending.get("skipped"):
        outcome = f"{ending.get('outcome') or 'ended'}, by force: {ending.get('reason')}"
    return f"Completed {recipe.upper()} for {one_line(title)}: {one_line(outcome)}"


def expiry(recipe: str, title: str, phase: str | None) -> str:
    return f"Expired workflow: {recipe.upper()} at {phase or 'no phase'} for {one_line(title)}"


def learned(entry: LearningEntry) -> str:
    kind = entry.get("kind")
    return f"{kind.capitalize()}: {one_line(entry['text'])}" if kind else one_line(entry["text"])


def preferences(delegations: Fields, interviews: Fields) -> list[str]:
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


def begun(state: Workflow) -> list[str]:
    """Return the names of the phases that were begun."""
    return [phase["name"] for phase in state["phases"] if phase["status"] != "pending"]


def one_line(text: str) -> str:
    """Return stored text as a part of one line of another document."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    words = words.replace("<!--", "<! --").replace("-->", "-- >").replace("</", "\u2039/")
    return words if len(words) <= MAX_CHARACTERS else f"{words[: MAX_CHARACTERS - 1]}…"
