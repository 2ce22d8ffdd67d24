"""The logs beside workflows: interviews and delegations for the library, initiatives for workflows.

Of initiatives, only the record and the names of milestone folders are read here. Their files, which
need a YAML or a Markdown parser, are read in ``initiatives/``.
"""

from __future__ import annotations

import os
from itertools import groupby

from holdfast.core import initiatives as core
from holdfast.core.initiatives import find_milestone
from holdfast.core.json_text import is_encodable
from holdfast.core.logs import summarize_delegations
from holdfast.core.refusal import shell_word
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import stream_of
from holdfast.workspace import location, settings
from holdfast.workspace.location import outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Delegation, Fields, Initiative, InitiativesState, Interview
    from holdfast.keeper.session import Receipt, Session
    from holdfast.workspace.location import Workspace

LOG = "initiatives"
"""The log that holds the initiatives."""
FINAL = ("completed", "archived")


class Interviews:
    """The interviews of a workspace."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def record(
        self,
        skill: str,
        confidence: float,
        *,
        dimensions: dict[str, float] | None = None,
        questions: int = 0,
        id: str | None = None,
    ) -> Receipt:
        """Record a skill's final confidence, overall and in each dimension."""
        args = {
            "skill": skill,
            "confidence": confidence,
            "dimensions": dimensions or {},
            "questions_asked": questions,
        }
        return self._session.do_log("interview", "record_interview", args, id=id)

    def skip(self, skill: str, reason: str, *, id: str | None = None) -> Receipt:
        """Record that the user declined an interview."""
        args = {"skill": skill, "reason": reason}
        return self._session.do_log("interview", "skip_interview", args, id=id)

    def show(self) -> Interview:
        """Return the newest interviews, and those that the user declined."""
        state: Interview = self._session.log_state("interview")
        return state


