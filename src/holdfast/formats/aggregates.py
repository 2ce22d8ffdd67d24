"""The kinds of aggregates: workflows, and the logs beside them.

An aggregate knows how commands become events and events a state (the core), which columns select
it, and how its record is rendered and parsed. One store serves all of them.
"""

from __future__ import annotations

from holdfast import formats
from holdfast.core import json_text
from holdfast.core import workflow as workflow_core
from holdfast.core.workflow.state import find_phase, is_floating, is_news, unread
from holdfast.formats import signature
from holdfast.formats.schema import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.core.refusal import Refusal
    from holdfast.core.types import Command, Draft, Event, Fields, Origin

    State = Any
    Read = Callable[[], Iterable[Event]]
    """Reads a stream's events in order; called again for a second pass."""

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
        path = formats.place(state)
        return None if path is None else (state["worktree"], path)

    def render(self, state: State, ledger: str, seq: int, event_hash: str) -> bytes:
        return formats.render(state, ledger, seq, event_hash)

    def rest(self, state: State) -> Fields:
        """Return the part of the state that the record's document does not have."""
        rest: Fields = formats.module(state["recipe"]["format"]).render(state)[1]
        return rest

    def parse(
        self, record: signature.SignedRecord, rest: Fields | None, path: str, origin: Origin
    ) -> State:
        """Return the state of a record; raise ``Invalid`` if a field has no valid value."""
        return formats.parse(formats.format_of(path), record, rest, origin)


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
