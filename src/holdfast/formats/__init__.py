"""The kinds of aggregates (workflows and logs), and L1: one JSON file per workflow.

An aggregate knows how commands become events and events a state (the core), which columns select
it, and how its record is rendered and parsed. One store serves all of them.

A record ends in its signature, the ``_holdfast`` object. ``ledger``, ``seq`` and ``hash`` name the
event that it shows. ``rest`` is the state that the format cannot express. ``digest`` covers the
text of the record without the digest itself: an unchanged file is proven by its bytes. A file with
other bytes is laid out again to see whether its values changed, so another tool's formatting is not
an edit.

The record of a workflow is in the format of its recipe. Each format is a module with
``render`` (state to document and rest) and ``parse`` (back). A new format is one entry of
``core.record_formats``, one such module, and its import in ``module``.
"""

from __future__ import annotations

from holdfast.core import json_text, workflow
from holdfast.core.json_text import HEX_DIGITS, digest
from holdfast.core.next_step import current_task
from holdfast.core.record_formats import FORMATS, format_of, spec_of
from holdfast.core.time import epoch_ms, iso
from holdfast.core.workflow import find_phase, is_floating, is_news, unread
from holdfast.core.workflow.evidence import must_fail
from holdfast.core.workflow.needs import (
    CHECK,
    RUN,
    failing_tests,
    has_failed,
    is_passed,
    shows_failure,
    unmet,
    waived_gates,
)
from holdfast.core.workflow.tasks import MAX_TASKS
from holdfast.formats.schema import Invalid, is_safe
from holdfast.system.disk import FOLDER, MAX_RECORD_BYTES, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.core.refusal import Refusal
    from holdfast.core.types import Command, Draft, Event, Fields, Json, Origin, Workflow

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
"""Aggregates with one stream, and the path of their record. Every worktree has a copy of it."""
_MARK = "_"
"""The prefix of the streams of logs; no workflow's id has it."""
_NEWS = (
    "learning_recorded", "interview_skipped", "delegation_overridden", "routing_corrected",
    "record_adopted", "record_edited", "events_merged",
)  # fmt: skip
"""Events of logs that change the project's memory file."""
KEY = "_holdfast"
_MAX_GLANCE = 200
"""The number of characters of a text that a status line is given."""
MAX_ADOPTED_BYTES = MAX_RECORD_BYTES // 2
"""The largest record that is adopted. The rest of the limit is for the work that follows."""
_MAX_ADOPTED_DEPTH = json_text.MAX_DEPTH - 8
"""The deepest one. An initiative moves some levels down when another one takes its place."""
_NOT_FILES = {FOLDER: "a folder stands there", ODD: "a pipe, a socket or a device stands there"}
_DIGEST = b'"digest": "'
_DIGEST_END = b'",'
_IN_FILE_NAMES = str.maketrans("T", "_", "-:")
_UNFIT = (LookupError, TypeError, ValueError, AttributeError)
_TEXT_OR_NULL = (str, type(None))
_OWN_EVENTS = (
    "workflow_", "phase_", "step_", "task_", "reminder_", "reading_", "gate_", "record_", "change_",
    "pool_", "question_",
)  # fmt: skip
"""Prefixes of event types whose fields Holdfast alone defines."""
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("phase", "step", "description", "text", "path", "gate", "record"), str),
    **dict.fromkeys(("subject", "title", "worktree"), str),
    **dict.fromkeys(("reason", "commit", "outcome", "branch", "ttl"), _TEXT_OR_NULL),
    **dict.fromkeys(("recipe", "state", "fields", "context"), dict),
    **dict.fromkeys(("changes", "depends", "reminders", "required_reading", "unapproved"), list),
    **dict.fromkeys(("undoes", "keys", "labels", "after"), list),
    "task": (int, str),
    "question": int,
    "choices": list,
    "answer": str,
    "by": dict,
    "session": (dict, type(None)),
}


# Signed records


class SignedRecord:
    """A parsed record: its document, and what its signature claims."""

    __slots__ = ("document", "hash", "is_intact", "ledger", "rest", "seq", "version")

    def __init__(self, document: Fields, signature: object, *, is_intact: bool) -> None:
        claims = signature if isinstance(signature, dict) else {}
        ledger, seq = claims.get("ledger"), claims.get("seq")
        event_hash, rest = claims.get("hash"), claims.get("rest")
        self.document = document
        self.is_intact = is_intact
        """The values are those that were signed."""
        self.ledger = ledger if isinstance(ledger, str) else ""
        self.seq = seq if isinstance(seq, int) else 0
        self.hash = event_hash if isinstance(event_hash, str) else ""
        self.version = claims.get("v", 1)
        """Of the signature. No version of Holdfast has written another than the first so far."""
        self.rest: Fields | None = rest if isinstance(rest, dict) else None


