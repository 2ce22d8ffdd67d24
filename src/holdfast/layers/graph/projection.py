"""Read from the ledger what the graph should contain: everything, or what changed after an event.

Names, types and sentences are those that agents know from the Memory server: one ``WorkflowState``
for each workflow, with current values only; ``interview-state`` with the newest interview;
``delegation-log`` and ``learnings`` as histories that only grow.

``workflow-state`` is the slot of the main worktree: it shows the verb workflow whose record has the
one path for verb workflows there. Every other workflow is ``workflow-state:ID``. In the same way
``initiative-checkpoint`` is the current initiative, and ``initiative-checkpoint:KEY`` another one.

The ledger is read without a lock, and nothing is written. The embedded graph is nothing but this
answer, computed on demand; a Memory server is sent what changed since the last delivery.
"""

from __future__ import annotations

from collections import defaultdict

from holdfast.core import json_text
from holdfast.core.workflow import is_active
from holdfast.formats import is_workflow, stream_of
from holdfast.formats.schema import index_to_show
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Event, Fields, Workflow
    from holdfast.layers import LayerSource
    from holdfast.layers.graph import Entity
    from holdfast.storage.ledger import Stream

    class EntityUpdate(Entity):
        """One entity as the graph should have it after some events.

        Observations that begin with one of ``replaces`` are replaced by ``observations``. If
        ``replaces`` is empty, ``observations`` are added.
        """

        replaces: tuple[str, ...]


VERSION = "1"
"""Delivered with the graph: a server that has another version is sent everything again."""
SLOT = "workflow-state"
CHECKPOINT = "initiative-checkpoint"
_LOGS = tuple(stream_of(kind) for kind in ("interview", "delegation", "learning", "forge"))
"""Streams of which a graph shows every event, also those that left the state."""
INITIATIVES = stream_of("initiatives")
_WHOLE_RECORD = ("record_adopted", "record_edited")
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
_MAIN_WORKTREE = "."
_IN_THE_SLOT = (
    f"format = 'verb' AND worktree = '{_MAIN_WORKTREE}' ORDER BY {ACTIVE} DESC, seq DESC LIMIT 1"
)
_CHANGED = "seq > ? OR stream IN (?, ?) ORDER BY created_at, stream"
_NEWEST = f"phase_total > 0 ORDER BY {ACTIVE} DESC, updated_at DESC, seq DESC LIMIT 1"
_KIND_OF_EVENT = {
    "interview_recorded": "interview",
    "interview_skipped": "skip",
    "delegation_recorded": "delegation",
    "delegation_escalated": "escalation",
    "escalation_resolved": "outcome",
    "delegation_overridden": "override",
    "routing_corrected": "routing",
    "learning_recorded": "learning",
    "forge_noted": "forge",
}
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


def read_changes(
    source: LayerSource, after: int = 0, previous: str = ""
) -> tuple[list[EntityUpdate], list[str], str]:
    """Return what changed after an event; 0 means everything.

    The answer is the updates, the names of entities to remove, and the id of the workflow in the
    slot ``workflow-state`` (empty for none). ``previous`` held that slot until now.
    """
    holder: str = next((row["stream"] for row in source.ledger.rows(_IN_THE_SLOT)), "")
    streams = list(source.ledger.states(_CHANGED, after, previous, holder))
    has_moved = holder != previous
    updates: list[EntityUpdate] = []
    removed: list[str] = []
    for stream in streams:
        name = stream.row["stream"]
        if is_workflow(name) and (has_moved or stream.row["seq"] > after):
            updates.append(workflow_update(stream.state, in_slot=name == holder))
        elif name == INITIATIVES:
            checkpoints, obsolete = initiative_updates(stream.state)
            updates += checkpoints
            removed += obsolete
    if has_moved:
        removed.append(f"{SLOT}:{holder}" if holder else SLOT)
    updates += _read_logs(source, streams, after)
    return merge_updates(updates), removed, holder


def read_newest_workflow(source: LayerSource) -> Entity | None:
    """Return the entity of the active workflow that changed last; if none is, of an ended one."""
    for stream in source.ledger.states(_NEWEST):
        return workflow_update(stream.state, in_slot=fits_slot(stream.state))
    return None


