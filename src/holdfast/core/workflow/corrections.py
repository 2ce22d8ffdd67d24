"""Corrections of what was recorded: tasks, notes, the title; and ``undo`` of a whole change.

A correction is an event of its own, and the events that it corrects stay. To undo a change is to
record the difference back to the state before it. Evidence cannot be undone: a run that failed has
happened, and only another run can show something else.
"""

from __future__ import annotations

from holdfast.core import diff
from holdfast.core.refusal import Refusal, bad_text, bad_values, first_bad_text, shell_word
from holdfast.core.workflow import (
    decides,
    evolve,
    evolves,
    find_phase,
    find_task,
    is_active,
    no_such_entry,
    unit_mark,
    with_task,
)
from holdfast.core.workflow.edits import with_claims
from holdfast.core.workflow.needs import CLAIM
from holdfast.core.workflow.tasks import MAX_SHOWN, commits_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Change, Draft, Event, Fields, Task, Workflow
    from holdfast.core.workflow import Decision

_KEPT = ("history", "history_earlier", "updated_at", "session", "read")
"""Fields that no undo changes: what happened, who works on it, and what their context has."""
_UNDONE_IN_LOOPS = (
    "workflow_completed", "workflow_abandoned", "workflow_renamed", "reminder_added",
    "reminder_removed", "reading_required", "reading_removed", "context_set", "context_unset",
    "files_recorded", "workflow_resumed", "pool_changed", "question_asked", "question_answered",
    "question_withdrawn",
)  # fmt: skip
"""Changes of a loop that its pages and its log do not show."""
_LISTS = {"tasks": "id", "violations": "code", "files": "path", "reminders": "",
          "required_reading": "", "questions": "id"}  # fmt: skip
"""Lists whose entries two callers can change apart, each with the field that tells them apart."""
_NAMED_LISTS = {"reminders": "reminder", "required_reading": "reading", "labels": "label",
                "after": "what comes before"}  # fmt: skip
"""Lists of texts, and what one of them is called."""
_ORDER = "\0order"
"""The key of a change in the order of such a list."""
_UNFIT = (LookupError, TypeError, ValueError, AttributeError)


def _own_way(state: Workflow, tried: str, task: Task, hint: str) -> Refusal | None:
    """Return the refusal of a command about a task if it is a loop's unit."""
    if state["recipe"]["format"] != "loop":
        return None
    why = f"task {tried}: {task['id']} of {state['id']} is a loop's unit, which `loop` changes"
    return Refusal("wrong_order", why, f"holdfast loop {hint}")


def _plan_line(state: Workflow, unit: str) -> str:
    return f"plan {shell_word(state['subject'])} --unit {shell_word(unit)}"


@decides("edit_task", "task edit")
def edit_task(state: Workflow, task: Task, args: Fields) -> Decision:
    """Change the text of a task."""
    text = args["description"]
    if refusal := _own_way(state, "edit", task, _plan_line(state, f"{task['id']}: TITLE")):
        return refusal
    if refusal := bad_text("task", text):
        return refusal
    if text == task["description"]:
        why = f"task edit: {task['id']} of {state['id']} has that text"
        return Refusal("already", why, f"holdfast show {state['id']}")
    return [{"type": "task_edited", "data": {"task": task["id"], "description": text}}]


@evolves("task_edited")
def _edited(state: Workflow, data: Fields, _at: str) -> Workflow:
    return with_task(state, data["task"], {"description": data["description"]})


@decides("remove_task", "task remove")
def remove_task(state: Workflow, task: Task, _args: Fields) -> Decision:
    """Remove a task that no other one depends on."""
    number = shell_word(task["id"])
    if refusal := _own_way(state, "remove", task, f"block {number} --reason TEXT"):
        return refusal
    waiting = [
        str(other["id"])
        for other in state["tasks"]
        if str(task["id"]) in map(str, other.get("depends", []))
    ]
    if waiting:
        why = f"task remove: {task['id']} of {state['id']} is what {', '.join(waiting)} depends on"
        return Refusal("wrong_order", why, f"holdfast task remove {shell_word(waiting[0])}")
    data: Fields = {"task": task["id"], "description": task["description"]}
    if task["status"] != "completed":
        data["unfinished"] = True
    return [{"type": "task_removed", "data": data}]


