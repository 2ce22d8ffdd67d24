"""Interviews: how sure a skill was of what it was asked to do, and when nobody let it ask.

``decide`` and ``evolve`` are pure. The state keeps the newest ``KEPT`` of each and counts the rest.
"""

from __future__ import annotations

from holdfast.core import adopt_commands
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.validation import first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log_types import Interview, InterviewEntry, InterviewSkip
    from holdfast.core.types import Command, Draft, Event

    Answer = list[Draft] | Refusal

KEPT = 50
RECORD = "holdfast interview record --skill SKILL --confidence 0.8 --questions 3"
SKIP = "holdfast interview skip SKILL --reason TEXT"


def decide(state: Interview | None, command: Command) -> list[Draft] | Refusal:
    """What happens when this is asked; what came before has no say in it."""
    return DECIDE[command["type"]](state, command)


def evolve(state: Interview | None, event: Event) -> Interview:
    """The interviews after this event."""
    after = EVOLVE[event["type"]](state or blank(), event)
    after = adopt_commands.newest(after, "interviews", KEPT)
    return adopt_commands.newest(after, "skips", KEPT)  # type: ignore[no-any-return]


def blank() -> Interview:
    return {
        "interviews": [],
        "interviews_earlier": 0,
        "skips": [],
        "skips_earlier": 0,
        "extra": {},
    }


def record(_state: Interview | None, command: Command) -> Answer:
    skill, confidence = command["args"]["skill"], command["args"]["confidence"]
    dimensions = command["args"].get("dimensions", {})
    questions_asked = command["args"].get("questions_asked", 0)
    bad = first_bad_text(skill=skill, dimension=list(dimensions))
    scores = {"the confidence": confidence, **dimensions}
    beyond = [name for name, score in scores.items() if not 0 <= score <= 1]
    if bad:
        return Refusal(bad.code, f"interview record: {bad.message}", RECORD)
    if beyond:
        why = f"{', '.join(beyond)} must be from 0 to 1"
        return Refusal("invalid", f"interview record {skill}: {why}", RECORD)
    if questions_asked < 0:
        why = "the number of questions must not be negative"
        return Refusal("invalid", f"interview record {skill}: {why}", RECORD)
    data = {
        "skill": skill,
        "confidence": confidence,
        "dimensions": dimensions,
        "questions_asked": questions_asked,
    }
    return [{"type": "interview_recorded", "data": data}]


def _recorded(state: Interview, event: Event) -> Interview:
    entry: InterviewEntry = {**event["data"], "timestamp": event["at"]}  # type: ignore[typeddict-item]
    return {**state, "interviews": [*state["interviews"], entry]}


def skip(_state: Interview | None, command: Command) -> Answer:
    skill, reason = command["args"]["skill"], command["args"]["reason"]
    bad = first_bad_text(skill=skill, reason=reason)
    if bad:
        return Refusal(bad.code, f"interview skip: {bad.message}", SKIP)
    return [{"type": "interview_skipped", "data": {"skill": skill, "reason": reason}}]


def _skipped(state: Interview, event: Event) -> Interview:
    entry: InterviewSkip = {**event["data"], "timestamp": event["at"]}  # type: ignore[typeddict-item]
    return {**state, "skips": [*state["skips"], entry]}


DECIDE: dict[str, Callable[[Interview | None, Command], Answer]] = {
    "record_interview": record,
    "skip_interview": skip,
    **adopt_commands.DECIDE,
}
EVOLVE: dict[str, Callable[[Interview, Event], Interview]] = {
    "interview_recorded": _recorded,
    "interview_skipped": _skipped,
    **adopt_commands.EVOLVE,
}