def _read_logs(source: LayerSource, streams: list[Stream], after: int) -> list[EntityUpdate]:
    """Return the updates for events of the logs in their order, up to the states that were read."""
    events: list[Event] = []
    for stream in streams:
        name, last = stream.row["stream"], stream.row["seq"]
        if name in _LOGS:
            events += source.ledger.events(name, after=after, upto=last)
    updates: list[EntityUpdate] = []
    for event in sorted(events, key=lambda event: event["seq"]):
        try:
            if event["type"] in _WHOLE_RECORD:
                updates += log_updates(source.state_at(event["stream"], event["seq"]))
            else:
                updates += event_updates(event)
        except _NONSENSE:
            continue  # It came with an import, and the state leaves it out as well.
    return updates


# Pure: states and events as updates of entities


def fits_slot(state: Workflow) -> bool:
    """Return True if the workflow's record has the verb workflows' path in the main worktree."""
    return state["recipe"]["format"] == "verb" and state["worktree"] == _MAIN_WORKTREE


def workflow_update(state: Workflow, *, in_slot: bool) -> EntityUpdate:
    """Return the update for one workflow."""
    phases = state["phases"]
    index = index_to_show(state["phase"], phases)
    ended = state.get("completed_at") if state["status"] == "completed" else None
    status = f"{state['status']} at {ended or state['updated_at']}"
    values = {
        "type": state["recipe"]["name"].upper(),
        "phase": phases[index]["name"] if phases else None,
        "phase_index": f"{index + 1}/{len(phases)}" if phases else None,
        "started": state["created_at"],
        "context": state["title"] or state["subject"],
        "status": None if is_active(state) else status,
        "updated": state["updated_at"],
    }
    name = SLOT if in_slot else f"{SLOT}:{state['id']}"
    return _current(name, "WorkflowState", values)


def event_updates(event: Event) -> list[EntityUpdate]:
    """Return the updates for an event of a log: an interview, a delegation, a learning, a note."""
    kind = _KIND_OF_EVENT.get(event["type"])
    return [] if kind is None else [_entry(kind, {**event["data"], "timestamp": event["at"]})]


def log_updates(state: Fields) -> list[EntityUpdate]:
    """Return the updates for a log whose record was adopted or edited as a whole."""
    updates: list[EntityUpdate] = []
    for entry in state.get("entries", []):
        kind = "forge" if "key" in entry else entry.get("kind", "delegation")
        updates.append(_entry(kind, entry))
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
        updates.append(_current(name, "InitiativeCheckpoint", values))
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
        confidence = entry.get("confidence")
        values = {
            "skill": entry["skill"],
            "confidence": "unknown" if confidence is None else confidence,
            "dimensions": json_text.dumps(entry.get("dimensions", {})),
            "questions_asked": entry.get("questions_asked", 0),
            "timestamp": entry.get("timestamp", "unknown"),
        }
        return _current("interview-state", "InterviewState", values)
    if kind == "learning":
        prefix = f"{entry['kind']}: " if entry.get("kind") else ""
        return _history("learnings", "Learnings", f"{prefix}{entry['text']}")
    if kind == "forge":
        text = f"{entry['key']}: {entry.get('text', '')}"
        return _history("forge-context", "ForgeContext", text)
    fields: Fields = defaultdict(lambda: "unknown", entry)
    lines = [_SENTENCES[kind].format_map(fields)] if kind in _SENTENCES else []
    resolved = entry.get("resolved")
    if kind in ("escalation", "outcome") and isinstance(resolved, bool):
        fields["resolved"] = "true" if resolved else "false"
        lines.append(_ESCALATION_OUTCOME.format_map(fields))
    return _history("delegation-log", "DelegationRecord", *lines)


def _current(name: str, kind: str, values: Fields) -> EntityUpdate:
    """Return an update that replaces the values of these keys; ``None`` is no value."""
    keys = tuple(f"{key}: " for key in values)
    lines = [f"{key}: {value}" for key, value in values.items() if value is not None]
    return {"name": name, "entityType": kind, "replaces": keys, "observations": lines}


def _history(name: str, kind: str, *lines: str) -> EntityUpdate:
    """Return an update that adds lines."""
    return {"name": name, "entityType": kind, "replaces": (), "observations": list(lines)}
