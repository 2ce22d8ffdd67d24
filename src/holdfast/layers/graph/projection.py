"""Translate states and events of the ledger into updates of graph entities. Pure.

Names, types and sentences are those that agents know from the Memory server: one ``WorkflowState``
for each workflow, with current values only; ``interview-state`` with the newest interview;
``delegation-log`` and ``learnings`` as histories that only grow.

``workflow-state`` is the slot of the main worktree: it shows the verb workflow whose record has the
one path for verb workflows there. Every other workflow is ``workflow-state:ID``. In the same way
``initiative-checkpoint`` is the current initiative, and ``initiative-checkpoint:KEY`` another one.
"""

from __future__ import annotations

from collections import defaultdict

from holdfast.core import json_text
from holdfast.core.workflow.state import is_active
from holdfast.formats.document import index_to_show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Event, Fields, Workflow
    from holdfast.layers.graph.types import EntityUpdate

VERSION = "1"
"""Delivered with the graph: a server that has another version is sent everything again."""
SLOT = "workflow-state"
CHECKPOINT = "initiative-checkpoint"
_MAIN_WORKTREE = "."
_WORKFLOW_KEYS = (
    "type: ", "phase: ", "phase_index: ", "started: ", "context: ", "status: ", "updated: ",
)  # fmt: skip
_INITIATIVE_KEYS = ("initiative: ", "milestone: ", "status: ", "progress: ", "updated: ")
_INTERVIEW_KEYS = ("skill: ", "confidence: ", "dimensions: ", "questions_asked: ", "timestamp: ")
_KIND_OF_EVENT = {
    "interview_recorded": "interview",
    "interview_skipped": "skip",
    "delegation_recorded": "delegation",
    "delegation_escalated": "escalation",
    "delegation_overridden": "override",
    "routing_corrected": "routing",
    "learning_recorded": "learning",
    "forge_noted": "forge",
}
_DELEGATION_KINDS = ("delegation", "escalation", "override", "routing")
_SENTENCES = {
    "skip": "interview_skip: {skill}, user said: {reason} at {timestamp}",
    "delegation": (
        "delegation: {agent} ({model}) for {task_type} [{complexity}] -> {outcome} "
        "({duration_ms}ms) at {timestamp}"
    ),
    "escalation": "escalated: {from} -> {to}, reason: {reason}",
    "override": "user_override: suggested {suggested}, user chose {chosen}",
    "routing": (
        "routing_correction: suggested {suggested}, user chose {chosen} for {intent} at {timestamp}"
    ),
}
_ESCALATION_OUTCOME = (
    "escalation_outcome: {from} -> {to}, resolved: {resolved}, reason: {reason} at {timestamp}"
)


class WorkflowSnapshot:
    """A workflow as of its last event."""

    __slots__ = ("seq", "state")

    def __init__(self, state: Workflow, seq: int) -> None:
        self.state = state
        self.seq = seq


def fits_slot(state: Workflow) -> bool:
    """Return True if the workflow's record has the verb workflows' path in the main worktree."""
    return state["recipe"]["format"] == "verb" and state["worktree"] == _MAIN_WORKTREE


def slot_holder(workflows: Iterable[WorkflowSnapshot]) -> WorkflowSnapshot | None:
    """Return the workflow that the slot shows: the active one, else the one that changed last."""
    return max(
        (workflow for workflow in workflows if fits_slot(workflow.state)),
        key=lambda workflow: (is_active(workflow.state), workflow.seq),
        default=None,
    )


def workflow_updates(
    changed: list[WorkflowSnapshot],
    previous: WorkflowSnapshot | None,
    holder: WorkflowSnapshot | None,
) -> tuple[list[EntityUpdate], list[str]]:
    """Return the updates for workflows that changed, and the names of entities to remove.

    ``previous`` held the slot until now, and ``holder`` holds it from now on.
    """
    by_id = {workflow.state["id"]: workflow for workflow in changed}
    previous_id = None if previous is None else previous.state["id"]
    holder_id = None if holder is None else holder.state["id"]
    has_moved = previous_id != holder_id
    if has_moved:
        for workflow in (previous, holder):
            if workflow is not None:
                by_id.setdefault(workflow.state["id"], workflow)
    removed = [f"{SLOT}:{holder_id}"] if has_moved and holder_id is not None else []
    updates = [
        workflow_update(workflow.state, in_slot=key == holder_id) for key, workflow in by_id.items()
    ]
    return updates, removed