@evolves("task_removed")
def _removed(state: Workflow, data: Fields, _at: str) -> Workflow:
    own_id = str(data["task"])
    others = [task for task in state["tasks"] if str(task["id"]) != own_id]
    after: Workflow = {**state, "tasks": others}
    if str(state.get("current_task")) == own_id:
        after["current_task"] = None
    if own_id.isdecimal() and int(own_id) > state.get("last_task", 0):
        after["last_task"] = int(own_id)
    if data.get("unfinished"):
        after["removed_tasks"] = [*state.get("removed_tasks", []), own_id]
    return after


@decides("reopen_task", "task reopen")
def reopen_task(state: Workflow, task: Task, _args: Fields) -> Decision:
    """Make a completed task pending again."""
    new_unit = f"{unit_mark(state['recipe'])}N: TITLE"
    if refusal := _own_way(state, "reopen", task, _plan_line(state, new_unit)):
        return refusal
    if task["status"] != "completed":
        number, status = shell_word(task["id"]), task["status"].replace("_", " ")
        following = {"pending": f"task start {number}", "blocked": f"task unblock {number}"}
        why = f"task reopen: {task['id']} of {state['id']} is {status}, not done"
        hint = following.get(task["status"], f"show {state['id']}")
        return Refusal("already", why, f"holdfast {hint}")
    data: Fields = {"task": task["id"]}
    if task.get("commit"):
        data["commit"] = task["commit"]
    return [{"type": "task_reopened", "data": data}]


@evolves("task_reopened")
def _reopened(state: Workflow, data: Fields, _at: str) -> Workflow:
    cleared = dict.fromkeys(("started_at", "completed_at", "commit", "commits", "phases"))
    return with_task(state, data["task"], {**cleared, "status": "pending"})


@decides("move_task", "task move")
def move_task(state: Workflow, task: Task, args: Fields) -> Decision:
    """Move a task before or after another one, or to a position counted from 1."""
    if refusal := _own_way(
        state, "move", task, f"{_plan_line(state, str(task['id']))} --depends UNIT"
    ):
        return refusal
    number = shell_word(task["id"])
    places = [name for name in ("before", "after", "to") if args.get(name) is not None]
    if len(places) != 1:
        why = f"task move: {task['id']} of {state['id']} needs one of --before, --after and --to"
        return Refusal("invalid", why, f"holdfast task move {number} --before M")
    others = [str(other["id"]) for other in state["tasks"] if other is not task]
    position = args.get("to")
    if position is None:
        anchor = args[places[0]]
        if find_task(state, anchor) is None:
            return no_such_entry(state, "task move", anchor)
        if str(anchor) == str(task["id"]):
            why = f"task move: {task['id']} of {state['id']} cannot go {places[0]} itself"
            return Refusal("invalid", why, f"holdfast task move {number} --{places[0]} M")
        position = others.index(str(anchor)) + (1 if places[0] == "before" else 2)
    elif not 1 <= position <= len(state["tasks"]):
        why = f"task move: {state['id']} has {len(state['tasks'])} tasks, so no position {position}"
        return Refusal("invalid", why, f"holdfast task move {number} --to {len(state['tasks'])}")
    if state["tasks"][position - 1] is task:
        why = f"task move: {task['id']} of {state['id']} is there already"
        return Refusal("already", why, f"holdfast show {state['id']}")
    return [{"type": "task_moved", "data": {"task": task["id"], "to": position}}]


@evolves("task_moved")
def _moved(state: Workflow, data: Fields, _at: str) -> Workflow:
    own_id, index = str(data["task"]), data["to"] - 1
    others = [task for task in state["tasks"] if str(task["id"]) != own_id]
    moved = [task for task in state["tasks"] if str(task["id"]) == own_id]
    return {**state, "tasks": [*others[:index], *moved, *others[index:]]}