def _refuse_newer_signature(record: SignedRecord) -> None:
    """Raise ``Invalid`` if a newer Holdfast signed the record."""
    if record.version != 1:
        raise Invalid([KEY, "v"], "must be 1: a newer Holdfast wrote it; install that one")


def sign(document: Fields, rest: Json, claims: Fields) -> bytes:
    """Return the bytes of a record. ``claims``: the ``ledger``, ``seq`` and ``hash`` it shows."""
    text = json_text.pretty(document)
    before = f'{text[:-2]},\n  "{KEY}": {json_text.line_of(claims)[:-1]}, '.encode()
    after = f'\n    "rest": {json_text.pretty(rest, "    ", levels=1)}}}\n}}\n'.encode()
    return before + _DIGEST + digest(before + after).encode() + _DIGEST_END + after


def parse_signed(raw: bytes) -> SignedRecord:
    """Return the record in these bytes; raise ``BadJson`` if they are not a JSON object."""
    if raw in _NOT_FILES:
        raise json_text.BadJson(_NOT_FILES[raw])
    if len(raw) > MAX_RECORD_BYTES:
        raise json_text.BadJson(f"it has more than {MAX_RECORD_BYTES} bytes")
    json_text.check_count(raw)
    # A valid digest does not prove that Holdfast wrote it. Lone surrogates, which Holdfast never
    # writes, are left to the strict parser.
    if b"\\ud" not in raw and b"\\uD" not in raw and is_record(raw, digest_in(raw)):
        document = json_text.loads(raw)
        if isinstance(document, dict) and isinstance(document.get(KEY), dict):
            return SignedRecord(document, document.pop(KEY), is_intact=True)
    document = json_text.loads(raw, strict=True)
    if not isinstance(document, dict):
        raise json_text.BadJson("it is not an object")
    is_intact = _has_same_values(document)
    return SignedRecord(document, document.pop(KEY, None), is_intact=is_intact)


def _has_same_values(document: Fields) -> bool:
    """Return whether the values are those that were signed, however they are formatted."""
    signature = document.get(KEY)
    if not isinstance(signature, dict) or "digest" not in signature:
        return False
    values = {key: value for key, value in document.items() if key != KEY}
    claims = {key: value for key, value in signature.items() if key not in ("digest", "rest")}
    try:
        signed = sign(values, signature.get("rest"), claims)
    except (UnicodeEncodeError, RecursionError):
        return False
    return bool(digest_in(signed) == signature["digest"])


def digest_in(raw: bytes) -> str:
    """Return the digest that a record claims; empty if it has none."""
    _, mark, claimed = raw.rpartition(_DIGEST)
    return claimed[:HEX_DIGITS].decode(errors="replace") if mark else ""


def is_record(raw: bytes, record_digest: str) -> bool:
    """Return whether these are the bytes that ``sign`` made with this digest."""
    before, _, claimed = raw.rpartition(_DIGEST)
    ending = record_digest.encode(errors="replace") + _DIGEST_END
    return claimed.startswith(ending) and digest(before + claimed[len(ending) :]) == record_digest


def is_own(raw: bytes, ledger: str) -> bool:
    """Return whether the bytes are an unedited record of this ledger."""
    try:
        record = parse_signed(raw)
    except json_text.BadJson:
        return False
    return record.is_intact and record.ledger == ledger


# Records of workflows


def module(name: str) -> Any:
    """Return the module of a format. Only modules in use are imported."""
    format_module: Any
    if name == "verb":
        from holdfast.formats import verb as format_module
    elif name == "formal":
        from holdfast.formats import formal as format_module
    elif name == "skill":
        from holdfast.formats import skill as format_module
    elif name == "loop":
        from holdfast.formats import loop as format_module
    else:
        raise LookupError(f"{name!r} is not a format")
    return format_module


def parse(name: str, record: SignedRecord, rest: Fields | None, origin: Origin) -> Workflow:
    """Return the state of a record; raise ``Invalid`` if a field has no valid value.

    ``rest`` replaces the record's own ``rest``.
    """
    leftover = record.rest if rest is None else rest
    parsed: Workflow = module(name).parse(record.document, leftover or {}, origin)
    return parsed