def workflow_update(state: Workflow, *, in_slot: bool) -> EntityUpdate:
    """Return the update for one workflow."""
    values = {"type": state["recipe"]["name"].upper()}
    if state["phases"]:
        index = index_to_show(state["phase"], state["phases"])
        values["phase"] = state["phases"][index]["name"]
        values["phase_index"] = f"{index + 1}/{len(state['phases'])}"
    values["started"] = state["created_at"]
    values["context"] = state["title"] or state["subject"]
    if not is_active(state):
        ended = state.get("completed_at") if state["status"] == "completed" else None
        values["status"] = f"{state['status']} at {ended or state['updated_at']}"
    values["updated"] = state["updated_at"]
    name = SLOT if in_slot else f"{SLOT}:{state['id']}"
    return _current(name, "WorkflowState", _WORKFLOW_KEYS, values)


def event_updates(event: Event) -> list[EntityUpdate]:
    """Return the updates for an event of a log: an interview, a delegation, a learning, a note."""
    kind = _KIND_OF_EVENT.get(event["type"])
    return [] if kind is None else [_entry(kind, {**event["data"], "timestamp": event["at"]})]


def log_updates(state: Fields) -> list[EntityUpdate]:
    """Return the updates for a log whose record was adopted or edited as a whole."""
    updates: list[EntityUpdate] = []
    for entry in state.get("entries", []):
        kind = entry.get("kind", "delegation") if "key" not in entry else "forge"
        known = (*_DELEGATION_KINDS, "forge")
        updates.append(_entry(kind if kind in known else "delegation", entry))
    updates += [_entry("interview", entry) for entry in state.get("interviews", [])[-1:]]
    updates += [_entry("skip", entry) for entry in state.get("skips", [])]
    updates += [_entry("learning", entry) for entry in state.get("learnings", [])]
    return updates


def initiative_updates(state: Fields) -> tuple[list[EntityUpdate], list[str]]:
    """Return the updates for all initiatives, and the names of entities to remove."""
    current = state["current"]
    updates = []
    for key, initiative in state["all"].items():
        progress = {milestone["id"]: milestone["status"] for milestone in initiative["milestones"]}
        values = {
            "initiative": initiative["name"],
            "milestone": initiative["current_milestone"] or "none",
            "status": initiative["status"],
            "progress": json_text.dumps(progress),
            "updated": initiative["updated_at"],
        }
        name = CHECKPOINT if key == current else f"{CHECKPOINT}:{key}"
        updates.append(_current(name, "InitiativeCheckpoint", _INITIATIVE_KEYS, values))
    return updates, [f"{CHECKPOINT}:{current}"] if len(updates) > 1 else []


def merge_updates(updates: Iterable[EntityUpdate]) -> list[EntityUpdate]:
    """Return one update for each entity: the newest values, or all lines of a history."""
    by_name: dict[str, EntityUpdate] = {}
    for update in updates:
        earlier = by_name.get(update["name"])
        if earlier is None or update["replaces"]:
            by_name[update["name"]] = update
        else:
            lines = [*earlier["observations"], *update["observations"]]
            by_name[update["name"]] = {**earlier, "observations": lines}
    return list(by_name.values())


def _entry(kind: str, entry: Fields) -> EntityUpdate:
    """Return the update for one entry of a log."""
    if kind == "interview":
        values = {
            "skill": entry["skill"],
            "confidence": entry.get("confidence", "unknown"),
            "dimensions": json_text.dumps(entry.get("dimensions", {})),
            "questions_asked": entry.get("questions_asked", 0),
            "timestamp": entry.get("timestamp", "unknown"),
        }
        return _current("interview-state", "InterviewState", _INTERVIEW_KEYS, values)
    if kind == "learning":
        prefix = f"{entry['kind']}: " if entry.get("kind") else ""
        return _history("learnings", "Learnings", f"{prefix}{entry['text']}")
    if kind == "forge":
        text = f"{entry['key']}: {entry.get('text', '')}"
        return _history("forge-context", "ForgeContext", text)
    fields: Fields = defaultdict(lambda: "unknown", entry)
    lines = [_SENTENCES[kind].format_map(fields)]
    resolved = entry.get("resolved")
    if kind == "escalation" and isinstance(resolved, bool):
        fields["resolved"] = "true" if resolved else "false"
        lines.append(_ESCALATION_OUTCOME.format_map(fields))
    return _history("delegation-log", "DelegationRecord", *lines)


def _current(name: str, kind: str, keys: tuple[str, ...], values: Fields) -> EntityUpdate:
    """Return an update that replaces the values of these keys."""
    lines = [f"{key}: {value}" for key, value in values.items()]
    return {"name": name, "entityType": kind, "replaces": keys, "observations": lines}


def _history(name: str, kind: str, *lines: str) -> EntityUpdate:
    """Return an update that adds lines."""
    return {"name": name, "entityType": kind, "replaces": (), "observations": list(lines)}