@decides("unblock_task", "task unblock")
def unblock_task(state: Workflow, task: Task, _args: Fields) -> Decision:
    """Let a blocked task go on where it stood."""
    number = shell_word(task["id"])
    if refusal := _own_way(state, "unblock", task, f"unblock {number}"):
        return refusal
    if task["status"] != "blocked":
        status = task["status"].replace("_", " ")
        why = f"task unblock: {task['id']} of {state['id']} is {status}, not blocked"
        hint = f"task start {number}" if status == "pending" else f"show {state['id']}"
        return Refusal("not_blocked", why, f"holdfast {hint}")
    return [{"type": "task_unblocked", "data": {"task": task["id"]}}]


# Notes and the title


@decides("remove_reminder")
def remove_reminder(state: Workflow, args: Fields) -> Decision:
    """Remove a reminder by its number, counted from 1, or by its text."""
    reminder, reminders = args["reminder"], state["reminders"]
    number = reminder
    if not isinstance(reminder, int):
        number = reminders.index(reminder) + 1 if reminder in reminders else 0
    if not 1 <= number <= len(reminders):
        has = f"reminders 1 to {len(reminders)}" if reminders else "none"
        why = f"remind: {state['id']} has no reminder {str(reminder)[:40]!r}; it has {has}"
        return Refusal("not_found", why, f"holdfast show {state['id']}")
    data = {"number": number, "text": reminders[number - 1]}
    return [{"type": "reminder_removed", "data": data}]


@evolves("reminder_removed")
def _reminder_removed(state: Workflow, data: Fields, _at: str) -> Workflow:
    index, reminders = data["number"] - 1, state["reminders"]
    return {**state, "reminders": [*reminders[:index], *reminders[index + 1 :]]}


@decides("remove_reading")
def remove_reading(state: Workflow, args: Fields) -> Decision:
    """Remove a file from the required reading."""
    path = args["path"]
    if path not in state["required_reading"]:
        has = ", ".join(state["required_reading"]) or "nothing"
        why = f"read: {state['id']} does not require {path[:80]!r}; it requires {has}"
        return Refusal("not_found", why, f"holdfast show {state['id']}")
    return [{"type": "reading_removed", "data": {"path": path}}]


@evolves("reading_removed")
def _reading_removed(state: Workflow, data: Fields, _at: str) -> Workflow:
    path = data["path"]
    reading = [other for other in state["required_reading"] if other != path]
    read = {other: at for other, at in state["read"].items() if other != path}
    return {**state, "required_reading": reading, "read": read}


@decides("unset_context")
def unset_context(state: Workflow, args: Fields) -> Decision:
    """Remove fields of the context."""
    keys, context = list(dict.fromkeys(args["keys"])), state["context"]
    unknown = [key for key in keys if key not in context]
    if unknown or not keys:
        has = ", ".join(context) or "nothing"
        name = f"no {unknown[0][:40]!r}" if unknown else "to be told which"
        why = f"unset: the context of {state['id']} has {name}; it has {has}"
        return Refusal("not_found" if unknown else "invalid", why, f"holdfast show {state['id']}")
    return [{"type": "context_unset", "data": {"keys": keys}}]


@evolves("context_unset")
def _context_unset(state: Workflow, data: Fields, _at: str) -> Workflow:
    context = {key: value for key, value in state["context"].items() if key not in data["keys"]}
    return {**state, "context": context}


@decides("rename_workflow")
def rename_workflow(state: Workflow, args: Fields) -> Decision:
    """Change the title."""
    title = args["title"]
    if refusal := bad_text("title", title):
        return refusal
    if title == state["title"]:
        why = f"rename: {state['id']} has that title"
        return Refusal("already", why, f"holdfast show {state['id']}")
    return [{"type": "workflow_renamed", "data": {"title": title}}]


