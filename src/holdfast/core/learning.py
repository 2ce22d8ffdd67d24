"""Learnings: patterns, preferences and insights that outlive the workflow they came from.

``decide`` and ``evolve`` are pure. The state keeps the newest ``KEPT`` and counts the rest.
"""

from __future__ import annotations

from holdfast.core import adopt_commands
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.validation import first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log_types import Learning, LearningEntry
    from holdfast.core.types import Command, Draft, Event

    Answer = list[Draft] | Refusal

KEPT = 200
KINDS = ("pattern", "preference", "insight")
SECTION = "Learnings"
INITIATIVES = "Initiative Patterns"
"""What is kept under this heading has to be one of the kinds."""
REMEMBER = "holdfast remember TEXT --kind pattern"


def decide(state: Learning | None, command: Command) -> list[Draft] | Refusal:
    """What happens when this is asked; what is known already is not learned again."""
    return DECIDE[command["type"]](state or blank(), command)


def evolve(state: Learning | None, event: Event) -> Learning:
    """What is known after this event."""
    after = EVOLVE[event["type"]](state or blank(), event)
    return adopt_commands.newest(after, "learnings", KEPT)  # type: ignore[no-any-return]


def blank() -> Learning:
    return {"learnings": [], "learnings_earlier": 0, "extra": {}}


def remember(state: Learning, command: Command) -> Answer:
    args = command["args"]
    text, kind, section = args["text"], args.get("kind"), args.get("section") or SECTION
    bad = first_bad_text(text=text, section=section)
    why = bad.message if bad else None
    if why is None and kind is not None and kind not in KINDS:
        why = f"{str(kind)[:40]!r} is no kind; there are {', '.join(KINDS)}"
    if why is None and kind is None and section == INITIATIVES:
        why = f"under {INITIATIVES} stands a {', '.join(KINDS)} only: say which with --kind"
    if why is None and (len(text.splitlines()) > 1 or len(section.splitlines()) > 1):
        why = "a learning is one line"
    if why:
        return Refusal("invalid", f"remember: {why}", REMEMBER)
    if any(is_same(entry, text, section) for entry in state["learnings"]):
        return []
    data = {"text": text, "section": section, **({"kind": kind} if kind else {})}
    return [{"type": "learning_recorded", "data": data}]


def is_same(entry: LearningEntry, text: str, section: str) -> bool:
    """Whether it says the same, however it is spaced and whatever the case of its letters."""
    words = (entry["text"].casefold().split(), entry.get("section", SECTION))
    return words == (text.casefold().split(), section)


def _remembered(state: Learning, event: Event) -> Learning:
    entry: LearningEntry = {**event["data"], "timestamp": event["at"]}  # type: ignore[typeddict-item]
    return {**state, "learnings": [*state["learnings"], entry]}


DECIDE: dict[str, Callable[[Learning, Command], Answer]] = {
    "remember": remember,
    **adopt_commands.DECIDE,
}
EVOLVE: dict[str, Callable[[Learning, Event], Learning]] = {
    "learning_recorded": _remembered,
    **adopt_commands.EVOLVE,
}
