"""The part of initiatives that workflows need: which one a workflow is for, what can be resumed.

Only the record of initiatives and the names of milestone folders are read here. The files of an
initiative, which need a YAML or a Markdown parser, are read in ``initiatives/``.
"""

from __future__ import annotations

import os
from itertools import groupby

from holdfast.core import initiatives as core
from holdfast.core.initiatives import find_milestone, next_command
from holdfast.core.json_text import is_encodable
from holdfast.core.refusal import shell_word
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import stream_of
from holdfast.workspace import settings
from holdfast.workspace.location import outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Initiative, InitiativesState
    from holdfast.keeper.session import Session
    from holdfast.workspace.location import Workspace

LOG = "initiatives"
"""The log that holds the initiatives."""
FINAL = ("completed", "archived")


def has_initiatives(session: Session) -> bool:
    """Return whether the workspace has an initiative. Costs one stat, or one SELECT."""
    if os.path.lexists(os.path.join(session.workspace.root, session.log_path(LOG))):
        return True
    return session.store.ledger.stream(stream_of(LOG)) is not None


def initiative_for_workflow(session: Session, name: str | None, milestone: str | None) -> Fields:
    """Return the initiative and the milestone that a new workflow is for.

    Without a name, the current ones. Raise ``Refused`` if there is no such initiative or milestone.
    """
    state: InitiativesState = session.log_state(LOG)
    key = state["current"] if name is None else core.find_key(state, name)
    if key is None:
        refusal = core.no_such(state, "of a workflow", name or "current initiative")
        raise Refused(refusal.code, refusal.message, refusal.hint)
    initiative = state["all"][key]
    if milestone is not None and find_milestone(initiative, milestone) is None:
        known = ", ".join([known["id"] for known in initiative["milestones"]]) or "none"
        raise Refused(
            "not_found",
            f"start: {initiative['name']} has no milestone {milestone[:40]!r}; it has {known}",
            "holdfast initiative show",
        )
    return {
        "name": initiative["name"],
        "milestone": milestone or initiative["current_milestone"],
    }


def initiative_view(key: str, initiative: Initiative) -> Fields:
    """Return an initiative as every command shows it."""
    fields: Fields = {"key": key, **initiative}
    milestones = initiative["milestones"]
    return {
        **{name: value for name, value in fields.items() if name != "extra"},
        "completed": sum(milestone["status"] == "completed" for milestone in milestones),
        "total": len(milestones),
        "next": next_command(initiative),
    }


def suggest_initiative(session: Session, refused: Refused) -> Refused:
    """Return a refusal to resume a workflow, extended by the initiative to go on with, if any."""
    try:
        state: InitiativesState = session.log_state(LOG)
        initiative = core.current_of(state)
        folders = unknown_folders(session.workspace, state)
    except HoldfastError as error:
        what, hint = f"initiative: {error.message}", error.hint
    else:
        if initiative is not None and initiative["status"] not in FINAL:
            status = initiative["status"].replace("_", " ")
            what = f"the initiative {initiative['name']} is {status}"
            what += f" at {initiative['current_milestone']}"
            hint = "holdfast initiative show"
        elif folders:
            what = f"the milestone files tell of {', '.join(folders[:5])}"
            name = f" {shell_word(folders[0])}" if len(folders) > 1 else ""
            hint = f"holdfast initiative recover{name}"
        else:
            return refused
    return Refused(refused.code, f"{refused.message}; {what}", hint, **refused.details)


# Milestone folders


def milestone_folders(workspace: Workspace) -> list[str]:
    """Return the names of the folders that may belong to an initiative.

    A folder that a link leads out of the workspace is included: whoever recovers it is told why it
    cannot be read. Raise a ``Fault`` if the folders cannot be listed.
    """
    top = settings.load(workspace.root).milestones()
    return [
        name
        for name in names_in(workspace, top)
        if is_encodable(name)
        and os.path.isdir(os.path.join(workspace.root, top, name))
        and (not workspace.contains(f"{top}/{name}") or names_in(workspace, f"{top}/{name}"))
    ]


def unknown_folders(workspace: Workspace, state: InitiativesState) -> list[str]:
    """Return the milestone folders of initiatives that the record does not know."""
    known = {initiative.get("folder") or key for key, initiative in state["all"].items()}
    return [folder for folder in milestone_folders(workspace) if folder not in known]


def names_in(workspace: Workspace, folder: str) -> list[str]:
    """Return the names in a folder, M2 before M10, without hidden ones; none if it is missing.

    Raise ``Refused`` if the folder is outside the workspace, a ``Fault`` if it cannot be read.
    """
    if not os.path.isdir(os.path.join(workspace.root, folder)):
        return []
    try:
        names = os.listdir(path_inside(workspace, folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error
    return sorted([name for name in names if not name.startswith(".")], key=natural_key)


def path_inside(workspace: Workspace, place: str) -> str:
    """Return the absolute path; raise ``Refused`` if a link leads it out of the workspace."""
    if not workspace.contains(place):
        raise outside(place, workspace.root)
    return os.path.realpath(os.path.join(workspace.root, place))


def unreadable(place: str, error: OSError) -> Fault:
    """Return the ``Fault`` for a file or folder that cannot be read."""
    why = f"{place} cannot be read ({error.strerror})"
    return Fault("unreadable", why, f"see to {place}, then run the same command again")


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which M2 comes before M10."""
    parts: list[tuple[int, str]] = []
    for is_number, letters in groupby(name, str.isdecimal):
        text = "".join(letters)
        parts += [(int(text), "")] if is_number else [(-1, letter) for letter in text]
    return parts
