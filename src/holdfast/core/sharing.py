"""How the work of several replicas becomes one: what travels, and what it makes of a stream. Pure.

A *replica* is one ledger. Each command that it carries out on shared work becomes a shared event:
the command itself, its *cause*, without what only its machine knows (``cause_of``). Every replica
folds the shared events of a stream in the same order, by ``lamport``, then replica, then ``n``, and
so never by arrival or by a clock. Each cause is decided on the state so far. What is refused there
is a *conflict*: it is kept, shown, and settled by a person or an agent, who takes or drops it.

An ending (complete, abandon, expire) that did not know of another replica's work on the stream is a
conflict, too, so that a forgotten laptop does not end everybody's work. So is what was made under a
lease that had been lost.

The shared state has no sessions, folders and output; ``localised`` adds what a replica has of
these.
"""

from __future__ import annotations

from holdfast.core import diff
from holdfast.core.json_text import digest, dumps
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import note_in_history
from holdfast.core.workflow.questions import find_question

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    from holdfast.core.types import Cause, Change, Draft, Fields, Json, SharedEvent

    State = Any

    class Core(Protocol):
        """How a kind of stream decides its commands and applies its events."""

        kind: str
        blank: Callable[[], State]
        decide: Callable[..., list[Draft] | Refusal]
        evolve: Callable[..., State]


RULES = 1
"""The version of what commands decide and events do. It changes when any of that does."""
KNOWN_RULES = (1,)
OPEN, CHANGE, TAKE, DROP = "open_state", "change_state", "take_conflict", "drop_conflict"
"""Causes that are no commands of the core: a stream as it stood when it was first shared, changes
that were found rather than decided, and the two ends of a conflict."""
_ENDINGS = frozenset(("complete_workflow", "abandon_workflow", "expire_workflow", "archive_loop"))
_EXPIRE = "expire_workflow"
_SETTLING = frozenset((TAKE, DROP))
_LOCAL_EVENTS = frozenset(
    (
        "session_ended", "context_compacted", "briefing_delivered", "reading_confirmed",
        "loop_rebuilt", "record_cleaned", "workflow_archived",
    )
)  # fmt: skip
"""Events that concern only the machine on which they happen."""
_FOUND_EVENTS = frozenset(("record_adopted", "record_edited", "change_undone"))
"""Events whose cause is no request: a file that was found, or the history of one ledger."""
LOCAL_FIELDS = (
    "session", "worktree", "record", "archived_from", "cleaned_at", "notes_file", "read",
    "conflicts",
)  # fmt: skip
"""Fields of a workflow's state that every replica has for itself."""
_LOCAL_ARGS = frozenset(("session", "worktree", "record", "rebind", "new_context", "stated"))
_CALLERS = ("by", "answered_by")
"""Fields of questions, and arguments, that have a caller with its session."""
_OUTPUTS = ("output_tail", "last_error")
"""Fields that have the output of a command."""
_DIGEST_OF = {"output_tail": "output_digest"}
_WITH_OUTPUT = ("record_gate", "record_tests")
_SEEN = ("run", "check")
"""The kinds of evidence that a machine saw for itself (``core.workflow.needs``)."""
_OF_MACHINE = ("replica", "machine")
_COURSE = ("history", "history_earlier", "updated_at")
"""Fields that tell how a state came about."""
_KEYS = {
    "phases": "name", "tasks": "id", "violations": "code", "files": "path", "guardrails": "name",
    "reminders": "", "required_reading": "", "commits": "", "labels": "", "after": "",
    "questions": "text",
}  # fmt: skip
"""Lists whose entries several can change apart, each with the field that tells them apart."""
_TELLING = ("at", "description", "name", "code", "path", "text")
"""Fields that tell entries of lists apart, whatever numbers they have."""
_TASK_ARGS = ("task", "before", "after")
"""Arguments of commands that name a task by its number."""
_LEAVING = ("advance", "advance_to_branch")
"""Commands that leave the current phase, whichever it is."""
_SETTING = ("rename_workflow", "set_context", "unset_context", "change_brief")
"""Commands that replace values, whatever these were."""
_MEANT = "meant"
"""The argument of a cause that tells tasks by their texts, and the phase that it leaves. On other
machines, the same number may be another task's, and the phase may have been left."""
_ORDER = "\0order"
"""The key of a change in the order of such a list."""
_UNFIT = (LookupError, TypeError, ValueError, AttributeError)
_MAX_SHOWN = 60
_NAMING = ("task", "phase", "gate", "step", "text", "title", "name", "milestone")
"""Arguments that tell in a few words what a command is about."""


