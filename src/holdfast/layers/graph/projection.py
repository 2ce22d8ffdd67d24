"""What the ledger's states and events mean for a graph, as operations on entities. Pure.

Names, types and sentences are those that agents know from the Memory server: one ``WorkflowState``
for each workflow, with current values only; ``interview-state`` with those of the newest interview;
``delegation-log`` and ``learnings`` as histories that are only added to. ``workflow-state`` is the
verb workflow whose record has the main worktree's one place; every other workflow is
``workflow-state:ID``.

``initiative-checkpoint`` is the current initiative, and ``initiative-checkpoint:KEY`` another one.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.workflow.state import is_active
from holdfast.formats.phase_fields import index_to_show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.types import Event, Fields, Json, Workflow
    from holdfast.layers.graph.shapes import Operation

VERSION = "1"
"""Delivered with the graph: a server that has another version is sent everything again."""
SLOT = "workflow-state"
INTERVIEW = "interview-state"
LOG = "delegation-log"
LEARNINGS = "learnings"
FORGE = "forge-context"
CHECKPOINT = "initiative-checkpoint"
_MAIN = "."
_WORKFLOW = (
    "type: ",
    "phase: ",
    "phase_index: ",
    "started: ",
    "context: ",
    "status: ",
    "updated: ",
)
_INITIATIVE = ("initiative: ", "milestone: ", "status: ", "progress: ", "updated: ")
_INTERVIEW = ("skill: ", "confidence: ", "dimensions: ", "questions_asked: ", "timestamp: ")


class Seen:
    """A workflow as of its last event."""

    __slots__ = ("seq", "state")

    def __init__(self, state: Workflow, seq: int) -> None:
        self.state = state
        self.seq = seq

    @property
    def has_place(self) -> bool:
        """True if its record has the one place for verb workflows in the main worktree."""
        return self.state["recipe"]["format"] == "verb" and self.state["worktree"] == _MAIN

    @property
    def rank(self) -> tuple[bool, int]:
        """Order those that had the place: it belongs to the active one, else to the last."""
        return is_active(self.state), self.seq


def holder_of(workflows: Iterable[Seen]) -> Seen | None:
    """Return the workflow that the entity ``workflow-state`` is about."""
    return max((one for one in workflows if one.has_place), key=lambda one: one.rank, default=None)


def of_workflows(
    workflows: list[Seen], before: Seen | None, holder: Seen | None
) -> tuple[list[Operation], list[str]]:
    """Return the operations for workflows that changed, and the names of entities to remove.

    ``before`` was the entity ``workflow-state`` until now, and ``holder`` is from now on.
    """
    changed = {one.state["id"]: one for one in workflows}
    was = None if before is None else before.state["id"]
    now = None if holder is None else holder.state["id"]
    if was != now:
        for one in (before, holder):
            if one is not None:
                changed.setdefault(one.state["id"], one)
    gone = [f"{SLOT}:{now}"] if now not in (None, was) else []
    return [of_workflow(one.state, is_holder=key == now) for key, one in changed.items()], gone


def of_workflow(state: Workflow, *, is_holder: bool) -> Operation:
    """Return the entity of one workflow."""
    values = {"type": state["recipe"]["name"].upper()}
    if state["phases"]:
        place = index_to_show(state["phase"], state["phases"])
        values["phase"] = state["phases"][place]["name"]
        values["phase_index"] = f"{place + 1}/{len(state['phases'])}"
    values["started"] = state["created_at"]
    values["context"] = state["title"] or state["subject"]
    if not is_active(state):
        ended = state.get("completed_at") if state["status"] == "completed" else None
        values["status"] = f"{state['status']} at {ended or state['updated_at']}"
    values["updated"] = state["updated_at"]
    return {
        "name": SLOT if is_holder else f"{SLOT}:{state['id']}",
        "entityType": "WorkflowState",
        "replaces": _WORKFLOW,
        "observations": _lines(values),
    }


def of_event(event: Event) -> list[Operation]:
    """Return what an event of a log means: an interview, a delegation, a learning, a note."""
    made = _EVENTS.get(event["type"])
    return [] if made is None else made({**event["data"], "timestamp": event["at"]})


def of_small(state: Fields) -> list[Operation]:
    """Return what the state of a log means whose record was adopted or edited as a whole."""
    found: list[Operation] = []
    for entry in state.get("entries", []):
        if "key" in entry:
            found += _of_forge(entry)
            continue
        found += _ENTRIES.get(entry.get("kind", "delegation"), _of_delegation)(entry)
    for entry in state.get("interviews", [])[-1:]:
        found += _of_interview(entry)
    for entry in state.get("skips", []):
        found += _of_skip(entry)
    for entry in state.get("learnings", []):
        found += _of_learning(entry)
    return found


def of_initiatives(state: Fields) -> tuple[list[Operation], list[str]]:
    """Return the entities of all initiatives, and the names of entities to remove."""
    current = state["current"]
    found: list[Operation] = []
    for key, one in state["all"].items():
        progress = {each["id"]: each["status"] for each in one["milestones"]}
        values = {
            "initiative": one["name"],
            "milestone": one["current_milestone"] or "none",
            "status": one["status"],
            "progress": json_text.dumps(progress),
            "updated": one["updated_at"],
        }
        found.append(
            {
                "name": CHECKPOINT if key == current else f"{CHECKPOINT}:{key}",
                "entityType": "InitiativeCheckpoint",
                "replaces": _INITIATIVE,
                "observations": _lines(values),
            }
        )
    return found, [f"{CHECKPOINT}:{current}"] if len(found) > 1 else []


def merged(operations: Iterable[Operation]) -> list[Operation]:
    """Leave one operation for each entity: the newest values, or all lines of a history."""
    found: dict[str, Operation] = {}
    for one in operations:
        known = found.get(one["name"])
        if known is None or one["replaces"]:
            found[one["name"]] = one
        else:
            told = [*known["observations"], *one["observations"]]
            found[one["name"]] = {**known, "observations": told}
    return list(found.values())


def _lines(values: Fields) -> list[str]:
    return [f"{key}: {value}" for key, value in values.items()]


def _of_interview(data: Fields) -> list[Operation]:
    values = {
        "skill": data["skill"],
        "confidence": data.get("confidence", "unknown"),
        "dimensions": json_text.dumps(data.get("dimensions", {})),
        "questions_asked": data.get("questions_asked", 0),
        "timestamp": data.get("timestamp", "unknown"),
    }
    return [
        {
            "name": INTERVIEW,
            "entityType": "InterviewState",
            "replaces": _INTERVIEW,
            "observations": _lines(values),
        }
    ]


def _logged(*texts: str) -> list[Operation]:
    return [
        {
            "name": LOG,
            "entityType": "DelegationRecord",
            "replaces": (),
            "observations": list(texts),
        }
    ]


def _of_skip(data: Fields) -> list[Operation]:
    told = _told(data, "skill", "reason", "timestamp")
    return _logged("interview_skip: {}, user said: {} at {}".format(*told))


def _of_delegation(data: Fields) -> list[Operation]:
    names = ("agent", "model", "task_type", "complexity", "outcome", "duration_ms", "timestamp")
    told = _told(data, *names)
    return _logged("delegation: {} ({}) for {} [{}] -> {} ({}ms) at {}".format(*told))


def _of_escalation(data: Fields) -> list[Operation]:
    source, target, reason, at = _told(data, "from", "to", "reason", "timestamp")
    texts = [f"escalated: {source} -> {target}, reason: {reason}"]
    if isinstance(data.get("resolved"), bool):
        resolved = "true" if data["resolved"] else "false"
        texts.append(
            f"escalation_outcome: {source} -> {target}, resolved: {resolved}, "
            f"reason: {reason} at {at}"
        )
    return _logged(*texts)


def _of_override(data: Fields) -> list[Operation]:
    return _logged(
        "user_override: suggested {}, user chose {}".format(*_told(data, "suggested", "chosen"))
    )


def _of_routing(data: Fields) -> list[Operation]:
    told = _told(data, "suggested", "chosen", "intent", "timestamp")
    return _logged("routing_correction: suggested {}, user chose {} for {} at {}".format(*told))


def _of_learning(data: Fields) -> list[Operation]:
    text = f"{data['kind']}: {data['text']}" if data.get("kind") else str(data["text"])
    return [{"name": LEARNINGS, "entityType": "Learnings", "replaces": (), "observations": [text]}]


def _of_forge(data: Fields) -> list[Operation]:
    text = f"{data['key']}: {data.get('text', '')}"
    return [{"name": FORGE, "entityType": "ForgeContext", "replaces": (), "observations": [text]}]


def _told(data: Fields, *names: str) -> list[Json]:
    return [data.get(name, "unknown") for name in names]


_ENTRIES: dict[str, Callable[[Fields], list[Operation]]] = {
    "delegation": _of_delegation,
    "escalation": _of_escalation,
    "override": _of_override,
    "routing": _of_routing,
}
_EVENTS: dict[str, Callable[[Fields], list[Operation]]] = {
    "interview_recorded": _of_interview,
    "interview_skipped": _of_skip,
    "delegation_recorded": _of_delegation,
    "delegation_escalated": _of_escalation,
    "delegation_overridden": _of_override,
    "routing_corrected": _of_routing,
    "learning_recorded": _of_learning,
    "forge_noted": _of_forge,
}