def check_edit(base: Workflow, edited: Workflow) -> None:
    """Raise ``Invalid`` if an edit changes what only a command may change."""
    if base["recipe"]["format"] == edited["recipe"]["format"] == "loop":
        module("loop").check_edit(base, edited)


def active_path(format_name: str, workflow_id: str, created_at: str) -> str:
    """Return the path of an active workflow's record from the worktree's root."""
    start = iso(epoch_ms(created_at) or 0)[:19].translate(_IN_FILE_NAMES)
    path, *others = FORMATS[format_name].active.split("*")
    for name, part in zip((workflow_id, f"{workflow_id}-{start}"), others, strict=False):
        path += name + part
    return path


def record_path(state: Workflow) -> str | None:
    """Return the record's path from the worktree's root; ``None`` if the state has no record."""
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


# Aggregates


class Aggregate:
    """A kind of stream: how its events make a state, and the state a record."""

    kind: str
    blank: Callable[[], State]
    decide: Callable[[State | None, Command], list[Draft] | Refusal]
    evolve: Callable[[State | None, Event], State]
    is_news: Callable[[Event, State], bool]
    """Return whether the project's memory should know of an event."""

    def record_format(self, state: State) -> Any:
        """Return the module or object that renders this state and parses it back."""
        raise NotImplementedError

    def parse(self, record: SignedRecord, rest: Fields | None, path: str, origin: Origin) -> State:
        """Return the state of a record; raise ``Invalid`` if a field has no valid value."""
        raise NotImplementedError

    def record_address(self, state: State, here: str) -> tuple[str, str] | None:
        """Return worktree and path of the state's record; ``None`` if it has no record."""
        raise NotImplementedError

    def columns(self, _state: State) -> Fields:
        """Return the columns that select and list the aggregate."""
        return {}

    def glance(self, _state: State) -> str:
        """Return what a status line shows of the aggregate; empty if it shows nothing."""
        return ""

    def render(self, state: State, ledger: str, seq: int, event_hash: str) -> bytes:
        """Return the bytes of the record."""
        document, rest = self.record_format(state).render(state)
        claims = {"ledger": ledger, "seq": seq, "hash": event_hash}
        return sign(document, rest, claims)

    def document(self, state: State) -> Fields:
        """Return the record's document, without what it cannot express."""
        document: Fields = self.record_format(state).render(state)[0]
        return document

    def rest(self, state: State) -> Fields:
        """Return the part of the state that the record's document does not have."""
        rest: Fields = self.record_format(state).render(state)[1]
        return rest

    def replay(self, read: Read) -> tuple[State | None, list[Event]]:
        """Return the state of a stream's events, and the events that do not fit.

        An event with a valid hash may still have content that Holdfast never wrote. An event that
        leads to a state which the format's parser refuses is left out.
        """
        state, unfit = _replay(self, read(), is_careful=False)
        if state is not None and flaw(self, state) is not None:
            state, unfit = _replay(self, read(), is_careful=True)
        return state, unfit

    def gives(self, events: Iterable[Event], state: State) -> bool:
        """Return whether events, each of which fits, lead to this state.

        It is not tried whether a record can be made of the state.
        """
        replayed, unfit = _replay(self, events, is_careful=False)
        return not unfit and replayed == state


def _replay(
    aggregate: Aggregate, events: Iterable[Event], *, is_careful: bool
) -> tuple[State | None, list[Event]]:
    state: State | None = None
    unfit = []
    for event in events:
        try:
            after = aggregate.evolve(state, event) if _has_valid_fields(aggregate, event) else None
        except _UNFIT:
            after = None
        if after is None or (is_careful and flaw(aggregate, after) is not None):
            unfit.append(event)
        else:
            state = after
    return state, unfit


def _has_valid_fields(aggregate: Aggregate, event: Event) -> bool:
    """Return whether the fields of an event have the types that their names have in workflows."""
    if aggregate.kind != WORKFLOW or not event["type"].startswith(_OWN_EVENTS):
        return True
    return all(isinstance(event["data"][k], _KINDS[k]) for k in event["data"] if k in _KINDS)


def outgrown_limit(aggregate: Aggregate, state: State) -> str | None:
    """Return the limit that a state from outside would exceed when its record is read back.

    Return ``None`` if it can be stored, rendered and read again, with room for the work to come.
    """
    try:
        raw = aggregate.render(state, "", 0, "")
        json_text.loads(
            raw, strict=True, depth=_MAX_ADOPTED_DEPTH, values=json_text.MAX_VALUES // 2
        )
    except json_text.BadJson as bad:
        return bad.why
    except (RecursionError, UnicodeEncodeError):
        return json_text.TOO_DEEP
    if len(raw) > MAX_ADOPTED_BYTES:
        return f"it has more than {MAX_ADOPTED_BYTES:,} bytes as a record"
    if aggregate.kind == WORKFLOW and len(state["tasks"]) > MAX_TASKS:
        return f"it has more than {MAX_TASKS:,} tasks"
    return None