# What travels


def cause_of(
    kind: str, args: Fields, drafts: list[Draft], before: State, after: Callable[[], State], *,
    output: bool,
) -> tuple[str, Fields] | None:  # fmt: skip
    """Return type and arguments of a command as they travel; ``None`` if it stays here.

    ``before`` is the local state before it, ``after`` returns the one after it. ``output``: what
    gates print travels, too.
    """
    news = [draft for draft in drafts if not _is_local(draft)]
    if not news:
        return None
    if any(draft["type"] in _FOUND_EVENTS for draft in news):
        state = shared_state(after(), output=output)
        if not _is_open(before):
            return OPEN, {"state": state}
        changes = changes_between(shared_state(before, output=output), state)
        entry = {"entry": state["history"][-1]} if state.get("history") else {}
        return (
            (CHANGE, {"event": news[0]["type"], "changes": changes, **entry}) if changes else None
        )
    travelling = {name: value for name, value in args.items() if name not in _LOCAL_ARGS}
    if kind == "archive_loop":
        travelling["record"] = None
    travelling = _without_sessions(travelling)
    if kind in _WITH_OUTPUT and not output:
        travelling = without_output(travelling)
    meant = _meant(before, kind, args)
    return kind, {**travelling, _MEANT: meant} if meant else travelling


def _meant(state: State, kind: str, args: Fields) -> Fields:
    """Return the texts of what a command names by number, and the phase it leaves."""
    if not _is_open(state) or "tasks" not in state:
        return {}
    if "question" in args:
        question = find_question(state, args["question"])
        return {} if question is None else {"question": question["text"]}
    texts = {str(task["id"]): task["description"] for task in state["tasks"]}
    names = [name for name in _TASK_ARGS if str(args.get(name)) in texts]
    meant = {name: texts[str(args[name])] for name in names}
    if kind in _SETTING:
        meant["was"] = _replaced(state, args)
    return {**meant, "phase": state["phase"]} if kind in _LEAVING else meant


def _replaced(state: State, args: Fields) -> Fields:
    """Return the values that a command replaces, by their names; null for one that is not there."""
    names = [*args.get("values", ()), *args.get("keys", ())]
    values = {f"context.{name}": state["context"].get(name) for name in names}
    return {**values, "title": state["title"]} if args.get("title") else values


def _lost_value(state: State, args: Fields) -> Refusal | None:
    """Return the refusal of a command that would replace what another machine has set."""
    was: Fields = args.get(_MEANT, {}).get("was", {})
    if not was or state is None:
        return None
    new = {f"context.{name}": value for name, value in args.get("values", {}).items()}
    new["title"] = args.get("title")
    for name, value in _replaced(state, args).items():
        if value not in (was.get(name), new.get(name)):
            return Refusal("conflict", f"{name} was changed as well")
    return None


def _as_meant(state: State, cause: Cause, *, is_known: bool) -> Cause | Refusal:
    """Return a cause with the numbers that its tasks have in this state; a refusal if it has none.

    ``is_known``: whoever caused it knew this state, and so its numbers.
    """
    args = {name: value for name, value in cause["args"].items() if name != _MEANT}
    meant: Fields = cause["args"].get(_MEANT, {})
    for name, text in meant.items() if state is not None and not is_known else ():
        if name == "was":
            continue
        if name == "phase":
            if state["phase"] != text:
                return Refusal("conflict", f"{text} was left elsewhere")
            continue
        if name == "question":
            asked = [q["id"] for q in state.get("questions", ()) if q["text"] == text]
            if not asked:
                return Refusal("conflict", f"question {text!r} is not asked any more")
            args[name] = asked[-1]
            continue
        same = [task["id"] for task in state["tasks"] if task["description"] == text]
        if str(args[name]) not in map(str, same):
            if len(same) != 1:
                number = "several tasks are" if same else "no task is"
                return Refusal("conflict", f"task {args[name]} was {text!r}, and {number} that now")
            args[name] = same[0]
    return {**cause, "args": args}


