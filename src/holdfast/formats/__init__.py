"""The kinds of aggregates, workflows and the logs beside them, and L1: one JSON file per workflow.

An aggregate knows how commands become events and events a state (the core), which columns select
it, and how its record is rendered and parsed. One store serves all of them.

The record of a workflow is in the format of its recipe. Each format is a module with ``path``,
``render`` (state to document and rest) and ``parse`` (back). A new format is one entry of
``core.record_formats`` and one such module.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core import workflow as workflow_core
from holdfast.core.record_formats import FORMATS, format_of, spec_of
from holdfast.core.workflow.state import find_phase, is_floating, is_news, unread
from holdfast.formats import signature
from holdfast.formats.schema import Invalid
from holdfast.system.disk import is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

    from holdfast.core.refusal import Refusal
    from holdfast.core.types import Command, Draft, Event, Fields, Origin, Workflow

    State = Any
    Read = Callable[[], Iterable[Event]]
    """Reads a stream's events in order; called again for a second pass."""

__all__ = ["FORMATS", "format_of", "spec_of"]


_modules: dict[str, ModuleType] = {}


def module(name: str) -> ModuleType:
    """Return the module of a format; only those in use are imported."""
    if name not in _modules:
        _modules[name] = _IMPORTS[name]()
    return _modules[name]


def _import_verb() -> ModuleType:
    from holdfast.formats import verb

    return verb


def _import_formal() -> ModuleType:
    from holdfast.formats import formal

    return formal


def _import_skill() -> ModuleType:
    from holdfast.formats import skill

    return skill


def _import_loop() -> ModuleType:
    from holdfast.formats import loop

    return loop


_IMPORTS = {
    "verb": _import_verb,
    "formal": _import_formal,
    "skill": _import_skill,
    "loop": _import_loop,
}


def render(state: Workflow, ledger: str, seq: int, event_hash: str) -> bytes:
    """Return the bytes of a workflow's record."""
    document, rest = module(state["recipe"]["format"]).render(state)
    return signature.sign(document, rest, ledger, seq, event_hash)


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
    if "cycles_at" not in edited["recipe"]:
        return edited
    from holdfast.formats.document import next_cycle

    return next_cycle(base, edited)


def active_path(format_name: str, workflow_id: str, created_at: str) -> str:
    """Return the path of an active workflow's record from the worktree's root."""
    path: str = module(format_name).path(workflow_id, created_at)
    return path


def place(state: Workflow) -> str | None:
    """Return the path of the record from the worktree's root; ``None`` if there is none."""
    spec, status = spec_of(state), state["status"]
    if status in ("in_progress", "blocked"):
        return state["record"]
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
_UNFIT = (LookupError, TypeError, ValueError, AttributeError)
_NOWHERE: Origin = {"at": "", "path": "", "worktree": "", "recipe": lambda _: None}
_NEWS = (
    "learning_recorded", "interview_skipped", "delegation_overridden", "routing_corrected",
    "record_adopted", "record_edited",
)  # fmt: skip
"""Events of logs that change the project's memory file."""


def stream_of(kind: str) -> str:
    """Return the stream of a log."""
    return f"{_MARK}{kind}"


def is_log(stream: str) -> bool:
    return stream.startswith(_MARK) and stream[len(_MARK) :] in LOGS


def is_workflow(stream: str) -> bool:
    return not stream.startswith(_MARK)


def aggregate_of(stream: str) -> WorkflowAggregate | LogAggregate:
    """Return the aggregate that a stream belongs to."""
    return _WORKFLOWS if is_workflow(stream) else log_of(stream[len(_MARK) :])


def evolve(stream: str, state: State | None, event: Event) -> State:
    """Return the state of a stream after one more event."""
    return aggregate_of(stream).evolve(state, event)