class Delegations:
    """The delegations of a workspace."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def record(
        self,
        agent: str,
        *,
        outcome: str,
        model: str | None = None,
        task_type: str | None = None,
        complexity: str | None = None,
        duration_ms: int | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Record an agent's task and its result."""
        args = {
            "agent": agent,
            "model": model,
            "task_type": task_type,
            "complexity": complexity,
            "outcome": outcome,
            "duration_ms": duration_ms,
        }
        return self._do("record_delegation", args, id)

    def escalate(
        self,
        from_agent: str,
        to_agent: str,
        reason: str,
        *,
        resolved: bool | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Record that one agent handed over to another."""
        args = {"from": from_agent, "to": to_agent, "reason": reason, "resolved": resolved}
        return self._do("escalate_delegation", args, id)

    def resolve(
        self,
        resolved: bool,  # noqa: FBT001
        *,
        from_agent: str | None = None,
        to_agent: str | None = None,
        reason: str | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Record whether an escalation helped: the newest one without an outcome.

        Raise ``Refused`` if there is none.
        """
        args = {"resolved": resolved, "from": from_agent, "to": to_agent, "reason": reason}
        return self._do("resolve_escalation", args, id)

    def override(self, suggested: str, chosen: str, *, id: str | None = None) -> Receipt:
        """Record that a person chose another agent than the one that was suggested."""
        return self._do("override_delegation", {"suggested": suggested, "chosen": chosen}, id)

    def routing(
        self, suggested: str, chosen: str, intent: str, *, id: str | None = None
    ) -> Receipt:
        """Record that a person chose another workflow than the one that was suggested."""
        args = {"suggested": suggested, "chosen": chosen, "intent": intent}
        return self._do("correct_routing", args, id)

    def list(self, *, agent: str | None = None) -> Fields:
        """Return the newest entries, oldest first, and a summary; of one agent or of all."""
        state: Delegation = self._session.log_state("delegation")
        entries = state["entries"]
        if agent is not None:
            names = ("agent", "from", "to", "suggested", "chosen")
            entries = [entry for entry in entries if agent in map(entry.get, names)]
        return {
            "entries": entries,
            "earlier": state["entries_earlier"],
            "summary": summarize_delegations(entries),
        }

    def _do(self, command: str, args: Fields, id: str | None) -> Receipt:
        fields = {name: value for name, value in args.items() if value is not None}
        return self._session.do_log("delegation", command, fields, id=id)


# Initiatives


def has_initiatives(session: Session) -> bool:
    """Return whether the workspace has an initiative. Costs one stat, or one SELECT."""
    if os.path.lexists(os.path.join(session.workspace.root, session.log_path(LOG))):
        return True
    return session.store.ledger.stream(stream_of(LOG)) is not None


def has_milestone_folders(session: Session) -> bool:
    """Return whether there are milestone folders, or folders that cannot be listed."""
    try:
        return bool(milestone_folders(session.workspace))
    except HoldfastError:
        return True


def initiative_for_workflow(session: Session, name: str | None, milestone: str | None) -> Fields:
    """Return the initiative and the milestone that a new workflow is for.

    Default to the current ones. Raise ``Refused`` if there is no such initiative or milestone.
    """
    state: InitiativesState = session.log_state(LOG)
    key = state["current"] if name is None else core.find_key(state, name)
    if key is None:
        refusal = core.no_such(state, "of a workflow", name or "current initiative")
        raise Refused(refusal.code, refusal.message, refusal.hint)
    initiative = state["all"][key]
    if milestone is not None and find_milestone(initiative, milestone) is None:
        ids = ", ".join([entry["id"] for entry in initiative["milestones"]]) or "none"
        raise Refused(
            "not_found",
            f"start: {initiative['name']} has no milestone {milestone[:40]!r}; it has {ids}",
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
    }


def suggest_initiative(session: Session, refused: Refused) -> Refused:
    """Return a refusal to resume a workflow, extended by the initiative to continue, if any."""
    try:
        initiative = core.current_of(session.log_state(LOG))
    except HoldfastError as error:
        return _extended(refused, f"initiative: {error.message}", error.hint)
    if initiative is None or initiative["status"] in FINAL:
        return suggest_recovery(session, refused)
    status = initiative["status"].replace("_", " ")
    what = f"the initiative {initiative['name']} is {status} at {initiative['current_milestone']}"
    return _extended(refused, what, "holdfast initiative show")


def suggest_recovery(session: Session, refused: Refused) -> Refused:
    """Return a refusal, extended by an initiative that can be recovered, if any."""
    try:
        recoverable = find_recoverable(session, session.log_state(LOG))
    except HoldfastError as error:
        return _extended(refused, f"initiative: {error.message}", error.hint)
    return refused if recoverable is None else _extended(refused, *recoverable)


def _extended(refused: Refused, what: str, hint: str) -> Refused:
    return Refused(refused.code, f"{refused.message}; {what}", hint, **refused.details)


def find_recoverable(
    session: Session, state: InitiativesState, *, ask_server: bool = True
) -> tuple[str, str] | None:
    """Return what tells of an initiative that is not known, and the command that recovers it.

    Look at the milestone folders, and ask a Memory server if there is none. Raise a ``Fault`` or
    ``Refused`` if the folders or the settings cannot be read.
    """
    source, names = "milestone files", unknown_folders(session.workspace, state)
    graph = settings.load(session.workspace.root).graph()
    if not names and ask_server and graph.startswith("mcp:"):
        from holdfast.keeper.checkpoints import unknown_checkpoints

        source, names = "memory graph", unknown_checkpoints(session.store, state)
    if not names:
        return None
    name = f" {shell_word(names[0])}" if len(names) > 1 else ""
    verb = "tell" if source == "milestone files" else "tells"
    what = f"the {source} {verb} of {', '.join(names[:5])}"
    return what, f"holdfast initiative recover{name}"


# Milestone folders


def milestone_folders(workspace: Workspace) -> list[str]:
    """Return the names of the folders that may belong to an initiative.

    A folder that a link leads out of the workspace is included, so that recovering it can report
    why it cannot be read. Raise a ``Fault`` if the folders cannot be listed.
    """
    top = settings.load(workspace.root).milestones
    return [
        name
        for name in names_in(workspace, top)
        if is_encodable(name)
        and os.path.isdir(os.path.join(workspace.root, top, name))
        and (not workspace.contains(f"{top}/{name}") or names_in(workspace, f"{top}/{name}"))
    ]


def unknown_folders(workspace: Workspace, state: InitiativesState) -> list[str]:
    """Return the milestone folders of initiatives that the record does not know."""
    known_folders = {initiative.get("folder") or key for key, initiative in state["all"].items()}
    return [folder for folder in milestone_folders(workspace) if folder not in known_folders]


def names_in(workspace: Workspace, folder: str) -> list[str]:
    """Return the names in a folder, M2 before M10, without hidden ones; none if it is missing.

    Raise ``Refused`` if the folder is outside the workspace, a ``Fault`` if it cannot be read.
    """
    if not os.path.isdir(os.path.join(workspace.root, folder)):
        return []
    try:
        names = location.names_in(path_inside(workspace, folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error
    return sorted([name for name in names if not name.startswith(".")], key=natural_key)


def path_inside(workspace: Workspace, path: str) -> str:
    """Return the absolute path; raise ``Refused`` if a link leads it out of the workspace."""
    if not workspace.contains(path):
        raise outside(path, workspace.root)
    return os.path.realpath(os.path.join(workspace.root, path))


def unreadable(path: str, error: OSError) -> Fault:
    """Return the ``Fault`` for a file or folder that cannot be read."""
    why = f"{path} cannot be read ({error.strerror})"
    return Fault("unreadable", why, f"see to {path}, then run the same command again")


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which M2 comes before M10."""
    parts: list[tuple[int, str]] = []
    for is_number, letters in groupby(name, str.isdecimal):
        text = "".join(letters)
        parts += [(int(text), "")] if is_number else [(-1, letter) for letter in text]
    return parts
