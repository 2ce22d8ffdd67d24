"""An event as a headline and a line of text: what somebody wants to know who reads many of them.

The rest of an event is on the page of the state after it.
"""

from __future__ import annotations

from holdfast.answers.events import COMMIT_CHARS, event_text
from holdfast.core.diff import MERGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event, Fields

_TEXT_FIELDS = (
    "description", "text", "title", "subject", "question", "answer", "code", "severity", "details",
    "did", "remaining", "found", "blockers", "reason", "outcome", "what", "path", "command",
    "test_command", "commit", "name", "milestone", "skill", "agent",
)  # fmt: skip
"""The fields whose values are the text, in this order."""
_INSIDE = ("fields", "tests", "result", "task")
"""Objects whose fields count like those of the event."""
_OF_UNITS = ("unit", "iteration", "confirmation", "verification")
"""The first words in the names of events about one unit of a loop."""
_ABOUT = ("task", "phase", "gate", "tests", "loop", "unit", "session", "record", "violation")
"""The words in the names of events by which a timeline tells them apart."""


def event_row(event: Event) -> Fields:
    """Return an event as the pages show it."""
    by, kind = event["by"], event["type"]
    is_merged = kind == MERGED
    return {
        "seq": event["seq"],
        "at": event["at"],
        "stream": event["stream"],
        "is_workflow": not event["stream"].startswith("_"),
        "type": kind,
        "about": next((word for word in _ABOUT if word in kind), "other"),
        "tone": _tone(event),
        "what": _headline(event),
        "text": event_text(event) if is_merged else _text(event),
        "whole": event_text(event),
        "surface": by.get("surface") or "",
        "session": by.get("session") or "",
    }


def _headline(event: Event) -> str:
    """Return ``task 3 completed``, ``gate lint passed``, ``tests failed``."""
    kind, data = event["type"], event["data"]
    first, *rest = kind.split("_")
    if kind == MERGED:
        is_own = "shared" in event["by"]
        return "conflict settled" if is_own else "work from other machines"
    if first in _OF_UNITS and "task" in data:
        number = [str(data["iteration"])] if first == "iteration" and "iteration" in data else []
        words = rest if first == "unit" else [first, *number, *rest]
        return " ".join(["unit", str(data["task"]), *words])
    if kind == "gate_recorded":
        evidence = " (claimed)" if data.get("evidence", "claim") == "claim" else ""
        return f"gate {data.get('gate')} {'passed' if data.get('passed') else 'failed'}{evidence}"
    if kind == "tests_recorded":
        return f"tests {_dict(data.get('tests')).get('last_result') or 'recorded'}"
    name = data.get(first)
    if rest and isinstance(name, (str, int)):
        return " ".join([first, str(name), *rest])
    return kind.replace("_", " ")


def _tone(event: Event) -> str:
    """Return ``good`` or ``bad`` for a run that passed or failed."""
    data = event["data"]
    result = _dict(data.get("tests")).get("last_result") or data.get("passed")
    if result in (True, "passed"):
        return "good"
    return "bad" if result in (False, "failed") else ""


def _text(event: Event) -> str:
    """Return the values that tell the most, in one line."""
    data = event["data"]
    fields = {**data}
    for name in _INSIDE:
        fields |= _dict(data.get(name))
    is_of_task = event["type"].startswith("task_phase")
    values = [fields.get("phase"), fields.get("inner")] if is_of_task else []
    values += [_commit(name, fields[name]) for name in _TEXT_FIELDS if name in fields]
    texts = [value for value in values if isinstance(value, str) and value]
    context = _dict(data.get("values"))
    texts += [f"{name} = {value}" for name, value in context.items()]
    return " · ".join(dict.fromkeys(texts))


def _commit(name: str, value: object) -> object:
    return value[:COMMIT_CHARS] if name == "commit" and isinstance(value, str) else value


def _dict(value: object) -> Fields:
    return value if isinstance(value, dict) else {}