class WorkflowAggregate:
    """Workflows, in any format."""

    kind = WORKFLOW

    def blank(self) -> State | None:
        return None

    def decide(self, state: State | None, command: Command) -> list[Draft] | Refusal:
        return workflow_core.decide(state, command)

    def evolve(self, state: State | None, event: Event) -> State:
        return workflow_core.evolve(state, event)

    def replay(self, read: Read) -> tuple[State | None, list[Event]]:
        """Return the state of a stream's events, and the events that do not fit."""
        from holdfast.formats import replay_check

        return replay_check.replay(read)

    def is_news(self, event: Event, state: State) -> bool:
        return is_news(event, state)

    def columns(self, state: State) -> Fields:
        """Return the columns that select and list a workflow."""
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
            "tasks_done": sum(task["status"] == "completed" for task in state["tasks"]),
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

    def place(self, state: State, _here: str) -> tuple[str, str] | None:
        """Return worktree and path of the state's record; ``None`` if it has no record."""
        path = place(state)
        return None if path is None else (state["worktree"], path)

    def render(self, state: State, ledger: str, seq: int, event_hash: str) -> bytes:
        return render(state, ledger, seq, event_hash)

    def rest(self, state: State) -> Fields:
        """Return the part of the state that the record's document does not have."""
        rest: Fields = module(state["recipe"]["format"]).render(state)[1]
        return rest

    def parse(
        self, record: signature.SignedRecord, rest: Fields | None, path: str, origin: Origin
    ) -> State:
        """Return the state of a record; raise ``Invalid`` if a field has no valid value."""
        return parse(format_of(path), record, rest, origin)


class LogAggregate:
    """An aggregate with one stream, and a record in every worktree."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.path = LOGS[kind]
        self._core: Any
        self._record: Any
        if kind == "initiatives":
            from holdfast.core import initiatives as core
            from holdfast.formats import initiatives as record

            self._core, self._record = core, record
        else:
            from holdfast.core import logs
            from holdfast.formats.logs import RECORDS

            self._core, self._record = logs.LOGS[kind], RECORDS[kind]

    def blank(self) -> State:
        return self._core.blank()

    def decide(self, state: State | None, command: Command) -> list[Draft] | Refusal:
        drafts: list[Draft] | Refusal = self._core.decide(state, command)
        return drafts

    def evolve(self, state: State | None, event: Event) -> State:
        return self._core.evolve(state, event)

    def replay(self, read: Read) -> tuple[State | None, list[Event]]:
        """Return the state of a stream's events, and the events that do not fit."""
        state, odd = self._replay(read(), is_careful=False)
        if state is not None and not self._is_sound(state):
            state, odd = self._replay(read(), is_careful=True)
        return state, odd

    def _replay(
        self, events: Iterable[Event], *, is_careful: bool
    ) -> tuple[State | None, list[Event]]:
        state: State | None = None
        odd = []
        for event in events:
            try:
                after = self._core.evolve(state, event)
            except _UNFIT:
                after = None
            if after is None or (is_careful and not self._is_sound(after)):
                odd.append(event)
            else:
                state = after
        return state, odd

    def _is_sound(self, state: State) -> bool:
        """Return whether a record can be rendered from the state and parsed again."""
        try:
            self._record.parse(*self._record.render(state), _NOWHERE)
        except (*_UNFIT, Invalid):
            return False
        return True

    def is_news(self, event: Event, _state: State) -> bool:
        return event["type"] in _NEWS

    def columns(self, _state: State) -> Fields:
        return {}

    def place(self, _state: State, here: str) -> tuple[str, str]:
        return here, self.path

    def render(self, state: State, ledger: str, seq: int, event_hash: str) -> bytes:
        document, rest = self._record.render(state)
        return signature.sign(document, rest, ledger, seq, event_hash)

    def rest(self, state: State) -> Fields:
        rest: Fields = self._record.render(state)[1]
        return rest

    def parse(
        self, record: signature.SignedRecord, rest: Fields | None, _path: str, origin: Origin
    ) -> State:
        kept = record.rest if rest is None else rest
        return self._record.parse(record.document, kept or {}, origin)


_WORKFLOWS = WorkflowAggregate()
_LOGS: dict[str, LogAggregate] = {}


def log_of(kind: str) -> LogAggregate:
    if kind not in _LOGS:
        _LOGS[kind] = LogAggregate(kind)
    return _LOGS[kind]