def _is_local(draft: Draft) -> bool:
    if draft["type"] == "workflow_resumed":
        return not {"from", "branch"} & set(draft["data"])
    return draft["type"] in _LOCAL_EVENTS


def _is_open(state: State) -> bool:
    return state is not None and state.get("status") not in ("completed", "abandoned", "expired")


def shared_state(state: State, *, output: bool = False) -> State:
    """Return the part of a state that all replicas share."""
    if "recipe" not in state:
        return {key: value for key, value in state.items() if key != "conflicts"}
    after = {key: value for key, value in state.items() if key not in LOCAL_FIELDS}
    after |= {"session": None, "worktree": "", "record": "", "read": {}}
    if "questions" in state:
        after["questions"] = [_without_sessions(question) for question in state["questions"]]
    if not output:
        showing = {p["name"] for p in state["recipe"]["phases"] if p.get("shows_tests")}
        after["gates"] = without_output(state["gates"])
        after["tests"] = without_output(state["tests"])
        after["phases"] = [
            without_output(phase) if phase["name"] in showing else phase
            for phase in state["phases"]
        ]
    return after


def _without_sessions(fields: Fields) -> Fields:
    """Return a question, or arguments, without the sessions of those who asked and answered."""
    return {
        key: {name: value[name] for name in value if name != "session"}
        if key in _CALLERS and isinstance(value, dict)
        else value
        for key, value in fields.items()
    }


