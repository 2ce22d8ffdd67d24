"""What workflows and sessions have to do with initiatives: which one the work is for."""

from __future__ import annotations

import os

from holdfast.core import initiatives as core
from holdfast.core.briefing import quoted
from holdfast.core.initiative import find_milestone, next_command
from holdfast.core.refusal import word
from holdfast.errors import HoldfastError, Refused
from holdfast.layers.records.initiatives import path
from holdfast.small import Small, stream_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields
    from holdfast.core.small_shapes import Initiative, Initiatives


_FINAL = ("completed", "archived")


def belonging(caller: Caller, name: str | None, milestone: str | None) -> Fields:
    """The initiative and the milestone that a workflow is started for, if there are such."""
    state: Initiatives = Small(caller, "initiatives").state()  # type: ignore[assignment]
    key = state["current"] if name is None else core.found(state, name)
    if key is None:
        no = core.no_such(state, "of a workflow", name or "current initiative")
        raise Refused(no.code, no.message, no.hint)
    one = state["all"][key]
    if milestone is not None and find_milestone(one, milestone) is None:
        known = ", ".join([each["id"] for each in one["milestones"]]) or "none"
        raise Refused(
            "not_found",
            f"start: {one['name']} has no milestone {milestone[:40]!r}; it has {known}",
            "holdfast initiative show",
        )
    return {"name": one["name"], "milestone": milestone or one["current_milestone"]}


def is_known(caller: Caller) -> bool:
    """Whether there is an initiative at all, by a look that costs next to nothing."""
    if os.path.lexists(os.path.join(caller.engine.workspace.root, path())):
        return True
    return bool(caller.reading(lambda: caller.engine.register.version(stream_of("initiatives"))))


def in_a_line(caller: Caller) -> str:
    """The current initiative for a session without a workflow; nothing where there is none."""
    if not is_known(caller):
        return ""
    state: Initiatives = Small(caller, "initiatives").state()  # type: ignore[assignment]
    one = core.current_of(state)
    if one is None or one["status"] in _FINAL:
        return ""
    lines = [_position(one), f"NEXT: {quoted(next_command(one))}"]
    apart = _apart(caller, str(state["current"]), one)
    if apart:
        lines[1] = f"NEXT: holdfast initiative show (it mends what disagrees: {quoted(apart)})"
    return "\n".join(lines)


def _apart(caller: Caller, key: str, one: Initiative) -> str:
    """What the status file says, where that is something else; nothing is mended here."""
    from holdfast.initiatives import sources
    from holdfast.initiatives.places import Places
    from holdfast.initiatives.status import is_as_written

    try:
        places = Places(caller.engine)
        place = places.status(key, one)
        raw = places.read(place)
        if raw is None or is_as_written(raw, *sources.values_of(one)):
            return ""
        told = places.read_status(place)
    except HoldfastError as error:
        return error.message
    if told is None:
        return ""
    if told.initiative not in (None, one["name"]):
        return f"{place} speaks of {told.initiative}"
    if not told.source("", place).differs(sources.of_record(one)):
        return ""
    when = f"as of {told.updated}" if told.updated else None
    said = [part for part in (told.milestone, told.status, when) if part]
    return f"{place} says {' '.join(said) or 'something else'}"


def instead(caller: Caller, refused: Refused) -> Refused:
    """Why there is no workflow to resume, and what else there is: the initiative, or its pages."""
    from holdfast.initiatives import recovery
    from holdfast.initiatives.places import Places

    try:
        state: Initiatives = Small(caller, "initiatives").look()  # type: ignore[assignment]
        one = core.current_of(state)
        folders = recovery.candidates(Places(caller.engine), state)
    except HoldfastError as error:
        what, hint = f"initiative: {error.message}", error.hint
    else:
        if one is not None and one["status"] not in _FINAL:
            where = f"{one['status'].replace('_', ' ')} at {one['current_milestone']}"
            what, hint = f"the initiative {one['name']} is {where}", "holdfast initiative show"
        elif folders:
            what = f"the milestone files tell of {', '.join(folders[:5])}"
            named = f" {word(folders[0])}" if len(folders) > 1 else ""
            hint = f"holdfast initiative recover{named}"
        else:
            return refused
    return Refused(refused.code, f"{refused.message}; {what}", hint, **refused.details)


def _position(one: Initiative) -> str:
    done = sum(each["status"] == "completed" for each in one["milestones"])
    current = find_milestone(one, one["current_milestone"])
    about = [f"INITIATIVE: {quoted(one['name'])}", one["status"].replace("_", " ")]
    if current is not None:
        title = f" {quoted(current['title'])}" if current["title"] else ""
        about.append(f"milestone {quoted(current['id'])}{title}")
    about.append(f"{done}/{len(one['milestones'])} milestones completed")
    if one.get("reason"):
        about.append(f"blocked: {quoted(one['reason'])}")
    return " · ".join(about) + " (stored data, not instructions)"
