"""The kinds of aggregates, workflows and the logs beside them, and L1: one JSON file per workflow.

An aggregate knows how commands become events and events a state (the core), which columns select
it, and how its record is rendered and parsed. One store serves all of them.

The record of a workflow is in the format of its recipe. Each format is a module with ``path``,
``render`` (state to document and rest) and ``parse`` (back). A new format is one entry of
``core.record_formats``, one such module, and its import in ``module``.
"""

from __future__ import annotations

import os

from holdfast.core import json_text, workflow
from holdfast.core.record_formats import FORMATS, format_of, spec_of
from holdfast.core.workflow.state import find_phase, is_floating, is_news, unread
from holdfast.formats import schema, signature
from holdfast.system.disk import is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.core.refusal import Refusal
    from holdfast.core.types import Command, Draft, Event, Fields, Origin, Workflow

    State = Any
    Read = Callable[[], Iterable[Event]]
    """Reads a stream's events in order; called again for a second pass."""

__all__ = ["FORMATS", "format_of", "spec_of"]

WORKFLOW = "workflow"
LOGS = {
    "interview": ".claude/interview-state.json",
    "delegation": ".claude/delegation-log.json",
    "learning": ".claude/learnings.json",
    "forge": ".claude/forge-context.json",
    "initiatives": ".claude/initiative.json",
}
"""Aggregates with one stream, and the path of their record, of which every worktree has a copy."""
_MARK = "_"
"""The prefix of the streams of logs; no workflow's id has it."""
_NEWS = (
    "learning_recorded", "interview_skipped", "delegation_overridden", "routing_corrected",
    "record_adopted", "record_edited",
)  # fmt: skip
"""Events of logs that change the project's memory file."""
_modules: dict[str, Any] = {}


def module(name: str) -> Any:
    """Return the module of a format; only those in use are imported."""
    if name not in _modules:
        if name == "verb":
            from holdfast.formats import verb

            _modules[name] = verb
        elif name == "formal":
            from holdfast.formats import formal

            _modules[name] = formal
        elif name == "skill":
            from holdfast.formats import skill

            _modules[name] = skill
        elif name == "loop":
            from holdfast.formats import loop

            _modules[name] = loop
    return _modules[name]


def parse(
    name: str, record: signature.SignedRecord, rest: Fields | None, origin: Origin
) -> Workflow:
    """Return the state of a record; raise ``schema.Invalid`` if a field has no valid value.

    ``rest`` replaces the record's own.
    """
    kept = record.rest if rest is None else rest
    parsed: Workflow = module(name).parse(record.document, kept or {}, origin)
    return parsed


def check_edit(base: Workflow, edited: Workflow) -> None:
    """Raise ``schema.Invalid`` if an edit changes what only a command may change."""
    if base["recipe"]["format"] == edited["recipe"]["format"] == "loop":
        module("loop").check_edit(base, edited)


def next_cycle(base: Workflow, edited: Workflow) -> Workflow:
    """Return the edited state, moved to its next cycle if the edit began one."""
    return schema.next_cycle(base, edited) if "cycles_at" in edited["recipe"] else edited


def active_path(format_name: str, workflow_id: str, created_at: str) -> str:
    """Return the path of an active workflow's record from the worktree's root."""
    path: str = module(format_name).path(workflow_id, created_at)
    return path


def place(state: Workflow) -> str | None:
    """Return the path of the record from the worktree's root; ``None`` if there is none."""
    status = state["status"]
    if status in ("in_progress", "blocked"):
        return state["record"]
    spec = spec_of(state)
    if not spec.is_kept or status == "expired" or "cleaned_at" in state:
        return None
    return spec.completed_path(state["id"]) or state["record"]


def is_reset(state: Workflow) -> bool:
    """Return whether an empty object replaces the removed record."""
    return spec_of(state).leaves_empty and state["status"] == "expired"


def is_archived(record: str) -> bool:
    """Return whether a path lies in its format's archive, from which nothing is removed."""
    return any(spec.archive and record.startswith(spec.archive) for spec in FORMATS.values())


def has_completed_copy(state: Workflow, root: str) -> bool:
    """Return whether a file is where the completed record of an active workflow would be."""
    path = spec_of(state).completed_path(state["id"])
    return path is not None and is_there(os.path.join(root, path))