def without_output(value: Json) -> Json:
    """Return a value with the digest of each output in place of it."""
    if isinstance(value, list):
        return [without_output(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: without_output(item) for key, item in value.items() if key not in _OUTPUTS}
    for key, name in _DIGEST_OF.items():
        if value.get(key):
            kept[name] = digest(str(value[key]).encode(errors="replace"))
    return kept


def with_texts(value: Json, change: Callable[[str], str]) -> Json:
    """Return a value with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [with_texts(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): with_texts(item, change) for key, item in value.items()}
    return value


def is_ending(cause: Cause) -> bool:
    return cause["type"] in _ENDINGS


def in_words(kind: str, args: Fields) -> str:
    """Return a command in a few words: ``complete task 3``."""
    named = [args[key] for key in _NAMING if key in args]
    named += [", ".join(args[key]) for key in ("values", "keys") if key in args]
    words = [str(name)[:_MAX_SHOWN] for name in named[:1] if isinstance(name, str | int)]
    if kind == CHANGE:
        return str(args.get("event", kind)).replace("_", " ")
    reason = args.get("reason")
    if isinstance(reason, str) and reason:
        words.append(f"({reason[:_MAX_SHOWN]})")
    return " ".join([{OPEN: "share it"}.get(kind, kind).replace("_", " "), *words])


# Changes that were found


def changes_between(before: State, after: State) -> list[Change]:
    """Return the changes from one state to another; those of a list name its entries."""
    was, now = _keyed(before), _keyed(after)
    changes = [change for change in diff.diff(was, now) if change[0][0] not in _COURSE]
    for name in _KEYS:
        if isinstance(was.get(name), dict) and isinstance(now.get(name), dict):
            kept = [key for key in was[name] if key in now[name]]
            added = [key for key in now[name] if key not in was[name]]
            if [*kept, *added] != list(now[name]):
                changes.append([[name, _ORDER], list(was[name]), list(now[name])])
    return changes


def with_changes(state: State, changes: list[Change]) -> State | Refusal:
    """Return a state with changes; a refusal if somebody else has changed one of the values."""
    now = _keyed(state)
    for path, was, value in changes:
        if path[-1] in (_ORDER, diff.ADDED):
            continue
        current = _value_at(now, path)
        if current not in (was, value):
            return Refusal("conflict", f"{diff.path_text(path)} was changed as well")
    plain = [change for change in changes if change[0][-1] != _ORDER]
    after = diff.apply(now, plain)
    for path, _, order in changes:
        if path[-1] == _ORDER and isinstance(after.get(path[0]), dict):
            entries = after[path[0]]
            first = [key for key in order if key in entries]
            names = [*first, *[key for key in entries if key not in first]]
            after[path[0]] = {name: entries[name] for name in names}
    return _listed(after, state)


def _value_at(value: Json, path: list[Any]) -> Json:
    for key in path:
        is_entry = isinstance(value, dict) and key in value
        is_item = isinstance(value, list) and isinstance(key, int) and key < len(value)
        if not (is_entry or is_item):
            return diff.ABSENT
        value = value[key]
    return value


def _keyed(state: State) -> Fields:
    """Return the state with its lists as objects, so that a change names its entry."""
    keyed: Fields = {**state}
    for name, field in _KEYS.items():
        if not isinstance(keyed.get(name), list):
            continue
        entries: dict[str, object] = {}
        for entry in keyed[name]:
            key = own_key = str(entry.get(field)) if field else str(entry)
            while key in entries:
                key = f"{own_key}\0{len(entries)}"
            entries[key] = entry
        keyed[name] = entries
    return keyed


def _listed(keyed: Fields, before: State) -> State:
    """Return a keyed state with its lists again."""
    return {
        name: list(value.values())
        if name in _KEYS and isinstance(value, dict) and isinstance(before.get(name, []), list)
        else value
        for name, value in keyed.items()
    }


# The fold


class Fold:
    """The shared state of a stream after its shared events up to one of them."""

    __slots__ = ("conflicts", "endings", "last", "position", "renamed", "settled", "state", "work")

    def __init__(self, fields: Fields | None = None) -> None:
        known: Fields = fields or {}
        self.position: list[Any] = known.get("position", [0, "", 0])
        """``lamport``, ``replica`` and ``n`` of the last event."""
        self.state: State = known.get("state")
        self.conflicts: list[Fields] = known.get("conflicts", [])
        """Those that are not settled: ``id``, ``workflow``, ``command``, ``why``, ``from``, ``at``,
        and the ``cause``."""
        self.endings: list[list[Any]] = known.get("endings", [])
        """``replica``, ``n`` and ``seen`` of the endings that took place."""
        self.work: dict[str, int] = known.get("work", {})
        """The highest ``n`` of each replica, of events that are work."""
        self.last: dict[str, int] = known.get("last", {})
        """The highest ``n`` of each replica, of all events."""
        self.settled: dict[str, list[Any]] = known.get("settled", {})
        """By the id of a conflict: how it was settled, and the conflict."""
        self.renamed: list[str] = known.get("renamed", [])
        """The ids of the causes of renamed events. Copies of a ledger may each rename the same
        event; the first one counts."""

    def fields(self) -> Fields:
        """Return the fold as JSON stores it."""
        return {name: getattr(self, name) for name in self.__slots__}

    def shown(self) -> list[Fields]:
        """Return the conflicts without their causes."""
        return [
            {key: value for key, value in conflict.items() if key != "cause"}
            for conflict in self.conflicts
        ]

    def can_continue(self, events: Iterable[SharedEvent]) -> bool:
        """Return whether these events can be added at the end, instead of folding all again."""
        return all(
            position_of(event) > self.position and not self._upsets_an_ending(event)
            for event in events
        )

    def _upsets_an_ending(self, event: SharedEvent) -> bool:
        return _is_work(event) and any(
            are_concurrent(event, replica, n, seen) for replica, n, seen in self.endings
        )

    def digest(self) -> str:
        """Return a digest of the shared state and its conflicts; equal on all replicas."""
        return digest(dumps([self.state, self.shown()]).encode(errors="replace"))


def position_of(event: SharedEvent) -> list[Any]:
    """Return the place of an event in the order of its stream."""
    return [event["lamport"], event["replica"], event["n"]]


def are_concurrent(event: SharedEvent, replica: str, n: int, seen: dict[str, int]) -> bool:
    """Return whether an event and another one, of another replica, did not know of each other."""
    if event["replica"] == replica:
        return False
    return event["n"] > seen.get(event["replica"], 0) and n > event["seen"].get(replica, 0)


def _is_work(event: SharedEvent) -> bool:
    return not is_ending(event["cause"]) and event["cause"]["type"] not in _SETTLING


def fold(core: Core, events: list[SharedEvent], start: Fold | None = None) -> Fold:
    """Return the fold of a stream's events, or of ``start`` and the events after it.

    The events are in order.
    """
    result = Fold() if start is None else Fold(start.fields())
    later = [event for event in events if _is_work(event)]
    for event in events:
        _add(core, result, event, later)
    return result


def _add(core: Core, result: Fold, event: SharedEvent, later: list[SharedEvent]) -> None:
    cause, replica, n = event["cause"], event["replica"], event["n"]
    outcome: State | Refusal
    ends = _ends(result, cause)
    if event.get("renamed") and cause["id"] in result.renamed:
        outcome, ends = result.state, False
    elif event.get("fenced"):
        outcome = Refusal("conflict", "its lease had been lost by then")
    elif ends and _is_blind(result, event, later):
        outcome = Refusal("conflict", "made without knowing of work on another machine")
    else:
        outcome = _carry_out(core, result, event)
    if isinstance(outcome, Refusal):
        _note_conflict(result, event, outcome)
    else:
        result.state = outcome
        if ends:
            result.endings = [*result.endings, [replica, n, event["seen"]]]
    result.position = position_of(event)
    result.last = {**result.last, replica: n}
    if event.get("renamed"):
        result.renamed = [*result.renamed, cause["id"]]
    if _is_work(event):
        result.work = {**result.work, replica: n}


def _ends(result: Fold, cause: Cause) -> bool:
    """Return whether a cause ends a workflow, or takes a conflict that does."""
    if cause["type"] != TAKE:
        return is_ending(cause)
    conflict = find_conflict(result.conflicts, cause["args"].get("conflict"))
    return conflict is not None and _ends(result, conflict["cause"])


def _is_blind(result: Fold, event: SharedEvent, later: list[SharedEvent]) -> bool:
    """Return whether an event and another replica's work did not know of each other."""
    seen = event["seen"]
    if any(n > seen.get(name, 0) for name, n in result.work.items() if name != event["replica"]):
        return True
    return any(are_concurrent(other, event["replica"], event["n"], seen) for other in later)


def find_conflict(conflicts: list[Fields], own_id: object) -> Fields | None:
    return next((conflict for conflict in conflicts if conflict["id"] == own_id), None)


def can_take(core: Core, result: Fold, own_id: str, at: str) -> bool:
    """Return whether a conflict can be taken in this state, by whoever knows all its events."""
    args: Fields = {"conflict": own_id}
    cause: Cause = {"id": "", "at": at, "type": TAKE, "args": args, "by": {}}
    lamport, replica, n = result.position
    event: SharedEvent = {
        "replica": replica, "n": n + 1, "lamport": lamport + 1, "seen": result.last,
        "rules": RULES, "stream": "", "cause": cause,
    }  # fmt: skip
    return not isinstance(_carry_out(core, Fold(result.fields()), event), Refusal)


def is_taken(result: Fold, cause_id: str) -> bool:
    """Return whether a refused cause was carried out after all.

    Of two replicas, one may have dropped the conflict while the other one took it. That is asked
    again, under another id, and then may have been taken.
    """
    return any(
        how == TAKE and conflict["cause"]["id"] == cause_id
        for how, conflict in result.settled.values()
    )


def _note_conflict(result: Fold, event: SharedEvent, refusal: Refusal) -> None:
    """Add a conflict. What was to be taken, and cannot be, stays the conflict that it was."""
    cause = event["cause"]
    if cause["type"] == TAKE:
        own_id = cause["args"].get("conflict")
        open_one = find_conflict(result.conflicts, own_id)
        if open_one is not None:
            updated = {**open_one, "why": refusal.message}
            result.conflicts = [updated if one is open_one else one for one in result.conflicts]
            return
        if own_id in result.settled:
            settled = result.settled[own_id][1]
            if all(one["cause"]["id"] != settled["cause"]["id"] for one in result.conflicts):
                reopened = {**settled, "id": cause["id"], "why": refusal.message}
                result.conflicts = [*result.conflicts, reopened]
            return
    kinds = [conflict["cause"]["type"] for conflict in result.conflicts]
    if cause["type"] == _EXPIRE and _EXPIRE in kinds:
        return  # Several machines ask the same question; one answer is enough.
    result.conflicts = [*result.conflicts, _conflict(event, refusal)]


def _conflict(event: SharedEvent, refusal: Refusal) -> Fields:
    cause = event["cause"]
    return {
        "id": cause["id"],
        "workflow": event["stream"],
        "command": in_words(cause["type"], cause["args"]),
        "why": refusal.message,
        "from": str(cause["by"].get("name") or event["replica"]),
        "replica": event["replica"],
        "at": cause["at"],
        "cause": cause,
    }


def _carry_out(core: Core, result: Fold, event: SharedEvent) -> State | Refusal:
    """Return the state after an event; a refusal if it cannot be carried out on this state."""
    cause = event["cause"]
    try:
        if cause["type"] not in _SETTLING:
            is_known = _knows_all(result, event)
            lost = None if is_known else _lost_value(result.state, cause["args"])
            if lost is not None:
                return lost
            meant = _as_meant(result.state, cause, is_known=is_known)
            if isinstance(meant, Refusal):
                return meant
            return _after(core, result.state, event, meant, is_known=is_known)
        return _settled(core, result, event)
    except _UNFIT:
        return Refusal("invalid", "it makes no sense here")


def _settled(core: Core, result: Fold, event: SharedEvent) -> State | Refusal:
    """Return the state after a conflict is taken or dropped."""
    cause = event["cause"]
    kind, own_id = cause["type"], cause["args"]["conflict"]
    conflict = find_conflict(result.conflicts, own_id)
    if conflict is None:
        how, settled = result.settled[own_id]
        others = {TAKE: "taken", DROP: "dropped"}
        is_same = how == kind or (kind == TAKE and is_taken(result, settled["cause"]["id"]))
        return result.state if is_same else Refusal("already", f"it was {others[how]} elsewhere")
    after = result.state
    if kind == TAKE:
        taken: Any = {**conflict["cause"], "at": cause["at"]}
        if taken["type"] in _SETTLING:
            return Refusal("invalid", "it can only be dropped")
        meant = _as_meant(after, taken, is_known=False)
        if isinstance(meant, Refusal):
            return meant
        after = _after(core, after, event, meant, is_known=True)
    if not isinstance(after, Refusal):
        result.conflicts = [other for other in result.conflicts if other is not conflict]
        result.settled = {**result.settled, own_id: [kind, conflict]}
    return after


def _knows_all(result: Fold, event: SharedEvent) -> bool:
    """Return whether an event's replica knew all events of the stream that come before it."""
    seen = event["seen"]
    return all(n <= seen.get(name, 0) for name, n in result.last.items())


def _after(
    core: Core, state: State, event: SharedEvent, cause: Cause, *, is_known: bool
) -> State | Refusal:
    """Return the state after a cause; a refusal if it is refused.

    ``is_known``: whoever caused it knew this state, so that a state of a stream may replace it.
    """
    kind, args, at = cause["type"], cause["args"], cause["at"]
    if kind == OPEN:
        opened = _opened(core, state, args["state"], is_known=is_known)
        return opened if isinstance(opened, Refusal) else _marked({}, opened, event)
    if kind == CHANGE:
        begun = core.blank() if state is None else state
        after = with_changes(begun, args["changes"])
        if isinstance(after, Refusal):
            return after
        # It is work, so the time to live begins anew, as where it was done.
        touched: State = {**after, "updated_at": at} if "recipe" in after else after
        if "recipe" in after and "entry" in args:
            note_in_history(touched, {**args["entry"], "at": at})
        return _marked(state, touched, event)
    drafts = core.decide(state, {"type": kind, "at": at, "args": args})
    if isinstance(drafts, Refusal):
        return drafts
    after = state
    for draft in drafts:
        if not _is_local(draft):
            applied = {**draft, "at": at, "stream": event["stream"]}
            after = core.evolve(after, applied)
    return _marked(state or {}, after, event)


def _opened(core: Core, state: State, opened: State, *, is_known: bool) -> State | Refusal:
    """Return a stream that begins with a state, or the two joined if it has begun before."""
    if state is None or is_known or _same(state, opened):
        return opened
    if core.kind == "workflow":
        return Refusal("exists", "there is another workflow of that name")
    if core.kind == "initiatives":
        taken = [key for key in opened["all"] if state["all"].get(key, opened["all"][key])
                 != opened["all"][key]]  # fmt: skip
        if taken:
            return Refusal("exists", f"there is another initiative {', '.join(taken)}")
        return {**state, "all": {**state["all"], **opened["all"]}}
    joined = {**state}
    for name, entries in opened.items():
        if isinstance(entries, list) and isinstance(state.get(name), list):
            joined[name] = [*state[name], *[entry for entry in entries if entry not in state[name]]]
    return joined


def _same(state: State, other: State) -> bool:
    return all(state.get(key) == other.get(key) for key in {*state, *other} if key not in _COURSE)


def _marked(before: State, after: State, event: SharedEvent) -> State:
    """Return a state whose new evidence says on which machine it was seen."""
    if "gates" not in after:
        return after
    machine = {"replica": event["replica"], "machine": str(event["cause"]["by"].get("name", ""))}
    marked = dict(after)
    known = before.get("gates", {})
    marked["gates"] = {
        name: gate if gate == known.get(name) else _with_machine(gate, machine)
        for name, gate in after["gates"].items()
    }
    if after["tests"] != before.get("tests"):
        marked["tests"] = _with_machine(after["tests"], machine)
    return marked


def _with_machine(result: Fields, machine: Fields) -> Fields:
    is_seen = result.get("evidence") in _SEEN and "replica" not in result
    return {**result, **machine} if is_seen else result


# Back to one replica


def in_full(shared: Json, local: Json, redact: Callable[[str], str]) -> Json:
    """Return a shared value with the texts of ``local`` of which only the redacted ones travelled.

    Entries of lists may have moved and have other numbers, but those of one machine keep their
    order. Where another machine has added one that is the same when redacted, all stay redacted.
    """
    if isinstance(shared, str) and isinstance(local, str):
        return local if redact(local) == shared else shared
    if isinstance(shared, dict) and isinstance(local, dict):
        return {key: in_full(item, local.get(key), redact) for key, item in shared.items()}
    if not isinstance(shared, list) or not isinstance(local, list):
        return shared
    own: dict[str, list[Json]] = {}
    for item in local:
        own.setdefault(_identity_of(with_texts(item, redact)), []).append(item)
    names = [_identity_of(item) for item in shared]
    kept = {name: iter(items) for name, items in own.items() if names.count(name) <= len(items)}
    return [
        in_full(item, next(kept[name]), redact) if name in kept else item
        for name, item in zip(names, shared, strict=True)
    ]


def _identity_of(entry: Json) -> str:
    """Return what tells an entry of a list from others, on all machines."""
    if not isinstance(entry, dict):
        return dumps(entry)
    return dumps([entry.get(name) for name in _TELLING])


def localised(
    shared: State, local: State, replica: str, place: Fields, conflicts: list[Fields]
) -> State:
    """Return the shared state as a replica has it.

    ``local`` is its state so far; without one, ``place`` has the worktree and the record.
    """
    if "recipe" not in shared:
        return shared
    known: Fields = {} if local is None else local
    own = {name: known[name] for name in LOCAL_FIELDS if name in known}
    after = {**shared, **place, **own}
    if _is_open(shared):
        for name in ("archived_from", "cleaned_at"):
            after.pop(name, None)
    own_gates = known.get("gates", {})
    after["gates"] = {
        name: _own_result(gate, own_gates.get(name), replica)
        for name, gate in shared["gates"].items()
    }
    after["tests"] = _own_result(shared["tests"], known.get("tests"), replica)
    own_phases = {phase["name"]: phase for phase in known.get("phases", ())}
    after["phases"] = [
        own_phases[phase["name"]]
        if without_output(own_phases.get(phase["name"], {})) == phase
        else phase
        for phase in shared["phases"]
    ]
    if "questions" in shared:
        mine = {dumps(_without_sessions(q)): q for q in known.get("questions", ())}
        after["questions"] = [mine.get(dumps(q), q) for q in shared["questions"]]
    after.pop("conflicts", None)
    if conflicts:
        after["conflicts"] = conflicts
    return after


def _own_result(result: Fields, own: Fields | None, replica: str) -> Fields:
    """Return a result without its machine if that is this one, and with the output it has here."""
    if result.get("replica") != replica:
        return result
    plain = {key: value for key, value in result.items() if key not in _OF_MACHINE}
    return own if own is not None and without_output(own) == plain else plain
