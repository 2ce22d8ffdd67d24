"""What a workflow leaves in the memory of a project: one sentence each, in fixed words."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.shapes import Workflow
    from holdfast.core.small_shapes import LearningEntry

LONGEST = 200
_REACHED = {
    ("apex", "plan"): "analyze completed, planning",
    ("apex", "implement"): "plan approved, implementing",
    ("apex", "review"): "implementation done, reviewing",
    ("debug", "fix"): "root cause found, fixing",
    ("debug", "implement"): "root cause found, fixing",
    ("brainstorm", "design"): "exploring → designing",
}
"""What is said when a workflow of this recipe has reached this phase."""
BEGINNINGS = ("Active ", "Completed ", "Expired workflow: ")
"""How the sentences of workflows begin."""


def position(recipe: str, title: str, begun: Sequence[str]) -> str | None:
    """Where an active workflow is, by the phases that were begun; nothing before the first."""
    for phase in reversed(begun):
        if (recipe, phase) in _REACHED:
            said = _REACHED[recipe, phase]
            return f"Active {recipe.upper()} workflow: {said} {one_line(title)}"
    return None


def completion(recipe: str, title: str, outcome: str | None) -> str:
    return f"Completed {recipe.upper()} for {one_line(title)}: {one_line(outcome or 'done')}"


def expiry(recipe: str, title: str, phase: str | None) -> str:
    return f"Expired workflow: {recipe.upper()} at {phase or 'no phase'} for {one_line(title)}"


def learned(entry: LearningEntry) -> str:
    kind = entry.get("kind")
    return f"{kind.capitalize()}: {one_line(entry['text'])}" if kind else one_line(entry["text"])


def begun(state: Workflow) -> list[str]:
    """The phases that were begun, as far as the workflow has come now."""
    return [phase["name"] for phase in state["phases"] if phase["status"] != "pending"]


def one_line(text: str) -> str:
    """Stored text as a part of one line of somebody else's document."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    words = words.replace("<!--", "<! --").replace("-->", "-- >")
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