@decides("change_brief")
def change_brief(state: Workflow, args: Fields) -> Decision:
    """Change what a loop is about: its title and fields of its context; an empty one goes."""
    title, context = args.get("title") or state["title"], state["context"]
    values = {key: value for key, value in args["values"].items() if value != context.get(key)}
    refusal = bad_text("title", title) or bad_values(values)
    refusal = refusal or first_bad_text(
        **{key: value for key, value in values.items() if isinstance(value, list)}
    )
    if refusal is not None:
        return refusal
    drafts: list[Draft] = []
    if title != state["title"]:
        drafts.append({"type": "workflow_renamed", "data": {"title": title}})
    kept = {key: value for key, value in values.items() if value}
    if kept:
        drafts.append({"type": "context_set", "data": {"values": kept}})
    gone = [key for key, value in values.items() if not value and key in context]
    if gone:
        drafts.append({"type": "context_unset", "data": {"keys": gone}})
    why = f"loop brief: {state['id']} is about that already"
    return drafts or Refusal("already", why, f"holdfast loop brief {shell_word(state['subject'])}")


@evolves("workflow_renamed")
def _renamed(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "title": data["title"]}


# Undo


@decides("undo_change", after_end=True)
def undo_change(state: Workflow, args: Fields) -> Decision:
    """Undo a request: the state ``before`` it, its ``events``, and the ``later`` ones come in."""
    events: list[Event] = args["events"]
    if not events:
        why = f"undo: {state['id']} has no change of yours that could be undone"
        return Refusal("not_found", why, f"holdfast log {state['id']}")
    what = ", ".join(filter(None, map(describe_event, events)))
    for event in events:
        if refusal := _lasting(state, event, what):
            return refusal
    before: Workflow = args["before"]
    after = before
    for event in events:
        after = _evolved(after, event)
    if not is_active(state) and is_active(after):
        why = f"undo: {state['id']} has ended since ({state['status']})"
        return Refusal("ended", why, f"holdfast resume {state['id']}")
    back = _changes(after, before)
    if diff.conflicts(_changes(after, state), back):
        return _touched_since(state, after, back, args["later"], what)
    restored = _with_changes(state, before, back)
    if is_active(restored) and not is_active(state):
        for name in ("cleaned_at", "archived_from"):
            restored.pop(name, None)  # type: ignore[misc]
    restored = _with_less_evidence(state, restored)
    changes = diff.diff(state, restored)  # type: ignore[arg-type]
    if not changes:
        why = f"undo: nothing is left of your last change of {state['id']} ({what})"
        return Refusal("already", why, f"holdfast log {state['id']}")
    seqs = [event["seq"] for event in events]
    data = {"undoes": seqs, "what": what, "back": _given_back(state, restored), "changes": changes}
    return [{"type": "change_undone", "data": data}]


@evolves("change_undone")
def _undone(state: Workflow, data: Fields, _at: str) -> Workflow:
    return diff.apply(state, data["changes"])  # type: ignore[arg-type, return-value]


def _with_less_evidence(state: Workflow, restored: Workflow) -> Workflow:
    """Return a restored state in which runs that passed, and are not in ``state``, are claims.

    An earlier state may have come by an import, and files may have changed since.
    """
    claimed = with_claims(state, restored)
    gates = {
        name: gate if gate.get("passed") is False else claimed["gates"][name]
        for name, gate in restored["gates"].items()
    }
    has_failed = restored["tests"].get("last_result") == "failed"
    tests = restored["tests"] if has_failed else claimed["tests"]
    return {**restored, "gates": gates, "tests": tests}


def _evolved(state: Workflow, event: Event) -> Workflow:
    """Return the state after an event; the same state if an import brought one that is unfit."""
    try:
        return evolve(state, event)
    except _UNFIT:
        return state


def _keyed(state: Workflow) -> Fields:
    """Return the state with its lists as objects, so that a change names its entry."""
    keyed: Fields = {**state}
    for name, field in _LISTS.items():
        entries: dict[str, object] = {}
        for entry in keyed.get(name, ()):
            key = own_key = str(entry.get(field)) if field else entry
            while key in entries:
                key = f"{own_key}\0{len(entries)}"
            entries[key] = entry
        keyed[name] = entries
    return keyed


def _changes(old: Workflow, new: Workflow) -> list[Change]:
    """Return the changes from one state to another, those in lists by entry and in the order."""
    was, now = _keyed(old), _keyed(new)
    changes = [change for change in diff.diff(was, now) if change[0][0] not in _KEPT]
    for name in _LISTS:
        orders = [[key for key in was[name] if key in now[name]],
                  [key for key in now[name] if key in was[name]]]  # fmt: skip
        if orders[0] != orders[1]:
            changes.append([[name, _ORDER], *orders])
    return changes


