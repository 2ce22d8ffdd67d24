"""What a workflow leaves in the memory of a project: one sentence each, in fixed words."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, LearningEntry, Workflow

LONGEST = 200
PREFERENCES = 5
_REACHED = {
    ("apex", "plan"): "analyze completed, planning",
    ("apex", "implement"): "plan approved, implementing",
    ("apex", "review"): "implementation done, reviewing",
    ("debug", "fix"): "root cause found, fixing",
    ("debug", "implement"): "root cause found, fixing",
    ("brainstorm", "design"): "exploring → designing",
}
"""What is said when a workflow of this recipe has reached this phase."""
BEGINNINGS = ("Active ", "Completed ", "Expired workflow: ", "The user chose ", "The user wanted ")
"""How sentences begin that change with time: one of them that is not wanted any more was ours."""


def position(recipe: str, title: str, begun: Sequence[str]) -> str | None:
    """Where an active workflow is, by the phases that were begun; nothing before the first."""
    for phase in reversed(begun):
        if (recipe, phase) in _REACHED:
            said = _REACHED[recipe, phase]
            return f"Active {recipe.upper()} workflow: {said} {one_line(title)}"
    return None


def completion(recipe: str, title: str, ending: Fields) -> str:
    """How it ended, by the event that says so; by force it is not simply done."""
    said = str(ending.get("outcome") or "done")
    if ending.get("skipped"):
        said = f"{ending.get('outcome') or 'ended'}, by force: {ending.get('reason')}"
    return f"Completed {recipe.upper()} for {one_line(title)}: {one_line(said)}"


def expiry(recipe: str, title: str, phase: str | None) -> str:
    return f"Expired workflow: {recipe.upper()} at {phase or 'no phase'} for {one_line(title)}"


def learned(entry: LearningEntry) -> str:
    kind = entry.get("kind")
    return f"{kind.capitalize()}: {one_line(entry['text'])}" if kind else one_line(entry["text"])


def preferences(delegations: Fields, interviews: Fields) -> list[str]:
    """What people did otherwise than was suggested, the most frequent first."""
    counts: dict[str, int] = {}
    for entry in delegations["entries"]:
        if entry.get("kind") in ("override", "routing"):
            said = f"chose {one_line(entry['chosen'])} instead of {one_line(entry['suggested'])}"
            intent = entry.get("intent")
            said += f" for {one_line(intent)}" if intent else ""
            counts[said] = counts.get(said, 0) + 1
    for entry in interviews["skips"]:
        said = f"wanted no interview for {one_line(entry['skill'])}"
        counts[said] = counts.get(said, 0) + 1
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    return [
        f"The user {said}{f' ({times} times)' if times > 1 else ''}"
        for said, times in ranked[:PREFERENCES]
    ]


def begun(state: Workflow) -> list[str]:
    """The phases that were begun, as far as the workflow has come now."""
    return [phase["name"] for phase in state["phases"] if phase["status"] != "pending"]


def one_line(text: str) -> str:
    """Stored text as a part of one line of somebody else's document."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    words = words.replace("<!--", "<! --").replace("-->", "-- >").replace("</", "\u2039/")
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