def flaw(aggregate: Aggregate, state: State) -> str | None:
    """Return why no record can be rendered from a state and parsed again; ``None`` if it can."""
    origin: Origin = {"at": "", "path": "", "worktree": "", "recipe": lambda _: None}
    try:
        if aggregate.kind == WORKFLOW:
            paths = (state["record"], state["worktree"])
            if not is_safe(state["id"]) or not all(isinstance(path, str) for path in paths):
                return "it has no name, or no place"
            if state["recipe"]["format"] not in FORMATS:
                return f"{state['recipe']['format']!r:.40} is not a format"
            origin |= {"at": state["created_at"], "path": paths[0], "worktree": paths[1]}
        record_format = aggregate.record_format(state)
        document, rest = record_format.render(state)
        record_format.parse(document, rest, origin)
        json_text.pretty({"document": document, "rest": rest})
    except Invalid as invalid:
        return str(invalid)
    except _UNFIT:
        return "its fields are missing or not of their kind"
    return None


class WorkflowAggregate(Aggregate):
    """Workflows, in any format."""

    kind = WORKFLOW
    blank = staticmethod(lambda: None)
    decide = staticmethod(workflow.decide)
    evolve = staticmethod(workflow.evolve)
    is_news = staticmethod(is_news)

    def record_format(self, state: State) -> Any:
        return module(state["recipe"]["format"])

    def parse(self, record: SignedRecord, rest: Fields | None, path: str, origin: Origin) -> State:
        _refuse_newer_signature(record)
        return parse(format_of(path), record, rest, origin)

    def record_address(self, state: State, _here: str) -> tuple[str, str] | None:
        path = record_path(state)
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

    def glance(self, state: State) -> str:
        """Return what a status line shows besides the columns, as JSON; empty after the end.

        It is stored with each change, because a status line has no time to work it out.
        """
        try:
            return json_text.dumps(_glance(state)) if workflow.is_active(state) else ""
        except _UNFIT:
            return ""  # An imported event has given the state fields of other kinds.


def _glance(state: Workflow) -> Fields:
    gates, tests = state["gates"], state["tests"]
    task, phase = current_task(state), find_phase(state, state["phase"])
    shown: Fields = {}
    if task is not None:
        number, text = state["tasks"].index(task) + 1, task["description"][:_MAX_GLANCE]
        shown["task"] = [number, text, task["status"]]
    if shows_failure(tests):
        shown["failing"] = len(failing_tests(tests))
        shown["is_red_asked"] = must_fail(state)
    if gates:
        waived = waived_gates(state)
        passed = [name for name in gates if name not in waived and is_passed(state, name)]
        claimed = [name for name in passed if gates[name].get("evidence") not in (RUN, CHECK)]
        failed = [name for name in gates if has_failed(gates[name])]
        shown["gates"] = [len(passed), len(claimed), len(waived), len(gates)]
        shown["failed"] = [name[:_MAX_GLANCE] for name in failed if name not in waived]
    if "approval" in unmet(state):
        shown["approval"] = True
    if questions := [each for each in state.get("questions", ()) if each["status"] == "open"]:
        shown["questions"] = len(questions)
    if conflicts := state.get("conflicts"):
        shown["conflicts"] = len(conflicts)
    if phase is not None and phase["status"] == "blocked":
        shown["blocked"] = str(phase.get("reason") or "")[:_MAX_GLANCE]
    return shown


class LogAggregate(Aggregate):
    """An aggregate with one stream, and a record in every worktree."""

    is_news = staticmethod(lambda event, _state: event["type"] in _NEWS)

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

    def parse(self, record: SignedRecord, rest: Fields | None, _path: str, origin: Origin) -> State:
        _refuse_newer_signature(record)
        leftover = record.rest if rest is None else rest
        return self._format.parse(record.document, leftover or {}, origin)

    def record_address(self, _state: State, here: str) -> tuple[str, str]:
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


def evolve_of(stream: str) -> Callable[[State | None, Event], State]:
    """Return the function that applies an event to the state of a stream."""
    return aggregate_of(stream).evolve
