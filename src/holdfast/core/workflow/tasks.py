"""Tasks: add, start, complete, block. In a loop they are units, with bounded iterations.

pending -> in_progress -> confirming -> verifying -> completed
               ^              |             |
               +--------------+-------------+      when something is found
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, first_bad_text, word
from holdfast.core.workflow.state import find_task, unit_mark, with_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Command, Draft, Fields, Task, Workflow

MAX_ITERATIONS = 5
"""The default of a unit."""
_MAX_LIMIT = 1_000
DECLARED = ("confirming", "verifying", "completed")
"""Statuses of a unit that was declared done."""
REVIEWED = ("verify", "deliver")
"""Phases of a loop in which no unit is worked on."""
TIMEOUT_CHOICES = (
    "allow more (loop extend), simplify its criteria (loop plan --criteria --max), "
    "or see to it yourself"
)


def signal_of(task: Task) -> str:
    """Return the signal of a worker that a unit is done: ``T1_DONE``."""
    return f"{task['id']}_DONE"


def limit_of(task: Task) -> int:
    return task.get("max_iterations", MAX_ITERATIONS)


def iterations_allowed(task: Task) -> str:
    """Return the number of iterations that a unit may take, in words."""
    return "its one iteration" if limit_of(task) == 1 else f"its {limit_of(task)} iterations"


def phase_of(units: list[Task]) -> str:
    """Return the phase of a loop with these units: it follows them from discover to deliver."""
    if not units:
        return "discover"
    statuses = {unit["status"] for unit in units}
    if statuses == {"completed"}:
        return "deliver"
    if statuses.issubset(DECLARED):
        return "verify"
    return "execute" if any(unit.get("iterations_used") for unit in units) else "plan"


def move_phase(state: Workflow, to: str, only_from: tuple[str, ...] = ()) -> list[Draft]:
    """Return the events that move the loop's own phase, forward step by step or straight back."""
    names = [phase["name"] for phase in state["phases"]]
    current = state["phase"]
    if to not in names or current == to or (only_from and current not in only_from):
        return []
    if current not in names or names.index(to) < names.index(str(current)):
        return [{"type": "phase_started", "data": {"phase": to}}]
    drafts: list[Draft] = []
    for number in range(names.index(str(current)), names.index(to)):
        drafts.append({"type": "phase_completed", "data": {"phase": names[number]}})
        drafts.append({"type": "phase_started", "data": {"phase": names[number + 1]}})
    return drafts