def _with_changes(state: Workflow, before: Workflow, back: list[Change]) -> Workflow:
    """Return the state with the changes back; an entry returns to its place in ``before``."""
    moved = [path[0] for path, _, _ in back if path[-1] == _ORDER]
    now, was = _keyed(state), _keyed(before)
    restored = diff.apply(now, [change for change in back if change[0][-1] != _ORDER])
    for name in _LISTS:
        entries = restored[name]
        if not entries and name not in before:
            del restored[name]  # An old workflow has no list of questions.
            continue
        if entries is now[name] and name not in moved:
            restored[name] = state[name]  # type: ignore[literal-required]
            continue
        order = [key for key in now[name] if key in entries]
        if name in moved:
            own_order = [key for key in was[name] if key in entries]
            order = [*own_order, *[key for key in order if key not in was[name]]]
        index = 0
        for key in was[name]:
            if key in order:
                index = order.index(key) + 1
            elif key in entries:
                order.insert(index, key)
                index += 1
        restored[name] = [entries[key] for key in order]
    return restored  # type: ignore[return-value]


def _lasting(state: Workflow, event: Event, what: str) -> Refusal | None:
    """Return the refusal if an event cannot be undone, with the command to run instead."""
    event_type, data = event["type"], event["data"]
    if event_type == "workflow_started":
        return _not_undone(f"the start of {state['id']} cannot be undone", "holdfast abandon")
    if event_type == "workflow_resumed" and "from" in data:
        was_completed = data.get("from") == "completed"
        hint = f"holdfast show {state['id']}" if was_completed else "holdfast abandon"
        return _not_undone(f"your last change of {state['id']} was to resume it", hint)
    if event_type == diff.MERGED:
        return _not_undone("a conflict stays settled", f"holdfast log {state['id']}")
    if event_type == "workflow_archived":
        return _not_undone(f"{state['id']} is in the archive", f"holdfast resume {state['id']}")
    if event_type == "gate_recorded" and data.get("evidence", CLAIM) != CLAIM:
        name = data["gate"]
        command = data["fields"].get("command")
        is_declared = "command" in state["recipe"].get("gates", {}).get(name, {})
        words = "" if is_declared or not command else f" -- {command}"
        why = f"gate {name} was run, and what a run showed stays until the next one"
        return _not_undone(why, f"holdfast gate run {shell_word(name)}{words}")
    if event_type == "violation_found":
        code = shell_word(data["code"])
        why = f"violation {code} was reported, and stays until it is fixed"
        return _not_undone(why, f"holdfast violation clear {code}")
    if event_type == "tests_recorded" and data["tests"].get("evidence", CLAIM) != CLAIM:
        why = "tests were run, and what a run showed stays until the next one"
        command = data["tests"].get("test_command") or "COMMAND"
        return _not_undone(why, f"holdfast tests run -- {command}")
    if state["recipe"]["format"] == "loop" and event_type not in _UNDONE_IN_LOOPS:
        why = f"the pages and the log of {state['id']} show it ({what}), and stay as they are"
        return _not_undone(why, "holdfast loop next")
    return None


def _not_undone(why: str, hint: str) -> Refusal:
    return Refusal("not_undoable", f"undo: {why}", hint)


def _touched_since(
    state: Workflow, after: Workflow, back: list[Change], later: list[Event], what: str
) -> Refusal:
    """Return the refusal that names the later event which changed the same values."""
    undone = [
        seq
        for event in later
        if event["type"] == "change_undone"
        for seq in (*event["data"].get("undoes", ()), event["seq"])
    ]
    name = "another event"
    for event in later:
        following = _evolved(after, event)
        if event["seq"] not in undone and diff.conflicts(_changes(after, following), back):
            name = f"event {event['seq']} ({describe_event(event)})"
            who = event["by"].get("session")
            if event["type"] not in ("record_edited", diff.MERGED):
                name += f" by {f'session {_short(who)}' if who else 'somebody without a session'}"
        after = following
    why = f"undo: {name} has since changed what your last change of {state['id']} did ({what})"
    return Refusal("conflict", why, f"holdfast log {state['id']}")


