"""What workflows and sessions have to do with initiatives: which one the work is for."""

from __future__ import annotations

import os

from holdfast.core import initiatives as core
from holdfast.core.briefing import quoted
from holdfast.core.initiative import find_milestone, next_command
from holdfast.core.refusal import word
from holdfast.errors import HoldfastError, Refused
from holdfast.formats.aggregates import stream_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Initiative, Initiatives
    from holdfast.keeper.session import Session

_LOG = "initiatives"
_FINAL = ("completed", "archived")


def belonging(session: Session, name: str | None, milestone: str | None) -> Fields:
    """Return the initiative and the milestone that a workflow is started for; refuse others."""
    state: Initiatives = session.log_state(_LOG)
    key = state["current"] if name is None else core.find_key(state, name)
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


def is_known(session: Session) -> bool:
    """Say whether there is an initiative at all, by a look that costs next to nothing."""
    if os.path.lexists(os.path.join(session.workspace.root, session.log_path(_LOG))):
        return True
    return session.store.ledger.stream(stream_of(_LOG)) is not None


def in_a_line(session: Session) -> str:
    """Describe the current initiative to a session without a workflow; empty if there is none."""
    if not is_known(session):
        return ""
    state: Initiatives = session.log_state(_LOG)
    one = core.current_of(state)
    if one is None or one["status"] in _FINAL:
        return ""
    following = quoted(next_command(one))
    difference = _difference(session, str(state["current"]), one)
    if difference:
        following = f"holdfast initiative sync (it mends what disagrees: {quoted(difference)})"
    return f"{_position(one)}\nNEXT: {following}"


def _difference(session: Session, key: str, one: Initiative) -> str:
    """Say what the status file says, where that is something else than the record."""
    from holdfast.initiatives.comparison import glance
    from holdfast.initiatives.paths import Places

    try:
        compared = glance(session.store, Places(session.store), key, one)
    except HoldfastError as error:
        return error.message
    return "" if compared is None else compared.describe()


def instead(session: Session, refused: Refused) -> Refused:
    """Return why no workflow can be resumed, and what else there is: an initiative, or pages."""
    from holdfast.initiatives import recovery
    from holdfast.initiatives.paths import Places

    try:
        state: Initiatives = session.log_state(_LOG)
        one = core.current_of(state)
        folders = recovery.candidates(Places(session.store), state)
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
