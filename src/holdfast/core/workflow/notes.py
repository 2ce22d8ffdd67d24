"""What a workflow carries through a compaction: reading, reminders, lessons, context."""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, bad_values, first_bad_text
from holdfast.core.workflow.lifecycle import bad_reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Command, Draft, Fields, Workflow


def remind(state: Workflow, command: Command) -> list[Draft] | Refusal:
    text = command["args"]["text"]
    refusal = bad_text("reminder", text)
    if refusal is not None:
        return refusal
    if text in state["reminders"]:
        return Refusal(
            "already", f"remind: {state['id']} has that reminder", f"holdfast show {state['id']}"
        )
    return [{"type": "reminder_added", "data": {"text": text}}]


def require_reading(state: Workflow, command: Command) -> list[Draft] | Refusal:
    path = command["args"]["path"]
    refusal = bad_text("path", path)
    if refusal is not None:
        return refusal
    refusal = bad_reading(path)
    if refusal is not None:
        return refusal
    if path in state["required_reading"]:
        return Refusal(
            "already",
            f"read: {state['id']} requires {path} already",
            f"holdfast show {state['id']}",
        )
    return [{"type": "reading_required", "data": {"path": path}}]


def confirm_reading(state: Workflow, command: Command) -> list[Draft]:
    """Record that required reading was read; return no event for other files."""
    path = command["args"]["path"]
    if path not in state["required_reading"] or path in state["read"]:
        return []
    return [{"type": "reading_confirmed", "data": {"path": path}}]


def set_context(_state: Workflow, command: Command) -> list[Draft] | Refusal:
    values = command["args"]["values"]
    if not values:
        return Refusal("invalid", "set: nothing is given", "holdfast set key=value")
    refusal = bad_values(values)
    if refusal is not None:
        return refusal
    return [{"type": "context_set", "data": {"values": values}}]


def add_guardrail(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Add a lesson for every later iteration. ``replace`` replaces the one of the same name."""
    args = command["args"]
    lesson = {key: args[key] for key in _LESSON if args.get(key) is not None}
    wrong = first_bad_text(**lesson)
    if wrong is not None:
        return wrong
    known = {rule.get("name"): rule for rule in state.get("guardrails", [])}
    if known.get(lesson["name"]) == lesson:
        return []
    if not args.get("replace"):
        name, number = lesson["name"], 2
        while lesson["name"] in known:
            lesson["name"], number = f"{name} ({number})", number + 1
    return [{"type": "guardrail_added", "data": lesson}]


_LESSON = ("name", "when", "problem", "solution", "learned")


def note_compaction(state: Workflow, command: Command) -> list[Draft]:
    """Record a compaction; return no event if the last event was one."""
    last = state["history"][-1:]
    if last and last[0].get("event") == "context_compacted":
        return []
    return [{"type": "context_compacted", "data": dict(command["args"])}]


def end_session(state: Workflow, command: Command) -> list[Draft]:
    """Release the workflow if the ending session holds it."""
    session, held = command["args"]["session"], state["session"]
    if not session or held is None or held["id"] != session:
        return []
    return [{"type": "session_ended", "data": dict(command["args"])}]


def note_briefing(_state: Workflow, command: Command) -> list[Draft]:
    return [{"type": "briefing_delivered", "data": dict(command["args"])}]


def _reminder_added(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "reminders": [*state["reminders"], data["text"]]}


def _reading_required(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "required_reading": [*state["required_reading"], data["path"]]}


def _reading_confirmed(state: Workflow, data: Fields, at: str) -> Workflow:
    return {**state, "read": {**state["read"], data["path"]: at}}


def _context_set(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "context": {**state["context"], **data["values"]}}


def _guardrail(state: Workflow, data: Fields, _at: str) -> Workflow:
    known = state.get("guardrails", [])
    if data["name"] not in [rule.get("name") for rule in known]:
        return {**state, "guardrails": [*known, dict(data)]}
    rules = [dict(data) if rule.get("name") == data["name"] else rule for rule in known]
    return {**state, "guardrails": rules}


def _compacted(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return {**state, "read": {}}


def _session_ended(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return {**state, "session": None}


def _unchanged(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return state


DECIDE = {
    "add_reminder": remind,
    "require_reading": require_reading,
    "confirm_reading": confirm_reading,
    "set_context": set_context,
    "add_guardrail": add_guardrail,
    "note_compaction": note_compaction,
    "note_briefing": note_briefing,
    "end_session": end_session,
}
EVOLVE = {
    "reminder_added": _reminder_added,
    "reading_required": _reading_required,
    "reading_confirmed": _reading_confirmed,
    "context_set": _context_set,
    "guardrail_added": _guardrail,
    "context_compacted": _compacted,
    "briefing_delivered": _unchanged,
    "session_ended": _session_ended,
}
