"""Interviews: how sure a skill was of what it was asked to do, and when nobody let it ask.

``decide`` and ``evolve`` are pure. The state keeps the newest ``KEPT`` of each and counts the rest.
"""

from __future__ import annotations

from holdfast.core import edits
from holdfast.core.refusal import Refusal
from holdfast.core.workflow.texts import first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.shapes import Command, Draft, Event, Fields
    from holdfast.core.small_shapes import Interview, InterviewEntry, InterviewSkip

    Answer = list[Draft] | Refusal

KEPT = 50
RECORD = "holdfast interview record --skill SKILL --confidence 0.8 --questions 3"
SKIP = "holdfast interview skip SKILL --reason TEXT"


def decide(_state: Interview | None, command: Command) -> list[Draft] | Refusal:
    """What happens when this is asked; what came before has no say in it."""
    return DECIDE[command["type"]](command)


def evolve(state: Interview | None, event: Event) -> Interview:
    """The interviews after this event."""
    after = EVOLVE[event["type"]](state or blank(), event["data"], event["at"])
    interviews, skips = after["interviews"], after["skips"]
    return {
        **after,
        "interviews": interviews[-KEPT:],
        "interviews_earlier": after["interviews_earlier"] + max(0, len(interviews) - KEPT),
        "skips": skips[-KEPT:],
        "skips_earlier": after["skips_earlier"] + max(0, len(skips) - KEPT),
    }


def blank() -> Interview:
    return {
        "interviews": [],
        "interviews_earlier": 0,
        "skips": [],
        "skips_earlier": 0,
        "extra": {},
    }


def record(command: Command) -> Answer:
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


def _recorded(state: Interview, data: Fields, at: str) -> Interview:
    entry: InterviewEntry = {**data, "timestamp": at}  # type: ignore[typeddict-item]
    return {**state, "interviews": [*state["interviews"], entry]}


def skip(command: Command) -> Answer:
    skill, reason = command["args"]["skill"], command["args"]["reason"]
    bad = first_bad_text(skill=skill, reason=reason)
    if bad:
        return Refusal(bad.code, f"interview skip: {bad.message}", SKIP)
    return [{"type": "interview_skipped", "data": {"skill": skill, "reason": reason}}]


def _skipped(state: Interview, data: Fields, at: str) -> Interview:
    entry: InterviewSkip = {**data, "timestamp": at}  # type: ignore[typeddict-item]
    return {**state, "skips": [*state["skips"], entry]}


def adopt_record(command: Command) -> Answer:
    return [{"type": "record_adopted", "data": command["args"]}]


def _adopted(_state: Interview, data: Fields, _at: str) -> Interview:
    adopted: Interview = data["state"]
    return adopted


def adopt_edit(command: Command) -> Answer:
    return [{"type": "record_edited", "data": command["args"]}]


def _edited(state: Interview, data: Fields, _at: str) -> Interview:
    return edits.apply(dict(state), data["changes"])  # type: ignore[return-value]


DECIDE: dict[str, Callable[[Command], Answer]] = {
    "record_interview": record,
    "skip_interview": skip,
    "adopt_record": adopt_record,
    "adopt_edit": adopt_edit,
}
EVOLVE: dict[str, Callable[[Interview, Fields, str], Interview]] = {
    "interview_recorded": _recorded,
    "interview_skipped": _skipped,
    "record_adopted": _adopted,
    "record_edited": _edited,
}