def plan(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Add a unit, or change what a unit is about."""
    args = command["args"]
    refusal = _bad_plan(state, args)
    if refusal is not None:
        return refusal
    fields = {key: args[key] for key in _PLANNED if args.get(key) is not None}
    known = find_task(state, args["task"])
    if known is not None:
        # A field that was confirmed cannot change; one that was never set still can.
        if known["status"] in DECLARED and any(known.get(key) for key in fields):
            return _wrong(state, "plan", known, f"it is {known['status']}", "loop status")
        planned: Draft = {"type": "unit_planned", "data": {"task": known["id"], **fields}}
        return [planned, *_more_allowed(known, fields)]
    data = {"task": args["task"], "description": args.get("description") or ""}
    drafts: list[Draft] = [{"type": "task_added", "data": data}]
    planned_data = {"task": args["task"], "max_iterations": MAX_ITERATIONS, **fields}
    drafts.append({"type": "unit_planned", "data": planned_data})
    # A loop that was under review or delivered has work again.
    moves = move_phase(state, "plan", only_from=("discover",)) or move_phase(
        state, "execute", only_from=REVIEWED
    )
    return [*moves, *drafts]


def _more_allowed(task: Task, fields: Fields) -> list[Draft]:
    """Return the event that a timed-out unit continues; it is shown in the log as well."""
    most = fields.get("max_iterations", 0)
    if task["status"] != "timeout" or most <= task.get("iterations_used", 0):
        return []
    return [{"type": "task_extended", "data": {"task": task["id"], "max_iterations": most}}]


_PLANNED = (
    "description", "criteria", "files", "output", "max_iterations", "depends", "model", "verify",
)  # fmt: skip


def _bad_plan(state: Workflow, args: Fields) -> Refusal | None:
    texts = {key: args[key] for key in ("description", "criteria", "model", "output", "verify")
             if args.get(key) is not None}  # fmt: skip
    refusal = first_bad_text(**texts, files=args.get("files") or [])
    if refusal is not None:
        return refusal
    most = args.get("max_iterations")
    if most is not None and not (isinstance(most, int) and 1 <= most <= _MAX_LIMIT):
        return Refusal(
            "invalid",
            f"loop plan: the maximum must be 1 to {_MAX_LIMIT}",
            "loop plan --max 5",
        )
    depends = [str(name) for name in args.get("depends") or []]
    for name in depends:
        if name != str(args["task"]) and find_task(state, name) is None:
            return Refusal(
                "not_found",
                f"loop plan: {args['task']} cannot depend on {name[:40]!r}, which is not planned",
                f"holdfast loop plan {word(state['subject'])} --unit '{name[:40]}: title'",
            )
    if is_circular(state, str(args["task"]), depends):
        return Refusal(
            "invalid",
            f"loop plan: {args['task']} would wait for itself, through {', '.join(depends)}",
            "leave out one of the dependencies",
        )
    return None


def is_circular(state: Workflow, name: str, depends: list[str]) -> bool:
    """Return whether a unit with these dependencies would wait for itself."""
    waiting, seen = list(depends), set()
    while waiting:
        other = waiting.pop()
        if other == name:
            return True
        if other not in seen:
            seen.add(other)
            task = find_task(state, other)
            waiting += map(str, task.get("depends", []) if task is not None else [])
    return False


def waits_for(state: Workflow, task: Task) -> list[str]:
    """Return the units that have to be done before this one."""
    done = {str(other["id"]) for other in state["tasks"] if other["status"] == "completed"}
    return [str(name) for name in task.get("depends", []) if str(name) not in done]


def iterate(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Record an iteration; one beyond the limit times the unit out."""
    args = command["args"]
    task = find_task(state, args["task"])
    if task is None:
        return _no_such_unit(state, "iterate", args["task"])
    refusal = _bad_words(args) or _cannot_iterate(state, task)
    if refusal is not None:
        return refusal
    signal = args.get("signal")
    if signal is not None and signal != signal_of(task):
        return Refusal(
            "invalid",
            f"loop iterate: {signal[:60]!r} is not the signal of {task['id']}; "
            f"that is {signal_of(task)}",
            f"holdfast loop iterate {word(task['id'])} --did TEXT --signal {signal_of(task)}",
        )
    data = {key: args[key] for key in _REPORT if args.get(key) is not None}
    number = task.get("iterations_used", 0) + 1
    kind = "iteration_recorded" if number <= limit_of(task) else "task_timed_out"
    drafts: list[Draft] = [
        {"type": kind, "data": {"task": task["id"], "iteration": number, **data}}
    ]
    reason = args.get("blocked")
    if reason is not None:
        drafts.append({"type": "task_blocked", "data": {"task": task["id"], "reason": reason}})
    is_declared = signal is not None and len(drafts) == 1 and number <= limit_of(task)
    status = "confirming" if is_declared else "in_progress"
    return [*move_phase(state, _phase_after(state, task, status, number)), *drafts]


_REPORT = ("did", "remaining", "blockers", "commit", "signal")


def _bad_words(args: Fields) -> Refusal | None:
    report = {key: args[key] for key in _REPORT if args.get(key) is not None}
    if not report.get("did"):
        return Refusal(
            "invalid", "loop iterate: what was done is missing", "loop iterate --did TEXT"
        )
    if not report.get("remaining") and not report.get("signal"):
        return Refusal(
            "invalid",
            "loop iterate: say what remains, or give the unit's signal when nothing does",
            "loop iterate --did TEXT --remaining TEXT",
        )
    if args.get("blocked") is not None:
        report["reason"] = args["blocked"]
    return first_bad_text(**report)


def _cannot_iterate(state: Workflow, task: Task) -> Refusal | None:
    name = word(task["id"])
    status = task["status"]
    if status == "confirming":
        hint = f"loop confirm {name} --clean"
        return _wrong(state, "iterate", task, "it waits to be confirmed", hint)
    if status == "verifying":
        hint = f"loop verify {name} --passed"
        return _wrong(state, "iterate", task, "it waits to be verified", hint)
    if status == "completed":
        return _wrong(state, "iterate", task, "it is done", "loop next")
    if status == "blocked":
        why = f"it is blocked ({task.get('reason', '')})"
        return _wrong(state, "iterate", task, why, f"loop unblock {name}")
    if status == "timeout":
        why = f"it has used {iterations_allowed(task)}; {TIMEOUT_CHOICES}"
        return _wrong(state, "iterate", task, why, f"loop extend {name} --max {limit_of(task) + 5}")
    waiting = waits_for(state, task)
    if waiting:
        return _wrong(state, "iterate", task, f"it waits for {', '.join(waiting)}", "loop next")
    return None


def confirm(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Record one more pass over work that was declared done: clean, or with what it found."""
    return _judged(state, command, "confirm", "confirming", "confirmation_recorded")


def verify(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Record the verification of a unit; only a unit that passes is done."""
    return _judged(state, command, "verify", "verifying", "verification_recorded")


def _judged(
    state: Workflow, command: Command, tried: str, expected: str, kind: str
) -> list[Draft] | Refusal:
    args = command["args"]
    task = find_task(state, args["task"])
    if task is None:
        return _no_such_unit(state, tried, args["task"])
    if task["status"] != expected:
        why = f"it is {task['status'].replace('_', ' ')}, not {expected}"
        return _wrong(state, tried, task, why, "loop next")
    found = args.get("found")
    if found is not None:
        refusal = bad_text("what was found", found)
        if refusal is not None:
            return refusal
    data: Fields = {"task": task["id"], "clean": found is None}
    data |= {key: args[key] for key in ("found", "evidence") if args.get(key) is not None}
    drafts: list[Draft] = [{"type": kind, "data": data}]
    after = "verifying" if kind == "confirmation_recorded" else "completed"
    after = after if found is None else "in_progress"
    return [*drafts, *move_phase(state, _phase_after(state, task, after))]


def _phase_after(state: Workflow, task: Task, status: str, used: int | None = None) -> str:
    """Return the loop's phase after a unit gets this status and number of iterations."""
    number = task.get("iterations_used", 0) if used is None else used
    return phase_of(with_task(state, task["id"], {"status": status, "iterations_used": number}))


def unblock(state: Workflow, command: Command) -> list[Draft] | Refusal:
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_unit(state, "unblock", command["args"]["task"])
    if task["status"] != "blocked":
        return _wrong(state, "unblock", task, f"it is {task['status']}", "loop next")
    return [{"type": "task_unblocked", "data": {"task": task["id"]}}]


def extend(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Allow more iterations; a timed-out unit continues."""
    task = find_task(state, command["args"]["task"])
    most = command["args"]["max_iterations"]
    if task is None:
        return _no_such_unit(state, "extend", command["args"]["task"])
    if not task.get("iterations_used", 0) < most <= _MAX_LIMIT:
        return Refusal(
            "invalid",
            f"loop extend: {task['id']} has used {task.get('iterations_used', 0)} iterations; "
            f"the maximum must be more, up to {_MAX_LIMIT}",
            f"holdfast loop extend {word(task['id'])} --max {limit_of(task) + 5}",
        )
    return [{"type": "task_extended", "data": {"task": task["id"], "max_iterations": most}}]


def _no_such_unit(state: Workflow, tried: str, name: object) -> Refusal:
    known = ", ".join(str(task["id"]) for task in state["tasks"][:20]) or "none"
    return Refusal(
        "not_found",
        f"loop {tried}: {state['subject']} has no unit {str(name)[:40]!r}; it has {known}",
        "holdfast loop status",
    )


def _wrong(state: Workflow, tried: str, task: Task, why: str, hint: str) -> Refusal:
    message = f"loop {tried}: {task['id']} of {state['subject']}: {why}"
    return Refusal("wrong_order", message, f"holdfast {hint}")


def _planned(state: Workflow, data: Fields, _at: str) -> Workflow:
    # An empty list is left out, as if it had never been set.
    fields = {key: value if value != [] else None for key, value in data.items() if key != "task"}
    return {**state, "tasks": with_task(state, data["task"], {**fields, **_goes_on(state, data)})}


def _goes_on(state: Workflow, data: Fields) -> Fields:
    """Return the status of a timed-out unit that is allowed more iterations."""
    task = find_task(state, data["task"])
    if task is None or task["status"] != "timeout":
        return {}
    has_room = data.get("max_iterations", 0) > task.get("iterations_used", 0)
    return {"status": "in_progress"} if has_room else {}


def _iterated(state: Workflow, data: Fields, at: str) -> Workflow:
    task = find_task(state, data["task"])
    signalled = data.get("signal") is not None
    changed = {
        "status": "confirming" if signalled else "in_progress",
        "started_at": task.get("started_at", at) if task is not None else at,
        "iterations_used": data["iteration"],
        "remaining": data.get("remaining"),
        "blockers": data.get("blockers"),
        "reason": None,
    }
    after: Workflow = {**state, "tasks": with_task(state, data["task"], changed)}
    after["current_task"] = data["task"]
    return _with_commit(after, data)


def _timed_out(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {
        "status": "timeout",
        "remaining": data.get("remaining"),
        "blockers": data.get("blockers"),
    }
    after: Workflow = {**state, "tasks": with_task(state, data["task"], changed)}
    return _with_commit(after, data)


def _with_commit(state: Workflow, data: Fields) -> Workflow:
    if "commit" not in data:
        return state
    task = find_task(state, data["task"])
    about = task["description"] if task is not None else ""
    lines = data["did"].strip().splitlines() or [about]
    line = f"{data['commit']}: {lines[0][:80]}"
    return {**state, "commits": [*state["commits"], line]}


def _confirmed(state: Workflow, data: Fields, _at: str) -> Workflow:
    task = find_task(state, data["task"])
    used = task.get("confirmations_used", 0) if task is not None else 0
    changed: Fields = {"status": "verifying", "confirmations_used": used + 1}
    if not data["clean"]:
        changed |= {"status": "in_progress", "remaining": data.get("found")}
    return {**state, "tasks": with_task(state, data["task"], changed)}


def _verified(state: Workflow, data: Fields, at: str) -> Workflow:
    changed: Fields = {"verification_passed": data["clean"]}
    if data["clean"]:
        changed |= {"status": "completed", "completed_at": at, "remaining": None, "blockers": None}
    else:
        changed |= {"status": "in_progress", "remaining": data.get("found")}
    return {**state, "tasks": with_task(state, data["task"], changed)}


def _unblocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    task = find_task(state, data["task"])
    begun = task is not None and task.get("iterations_used", 0) > 0
    changed = {"status": "in_progress" if begun else "pending", "reason": None}
    return {**state, "tasks": with_task(state, data["task"], changed)}


def _extended(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"max_iterations": data["max_iterations"], **_goes_on(state, data)}
    return {**state, "tasks": with_task(state, data["task"], changed)}


MAX_TASKS = 10_000


def add(state: Workflow, command: Command) -> list[Draft] | Refusal:
    text = command["args"]["description"]
    refusal = bad_text("task", text)
    if refusal is not None:
        return refusal
    if len(state["tasks"]) >= MAX_TASKS:
        return Refusal(
            "too_many",
            f"task add: {state['id']} has {MAX_TASKS} tasks already",
            "holdfast start another workflow for the rest",
        )
    data: Fields = {"task": _next_id(state), "description": text}
    depends = command["args"].get("depends")
    if depends:
        unknown = [name for name in depends if find_task(state, name) is None]
        if unknown:
            return _no_such_task(state, "add", unknown[0])
        data["depends"] = depends
    return [{"type": "task_added", "data": data}]


def _next_id(state: Workflow) -> int | str:
    mark = unit_mark(state["recipe"])
    numbers = [str(task["id"]).removeprefix(mark) for task in state["tasks"]]
    following = max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
    return f"{mark}{following}" if mark else following


def start(state: Workflow, command: Command) -> list[Draft] | Refusal:
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "start", command["args"]["task"])
    if task["status"] in ("in_progress", "completed"):
        return _already(state, "start", task)
    done = [str(other["id"]) for other in state["tasks"] if other["status"] == "completed"]
    waiting = [name for name in task.get("depends", []) if str(name) not in done]
    if waiting:
        return Refusal(
            "wrong_order",
            f"task start: {task['id']} of {state['id']} waits for {', '.join(map(str, waiting))}",
            f"holdfast task start {word(waiting[0])}",
        )
    return [{"type": "task_started", "data": {"task": task["id"]}}]


def start_phase(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Enter a sub-phase of a task; the earlier ones are completed."""
    name = command["args"]["phase"]
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "phase", command["args"]["task"])
    names = state["recipe"].get("task_phases", [])
    if name not in names:
        return Refusal(
            "not_found",
            f"task phase: tasks of {state['id']} have no phase {name[:40]!r}; "
            f"they have {', '.join(names) or 'none'}",
            f"holdfast show {state['id']}",
        )
    if task["status"] == "completed":
        return _already(state, "phase", task)
    return [{"type": "task_phase_started", "data": {"task": task["id"], "phase": name}}]


def complete(state: Workflow, command: Command) -> list[Draft] | Refusal:
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "done", command["args"]["task"])
    if task["status"] == "completed":
        return _already(state, "done", task)
    if state["recipe"]["format"] == "loop":
        return Refusal(
            "wrong_order",
            f"task done: {task['id']} of {state['id']} is a loop's unit, which is done when it was "
            "confirmed and verified",
            "holdfast loop next",
        )
    if task["status"] == "blocked":
        return Refusal(
            "blocked",
            f"task done: {task['id']} of {state['id']} is blocked ({task.get('reason', '')})",
            f"holdfast task start {word(task['id'])}",
        )
    data: Fields = {"task": task["id"]}
    commit = command["args"].get("commit")
    if commit is not None:
        refusal = bad_text("commit", commit)
        if refusal is not None:
            return refusal
        data["commit"] = commit
    return [{"type": "task_completed", "data": data}]


def block(state: Workflow, command: Command) -> list[Draft] | Refusal:
    task = find_task(state, command["args"]["task"])
    if task is None:
        return _no_such_task(state, "block", command["args"]["task"])
    if task["status"] == "completed":
        return _already(state, "block", task)
    refusal = bad_text("reason", command["args"]["reason"])
    if refusal is not None:
        return refusal
    data = {"task": task["id"], "reason": command["args"]["reason"]}
    drafts: list[Draft] = [{"type": "task_blocked", "data": data}]
    if state["recipe"]["format"] == "loop":
        drafts += move_phase(state, "execute", only_from=REVIEWED)
    return drafts


def _no_such_task(state: Workflow, tried: str, task_id: object) -> Refusal:
    known = ", ".join(str(task["id"]) for task in state["tasks"][:20]) or "none"
    return Refusal(
        "not_found",
        f"task {tried}: {state['id']} has no task {str(task_id)[:40]!r}; it has {known}",
        "holdfast task add TEXT" if not state["tasks"] else f"holdfast show {state['id']}",
    )


def _already(state: Workflow, tried: str, task: Task) -> Refusal:
    return Refusal(
        "already",
        f"task {tried}: {task['id']} of {state['id']} is {task['status'].replace('_', ' ')}",
        f"holdfast show {state['id']}",
    )


def _added(state: Workflow, data: Fields, _at: str) -> Workflow:
    task: Task = {"id": data["task"], "description": data["description"], "status": "pending"}
    if "depends" in data:
        task["depends"] = data["depends"]
    return {**state, "tasks": [*state["tasks"], task]}


def _started(state: Workflow, data: Fields, at: str) -> Workflow:
    changed = {"status": "in_progress", "started_at": at, "reason": None}
    tasks = with_task(state, data["task"], changed)
    return {**state, "tasks": tasks, "current_task": data["task"]}


def _phase_started(state: Workflow, data: Fields, at: str) -> Workflow:
    names = state["recipe"].get("task_phases", [])
    reached = names.index(data["phase"])
    words = ["completed"] * reached + ["in_progress"] + ["pending"] * (len(names) - reached - 1)
    task = find_task(state, data["task"])
    started = task.get("started_at", at) if task is not None else at
    changed = {
        "status": "in_progress",
        "started_at": started,
        "reason": None,
        "phases": dict(zip(names, words, strict=True)),
    }
    tasks = with_task(state, data["task"], changed)
    return {**state, "tasks": tasks, "current_task": data["task"]}


def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    fields: Fields = {"status": "completed", "completed_at": at}
    names = state["recipe"].get("task_phases", [])
    if names:
        fields["phases"] = dict.fromkeys(names, "completed")
    if "commit" in data:
        fields["commit"] = data["commit"]
    return {**state, "tasks": with_task(state, data["task"], fields)}


def _blocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"status": "blocked", "reason": data["reason"]}
    tasks = with_task(state, data["task"], changed)
    return {**state, "tasks": tasks}


DECIDE = {
    "plan_unit": plan,
    "record_iteration": iterate,
    "confirm_unit": confirm,
    "verify_unit": verify,
    "unblock_unit": unblock,
    "extend_unit": extend,
    "add_task": add,
    "start_task": start,
    "start_task_phase": start_phase,
    "complete_task": complete,
    "block_task": block,
}
EVOLVE = {
    "unit_planned": _planned,
    "iteration_recorded": _iterated,
    "task_timed_out": _timed_out,
    "confirmation_recorded": _confirmed,
    "verification_recorded": _verified,
    "task_unblocked": _unblocked,
    "task_extended": _extended,
    "task_added": _added,
    "task_started": _started,
    "task_phase_started": _phase_started,
    "task_completed": _completed,
    "task_blocked": _blocked,
}