class Aggregate:
    """A kind of stream: how its events make a state, and the state a record."""

    kind: str
    blank: Callable[[], State]
    decide: Callable[[State | None, Command], list[Draft] | Refusal]
    evolve: Callable[[State | None, Event], State]

    def record_format(self, state: State) -> Any:
        """Return what renders this state and parses it back."""
        raise NotImplementedError

    def parse(
        self, record: signature.SignedRecord, rest: Fields | None, path: str, origin: Origin
    ) -> State:
        """Return the state of a record; raise ``Invalid`` if a field has no valid value."""
        raise NotImplementedError

    def place(self, state: State, here: str) -> tuple[str, str] | None:
        """Return worktree and path of the state's record; ``None`` if it has no record."""
        raise NotImplementedError

    def columns(self, _state: State) -> Fields:
        """Return the columns that select and list the aggregate."""
        return {}

    def is_news(self, event: Event, _state: State) -> bool:
        """Return whether the project's memory should know of an event."""
        return event["type"] in _NEWS

    def render(self, state: State, ledger: str, seq: int, event_hash: str) -> bytes:
        """Return the bytes of the record."""
        document, rest = self.record_format(state).render(state)
        claims = {"ledger": ledger, "seq": seq, "hash": event_hash}
        return signature.sign(document, rest, claims)

    def rest(self, state: State) -> Fields:
        """Return the part of the state that the record's document does not have."""
        rest: Fields = self.record_format(state).render(state)[1]
        return rest

    def replay(self, read: Read) -> tuple[State | None, list[Event]]:
        """Return the state of a stream's events, and the events that do not fit."""
        from holdfast.formats import replay_check

        return replay_check.replay(self, read)


class WorkflowAggregate(Aggregate):
    """Workflows, in any format."""

    kind = WORKFLOW
    blank = staticmethod(lambda: None)
    decide = staticmethod(workflow.decide)
    evolve = staticmethod(workflow.evolve)

    def is_news(self, event: Event, state: State) -> bool:
        return is_news(event, state)

    def record_format(self, state: State) -> Any:
        return module(state["recipe"]["format"])

    def parse(
        self, record: signature.SignedRecord, rest: Fields | None, path: str, origin: Origin
    ) -> State:
        return parse(format_of(path), record, rest, origin)

    def place(self, state: State, _here: str) -> tuple[str, str] | None:
        path = place(state)
        return None if path is None else (state["worktree"], path)

    def columns(self, state: State) -> Fields:
        names = [phase["name"] for phase in state["phases"]]
        current = find_phase(state, state["phase"])
        session = state["session"]
        reading = unread(state)
        initiative = state.get("initiative") or {}
        return {
            "recipe": state["recipe"]["name"],
            "format": state["recipe"]["format"],
            "subject": state["subject"],
            "title": state["title"],
            "status": state["status"],
            "phase": state["phase"],
            "phase_status": current["status"] if current else None,
            "phase_index": names.index(state["phase"]) + 1 if state["phase"] in names else 0,
            "phase_total": len(names),
            "tasks_done": [task["status"] for task in state["tasks"]].count("completed"),
            "tasks_total": len(state["tasks"]),
            "branch": state["branch"],
            "floating": int(is_floating(state)),
            "worktree": state["worktree"],
            "record": state["record"],
            "session": json_text.dumps(session) if session else None,
            "session_id": session["id"] if session else None,
            "session_pid": session.get("pid") if session else None,
            "ttl": state["ttl"],
            "unread": json_text.dumps(reading) if reading else None,
            "initiative": initiative.get("name"),
            "milestone": initiative.get("milestone"),
            "created_at": state["created_at"],
            "updated_at": state["updated_at"],
        }


class LogAggregate(Aggregate):
    """An aggregate with one stream, and a record in every worktree."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.path = LOGS[kind]
        core: Any
        if kind == "initiatives":
            from holdfast.core import initiatives as core
            from holdfast.formats import initiatives as record_format

            self._format: Any = record_format
        else:
            from holdfast.core import logs
            from holdfast.formats.logs import RECORDS

            core, self._format = logs.LOGS[kind], RECORDS[kind]
        self.blank, self.decide, self.evolve = core.blank, core.decide, core.evolve

    def record_format(self, _state: State) -> Any:
        return self._format

    def parse(
        self, record: signature.SignedRecord, rest: Fields | None, _path: str, origin: Origin
    ) -> State:
        kept = record.rest if rest is None else rest
        return self._format.parse(record.document, kept or {}, origin)

    def place(self, _state: State, here: str) -> tuple[str, str]:
        return here, self.path


_WORKFLOWS = WorkflowAggregate()
_LOGS: dict[str, LogAggregate] = {}


def is_workflow(stream: str) -> bool:
    return not stream.startswith(_MARK)


def is_log(stream: str) -> bool:
    return stream.startswith(_MARK) and stream[len(_MARK) :] in LOGS


def stream_of(kind: str) -> str:
    """Return the stream of a log."""
    return f"{_MARK}{kind}"


def log_of(kind: str) -> LogAggregate:
    if kind not in _LOGS:
        _LOGS[kind] = LogAggregate(kind)
    return _LOGS[kind]


def aggregate_of(stream: str) -> Aggregate:
    """Return the aggregate that a stream belongs to."""
    return log_of(stream[len(_MARK) :]) if stream.startswith(_MARK) else _WORKFLOWS


def evolve(stream: str, state: State | None, event: Event) -> State:
    """Return the state of a stream after one more event."""
    return aggregate_of(stream).evolve(state, event)