def describe_event(event: Event) -> str:
    """Return an event in a few words: ``task 3 done``, ``phase build started``, ``context set``."""
    event_type, data = event["type"], event["data"]
    if event_type == "workflow_resumed" and "from" not in data:
        return ""
    noun, _, verb = event_type.partition("_")
    verb = "done" if event_type == "task_completed" else verb.replace("_", " ")
    name = data.get(noun)
    if not isinstance(name, int | str):
        return f"{noun} {verb}"
    return f"{noun} {str(name)[:MAX_SHOWN]} {verb}"


def _given_back(now: Workflow, restored: Workflow) -> list[str]:
    """Return what an undo gives back, a short sentence each."""
    lines: list[str] = []
    if is_active(restored) and not is_active(now):
        lines.append("the workflow is active again")
    phase = find_phase(restored, restored["phase"])
    if restored["phase"] != now["phase"]:
        lines.append(f"the phase is {restored['phase'] or 'none'} again")
    elif phase is not None and phase != find_phase(now, now["phase"]):
        lines.append(f"phase {phase['name']} is {phase['status'].replace('_', ' ')} again")
    lines += _tasks_back(now, restored)
    lines += _questions_back(now, restored)
    lists: tuple[Fields, Fields] = ({**now}, {**restored})
    for name, noun in _NAMED_LISTS.items():
        was, came = (state.get(name, ()) for state in lists)
        lines += [f"{noun} is back: {_short(text)}" for text in came if text not in was]
        lines += [f"{noun} is gone: {_short(text)}" for text in was if text not in came]
    for key in {**now["context"], **restored["context"]}:
        if key not in restored["context"]:
            lines.append(f"{_short(key)} is not set again")
        elif key not in now["context"] or now["context"][key] != restored["context"][key]:
            lines.append(f"{_short(key)} is {_short(restored['context'][key])} again")
    for name, gate in restored["gates"].items():
        if now["gates"].get(name) != gate:
            status = str(gate.get("status", "pending"))
            result = {True: "passed", False: "failed"}.get(gate.get("passed", ""), status)
            claimed = ", claimed" if result == "passed" and gate.get("evidence") == CLAIM else ""
            lines.append(f"gate {name} is back to {result}{claimed}")
    lines += [f"gate {name} is gone" for name in now["gates"] if name not in restored["gates"]]
    if now["title"] != restored["title"]:
        lines.append(f"the title is {_short(restored['title'])!r} again")
    return lines or ["everything is as it was before"]


def _tasks_back(now: Workflow, restored: Workflow) -> list[str]:
    lines = []
    for task in restored["tasks"]:
        was = find_task(now, task["id"])
        if was is None:
            lines.append(f"task {task['id']} is back")
        elif was["status"] != task["status"]:
            status = task["status"].replace("_", " ").replace("completed", "done")
            lines.append(f"task {task['id']} is {status} again")
        elif was["description"] != task["description"]:
            lines.append(f"task {task['id']} is {_short(task['description'])!r} again")
        elif commits_of(was) != commits_of(task):
            commits = ", ".join(map(_short, commits_of(task))) or "none"
            lines.append(f"commits of task {task['id']}: {commits}")
        elif was != task:
            lines.append(f"task {task['id']} is as it was before")
    ids = [task["id"] for task in restored["tasks"]]
    lines += [f"task {task['id']} is gone" for task in now["tasks"] if task["id"] not in ids]
    if not lines and ids != [task["id"] for task in now["tasks"]]:
        lines.append(f"the tasks are in the order {', '.join(map(str, ids[:20]))} again")
    return lines


def _questions_back(now: Workflow, restored: Workflow) -> list[str]:
    was, came = (
        {question["id"]: question["status"] for question in state.get("questions", ())}
        for state in (now, restored)
    )
    lines = [f"question {n} is {came[n]} again" for n in came if was.get(n) != came[n]]
    return [*lines, *(f"question {n} is gone" for n in was if n not in came)]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
