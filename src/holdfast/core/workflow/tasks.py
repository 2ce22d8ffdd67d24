"""Tasks: add, start, complete, block. In a loop they are units, with bounded iterations.

pending -> in_progress -> confirming -> verifying -> completed
               ^              |             |
               +--------------+-------------+      when something is found
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, first_bad_text, shell_word
from holdfast.core.workflow import (
    decides,
    evolves,
    find_task,
    no_such_entry,
    unit_mark,
    with_task,
)
from holdfast.core.workflow.needs import missing_for_task, missing_run, task_needs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Draft, Fields, Recipe, Task, Workflow
    from holdfast.core.workflow import Decision

MAX_TASKS = 10_000
MAX_SHOWN = 60
"""The number of characters of a text that a message names."""
WAITING = ("pending", "completed", "blocked")
"""Statuses of a task on which nobody works."""
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
_PLANNED = (
    "description", "criteria", "files", "output", "max_iterations", "depends", "model", "verify",
)  # fmt: skip
_REPORT = ("did", "remaining", "blockers", "commit", "subject", "signal")


def waits_for(state: Workflow, task: Task) -> list[str]:
    """Return the tasks that have to be done before this one."""
    done = {str(other["id"]) for other in state["tasks"] if other["status"] == "completed"}
    return [str(name) for name in task.get("depends", []) if str(name) not in done]


def task_at_hand(state: Workflow) -> Task | None:
    """Return the task in progress, else the first that can start, else one that is blocked."""
    current = find_task(state, state.get("current_task"))
    if current is not None and current["status"] not in WAITING:
        return current
    ready = [
        task
        for task in state["tasks"]
        if task["status"] == "pending" and not waits_for(state, task)
    ]
    begun = [task for task in state["tasks"] if task["status"] not in WAITING]
    blocked = [task for task in state["tasks"] if task["status"] == "blocked"]
    return next(iter([*begun, *ready, *blocked]), None)


def inner_phase(task: Task) -> str | None:
    """Return the phase of a task that is in progress: red, green, refactor."""
    return next(
        (n for n, status in task.get("phases", {}).items() if status == "in_progress"), None
    )


def _task_of(state: Workflow, data: Fields) -> Task:
    """Return the task of an event; a blank one if it does not exist."""
    blank: Task = {"id": data["task"], "description": "", "status": "pending"}
    return find_task(state, data["task"]) or blank


def _already(state: Workflow, tried: str, task: Task) -> Refusal:
    why = f"task {tried}: {task['id']} of {state['id']} is {task['status'].replace('_', ' ')}"
    return Refusal("already", why, f"holdfast show {state['id']}")


@decides("add_tasks")
def add(state: Workflow, args: Fields) -> Decision:
    """Add tasks at the end, each with the tasks that it depends on."""
    tasks = args["tasks"]
    if refusal := first_bad_text(task=[task["text"] for task in tasks]):
        return refusal
    if not tasks:
        return Refusal("invalid", "task add: no task is given", "holdfast task add TASK")
    if len(state["tasks"]) + len(tasks) > MAX_TASKS:
        why = f"task add: {state['id']} would have more than {MAX_TASKS} tasks"
        hint = "begin another one for the rest: holdfast start RECIPE SUBJECT"
        return Refusal("too_many", why, hint)
    mark = unit_mark(state["recipe"])
    numbers = [str(task["id"]).removeprefix(mark) for task in state["tasks"]]
    numbers.append(str(state.get("last_task", 0)))
    last = max(int(number) for number in numbers if number.isdecimal())
    depends = [name for task in tasks for name in task.get("depends") or ()]
    unknown = [name for name in depends if find_task(state, name) is None]
    if unknown:
        return no_such_entry(state, "task add", unknown[0])
    return added_tasks(state["recipe"], tasks, last)


def added_tasks(recipe: Recipe, tasks: list[Fields], last: int = 0) -> list[Draft]:
    """Return the events that add tasks, numbered after ``last``."""
    mark = unit_mark(recipe)
    drafts: list[Draft] = []
    for number, task in enumerate(tasks, last + 1):
        data: Fields = {"task": f"{mark}{number}" if mark else number, "description": task["text"]}
        data |= {key: task[key] for key in ("depends", "done") if task.get(key)}
        drafts.append({"type": "task_added", "data": data})
    return drafts


@evolves("task_added")
def _added(state: Workflow, data: Fields, at: str) -> Workflow:
    task: Task = {"id": data["task"], "description": data["description"], "status": "pending"}
    if "depends" in data:
        task["depends"] = data["depends"]
    if data.get("done"):
        task |= {"status": "completed", "completed_at": at}
    return {**state, "tasks": [*state["tasks"], task]}


@decides("start_task", "task start")
def start(state: Workflow, task: Task, args: Fields) -> Decision:
    if task["status"] in ("in_progress", "completed"):
        return _already(state, "start", task)
    waiting = waits_for(state, task)
    if waiting:
        why = f"task start: {task['id']} of {state['id']} waits for {', '.join(waiting)}"
        return Refusal("wrong_order", why, f"holdfast task start {shell_word(waiting[0])}")
    return [{"type": "task_started", "data": _begun(task, args)}]


def _begun(task: Task, args: Fields) -> Fields:
    """Return the data of an event that begins a task, with the commit it begins at."""
    data: Fields = {"task": task["id"]}
    if args.get("head") and "base" not in task:
        data["base"] = args["head"]
    return data


@evolves("task_started")
def _started(state: Workflow, data: Fields, at: str) -> Workflow:
    changed = {"status": "in_progress", "started_at": at, "reason": None}
    changed |= {"base": data["base"]} if "base" in data else {}
    return {**with_task(state, data["task"], changed), "current_task": data["task"]}


@decides("start_task_phase", "task phase")
def start_task_phase(state: Workflow, task: Task, args: Fields) -> Decision:
    """Enter a phase of a task. Refuse it while an earlier one lacks what the recipe asks for."""
    names = state["recipe"].get("task_phases", [])
    if args["phase"] not in names:
        return Refusal(
            "not_found",
            f"task phase: tasks of {state['id']} have no phase {args['phase'][:40]!r}; "
            f"they have {', '.join(names) or 'none'}",
            f"holdfast show {state['id']}",
        )
    if task["status"] == "completed":
        return _already(state, "phase", task)
    entered = task.get("phases", {})
    earlier = names[: names.index(args["phase"])]
    skipped = []
    for name in earlier:
        status = entered.get(name, "pending")
        is_left = status in ("completed", "skipped")
        missing = [] if is_left else missing_for_task(state, task, name)
        if missing and not args.get("force"):
            why = f"{name} comes first" if status == "pending" else f"{name} needs {missing[0]}"
            return _not_ready(state, args.get("step", "task phase"), task, why, missing)
        if missing or status in ("pending", "skipped"):
            skipped.append(name)
    data = {**_begun(task, args), "phase": args["phase"]}
    if skipped:
        data["skipped"] = skipped
    if args.get("force"):
        if refusal := bad_text("reason", args.get("reason") or ""):
            return refusal
        data["reason"] = args["reason"]
    return [{"type": "task_phase_started", "data": data}]


def _not_ready(state: Workflow, tried: str, task: Task, why: str, missing: list[str]) -> Refusal:
    """Return the refusal of a task that lacks what the recipe asks for."""
    message = f"{tried}: task {task['id']} of {state['id']}: {why}"
    hint = f"holdfast show {state['id']}"
    return Refusal("pending", message, hint, pending={"tests": missing})


@evolves("task_phase_started")
def _phase_started(state: Workflow, data: Fields, at: str) -> Workflow:
    names = state["recipe"].get("task_phases", [])
    reached = names.index(data["phase"])
    statuses = ["completed"] * reached + ["in_progress"] + ["pending"] * (len(names) - reached - 1)
    phases = dict(zip(names, statuses, strict=True))
    changed = {
        "status": "in_progress",
        "started_at": _task_of(state, data).get("started_at", at),
        "reason": None,
        "phases": {**phases, **dict.fromkeys(data.get("skipped", ()), "skipped")},
    }
    changed |= {"base": data["base"]} if "base" in data else {}
    return {**with_task(state, data["task"], changed), "current_task": data["task"]}


@decides("complete_task", "task done")
def complete(state: Workflow, task: Task, args: Fields) -> Decision:
    if task["status"] == "completed":
        return add_commit(state, task, args.get("commit"))
    if state["recipe"]["format"] == "loop":
        return Refusal(
            "wrong_order",
            f"task done: {task['id']} of {state['id']} is a loop's unit, which is done when it was "
            "confirmed and verified",
            "holdfast loop next",
        )
    if task["status"] == "blocked":
        why = f"task done: {task['id']} of {state['id']} is blocked ({task.get('reason', '')})"
        return Refusal("blocked", why, f"holdfast task start {shell_word(task['id'])}")
    data: Fields = {"task": task["id"]}
    if not args.get("force") and (refusal := refuse_untested(state, task, "task done")):
        return refusal
    names = state["recipe"].get("task_phases", [])
    if names:
        entered = task.get("phases", {})
        inner = inner_phase(task)
        went = [name for name in names if entered.get(name) == "completed"]
        if inner is not None and not missing_for_task(state, task, inner):
            went.append(inner)
        data["phases"] = {name: "completed" if name in went else "skipped" for name in names}
    if args.get("force"):
        if refusal := bad_text("reason", args.get("reason") or ""):
            return refusal
        data["reason"] = args["reason"]
    commit = args.get("commit")
    if commit is not None:
        if refusal := bad_text("commit", commit):
            return refusal
        data["commit"] = commit
    return [{"type": "task_completed", "data": data}]


def refuse_untested(state: Workflow, task: Task, tried: str) -> Refusal | None:
    """Return a refusal if a task is in a phase whose tests have not passed."""
    inner = inner_phase(task)
    if inner is None or not task_needs_of(state, inner):
        return None
    missing = missing_run(state, "tests", task, inner)
    if not missing:
        return None
    why = f"it is in {inner}, whose tests must pass ({', '.join(missing)})"
    return _not_ready(state, tried, task, why, missing)


@evolves("task_completed")
def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    fields: Fields = {"status": "completed", "completed_at": at}
    names = state["recipe"].get("task_phases", [])
    if names:
        fields["phases"] = data.get("phases") or dict.fromkeys(names, "completed")
    if "commit" in data:
        fields["commit"] = data["commit"]
    return with_task(state, data["task"], fields)


@decides("block_task", "task block")
def block(state: Workflow, task: Task, args: Fields) -> Decision:
    if task["status"] == "completed":
        return _already(state, "block", task)
    if refusal := bad_text("reason", args["reason"]):
        return refusal
    data = {"task": task["id"], "reason": args["reason"]}
    drafts: list[Draft] = [{"type": "task_blocked", "data": data}]
    if state["recipe"]["format"] == "loop":
        drafts += move_phase(state, "execute", only_from=REVIEWED)
    return drafts


@evolves("task_blocked")
def _blocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    return with_task(state, data["task"], {"status": "blocked", "reason": data["reason"]})


def commits_of(task: Task) -> list[str]:
    """Return the commits of a task, oldest first."""
    commit = task.get("commit")
    return task.get("commits") or ([commit] if commit else [])


def add_commit(state: Workflow, task: Task, commit: str | None) -> Decision:
    """Add a commit to a task that is done."""
    known = commits_of(task)
    if commit is None or commit in known or state["recipe"]["format"] == "loop":
        why = f"task done: {task['id']} of {state['id']} is completed already"
        if commit in known:
            why += f", and has the commit {str(commit)[:MAX_SHOWN]}"
        return Refusal("already", why, f"holdfast show {state['id']}")
    if refusal := bad_text("commit", commit):
        return refusal
    return [{"type": "task_commit_added", "data": {"task": task["id"], "commit": commit}}]


@evolves("task_commit_added")
def _commit_added(state: Workflow, data: Fields, _at: str) -> Workflow:
    task, commit = find_task(state, data["task"]), data["commit"]
    commits = [*([] if task is None else commits_of(task)), commit]
    fields: Fields = {"commit": commit}
    return with_task(
        state, data["task"], {**fields, "commits": commits} if len(commits) > 1 else fields
    )


# Units of a loop


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


def _move_phase_with(state: Workflow, task: Task, status: str, used: int) -> list[Draft]:
    """Return the events that move the phase when a unit gets this status and iteration count."""
    after = with_task(state, task["id"], {"status": status, "iterations_used": used})
    return move_phase(state, phase_of(after["tasks"]))


def _wrong(state: Workflow, tried: str, task: Task, why: str, hint: str) -> Refusal:
    message = f"loop {tried}: {task['id']} of {state['subject']}: {why}"
    return Refusal("wrong_order", message, f"holdfast {hint}")


@decides("plan_unit")
def plan(state: Workflow, args: Fields) -> Decision:
    """Add a unit, or change what a unit is about."""
    if refusal := _bad_plan(state, args):
        return refusal
    fields = {key: args[key] for key in _PLANNED if args.get(key) is not None}
    unit = find_task(state, args["task"])
    if unit is None:
        # A loop that was under review or delivered has work again.
        moves = move_phase(state, "plan", only_from=("discover",)) or move_phase(
            state, "execute", only_from=REVIEWED
        )
        data = {"task": args["task"], "description": args.get("description") or ""}
        planned = {"task": args["task"], "max_iterations": MAX_ITERATIONS, **fields}
        return [
            *moves,
            {"type": "task_added", "data": data},
            {"type": "unit_planned", "data": planned},
        ]
    # A field that was confirmed cannot change; one that was never set still can.
    if unit["status"] in DECLARED and any(unit.get(key) for key in fields):
        return _wrong(state, "plan", unit, f"it is {unit['status']}", "loop status")
    drafts: list[Draft] = [{"type": "unit_planned", "data": {"task": unit["id"], **fields}}]
    most = fields.get("max_iterations", 0)
    if unit["status"] == "timeout" and most > unit.get("iterations_used", 0):
        # The unit continues, which the log shows as well.
        data = {"task": unit["id"], "max_iterations": most}
        drafts.append({"type": "task_extended", "data": data})
    return drafts


def _bad_plan(state: Workflow, args: Fields) -> Refusal | None:
    texts = {key: args[key] for key in ("description", "criteria", "model", "output", "verify")
             if args.get(key) is not None}  # fmt: skip
    if refusal := first_bad_text(**texts, files=args.get("files") or []):
        return refusal
    most = args.get("max_iterations")
    if most is not None and not (isinstance(most, int) and 1 <= most <= _MAX_LIMIT):
        why = f"loop plan: the maximum must be 1 to {_MAX_LIMIT}"
        return Refusal("invalid", why, "--max 5")
    depends = [str(name) for name in args.get("depends") or []]
    for name in depends:
        if name != str(args["task"]) and find_task(state, name) is None:
            why = f"loop plan: {args['task']} cannot depend on {name[:40]!r}, which is not planned"
            hint = f"holdfast loop plan {shell_word(state['subject'])} --unit '{name[:40]}: TITLE'"
            return Refusal("not_found", why, hint)
    if is_circular(state, str(args["task"]), depends):
        why = f"loop plan: {args['task']} would wait for itself, through {', '.join(depends)}"
        return Refusal("invalid", why, "leave out one of the dependencies")
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


@evolves("unit_planned")
def _planned(state: Workflow, data: Fields, _at: str) -> Workflow:
    # An empty list is left out, as if it had never been set.
    fields = {key: value if value != [] else None for key, value in data.items() if key != "task"}
    return with_task(state, data["task"], {**fields, **_goes_on(state, data)})


def _goes_on(state: Workflow, data: Fields) -> Fields:
    """Return the status of a timed-out unit that is allowed more iterations."""
    task = _task_of(state, data)
    has_room = data.get("max_iterations", 0) > task.get("iterations_used", 0)
    return {"status": "in_progress"} if task["status"] == "timeout" and has_room else {}


@decides("record_iteration", "loop iterate")
def iterate(state: Workflow, task: Task, args: Fields) -> Decision:
    """Record an iteration; one beyond the limit times the unit out.

    ``logged`` is the heading of its entry, if a person wrote that into the log.
    """
    report = {key: args[key] for key in (*_REPORT, "logged") if args.get(key) is not None}
    if refusal := _bad_report(report, args.get("blocked")) or _cannot_iterate(state, task):
        return refusal
    signal, expected = args.get("signal"), signal_of(task)
    if signal is not None and signal != expected:
        why = f"loop iterate: {signal[:60]!r} is not the signal of {task['id']}; that is {expected}"
        hint = f"holdfast loop iterate {shell_word(task['id'])} --did TEXT --signal {expected}"
        return Refusal("invalid", why, hint)
    number = task.get("iterations_used", 0) + 1
    has_room = number <= limit_of(task)
    data = {"task": task["id"], "iteration": number, **report}
    drafts: list[Draft] = [
        {"type": "iteration_recorded" if has_room else "task_timed_out", "data": data}
    ]
    reason = args.get("blocked")
    if reason is not None:
        drafts.append({"type": "task_blocked", "data": {"task": task["id"], "reason": reason}})
    is_declared = signal is not None and reason is None and has_room
    status = "confirming" if is_declared else "in_progress"
    return [*_move_phase_with(state, task, status, number), *drafts]


def _bad_report(report: Fields, blocked: str | None) -> Refusal | None:
    if not report.get("did"):
        why = "loop iterate: what was done is missing"
        return Refusal("invalid", why, "say what was done: --did TEXT")
    if not report.get("remaining") and not report.get("signal"):
        why = "loop iterate: say what remains, or give the unit's signal when nothing does"
        return Refusal("invalid", why, "--remaining TEXT, or --signal SIGNAL")
    return first_bad_text(**report, **({} if blocked is None else {"reason": blocked}))


def _cannot_iterate(state: Workflow, task: Task) -> Refusal | None:
    name, waiting = shell_word(task["id"]), waits_for(state, task)
    obstacles = {
        "confirming": ("it waits to be confirmed", f"loop confirm {name} --clean"),
        "verifying": ("it waits to be verified", "loop next"),
        "completed": ("it is done", "loop next"),
        "blocked": (f"it is blocked ({task.get('reason', '')})", f"loop unblock {name}"),
        "timeout": (
            f"it has used {iterations_allowed(task)}; {TIMEOUT_CHOICES}",
            f"loop extend {name} --max {limit_of(task) + 5}",
        ),
    }
    if task["status"] in obstacles:
        return _wrong(state, "iterate", task, *obstacles[task["status"]])
    if waiting:
        return _wrong(state, "iterate", task, f"it waits for {', '.join(waiting)}", "loop next")
    return None


@evolves("iteration_recorded")
def _iterated(state: Workflow, data: Fields, at: str) -> Workflow:
    changed = {
        "status": "in_progress" if data.get("signal") is None else "confirming",
        "started_at": _task_of(state, data).get("started_at", at),
        "iterations_used": data["iteration"],
        "remaining": data.get("remaining"),
        "blockers": data.get("blockers"),
        "reason": None,
    }
    after = with_task(state, data["task"], changed)
    return _with_commit({**after, "current_task": data["task"]}, data)


@evolves("task_timed_out")
def _timed_out(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {
        "status": "timeout",
        "remaining": data.get("remaining"),
        "blockers": data.get("blockers"),
    }
    return _with_commit(with_task(state, data["task"], changed), data)


def _with_commit(state: Workflow, data: Fields) -> Workflow:
    if "commit" not in data:
        return state
    lines = (data.get("subject") or data["did"]).strip().splitlines()
    line = f"{data['commit']}: {(lines or [_task_of(state, data)['description']])[0][:80]}"
    return {**state, "commits": [*state["commits"], line]}


@decides("confirm_unit", "loop confirm")
def confirm(state: Workflow, task: Task, args: Fields) -> Decision:
    """Record one more pass over work that was declared done: clean, or with findings."""
    return _judged(state, task, args, "confirming", "verifying", "confirmation_recorded")


@decides("verify_unit", "loop verify")
def verify(state: Workflow, task: Task, args: Fields) -> Decision:
    """Record the verification of a unit; only a unit that passes is done."""
    is_claim = args.get("found") is None and args.get("evidence") is None
    if is_claim and task["status"] == "verifying" and (refusal := refuse_claim(state, task)):
        return refusal
    return _judged(state, task, args, "verifying", "completed", "verification_recorded")


def needs_run(task: Task) -> bool:
    """Return whether only a run verifies a unit: it declares a command, or its last run failed."""
    return bool(task.get("verify")) or task.get("verification_run", {}).get("exit_code", 0) != 0


def refuse_claim(state: Workflow, task: Task) -> Refusal | None:
    """Return a refusal if a claim cannot take the place of a unit's verification."""
    if not needs_run(task):
        return None
    again = f"holdfast loop verify {shell_word(task['id'])} --run"
    if task.get("verify"):
        why = "it declares what verifies it; that takes a run by Holdfast, not a claim"
    else:
        again += " -- COMMAND"
        why = "its last verification run failed; a claim does not stand for a run"
    return Refusal("needs_run", f"loop verify: {task['id']} of {state['subject']}: {why}", again)


def _judged(
    state: Workflow, task: Task, args: Fields, expected: str, following: str, event_type: str
) -> Decision:
    if task["status"] != expected:
        status = "done" if task["status"] == "completed" else task["status"].replace("_", " ")
        why = f"it is {status}, not {expected}"
        tried = "confirm" if expected == "confirming" else "verify"
        return _wrong(state, tried, task, why, "loop next")
    issues = args.get("found")
    if issues is not None and (refusal := bad_text("what was found", issues)):
        return refusal
    data: Fields = {"task": task["id"], "clean": issues is None}
    data |= {key: args[key] for key in ("found", "evidence") if args.get(key) is not None}
    data |= {"ran": True} if "evidence" in data else {}
    status = following if issues is None else "in_progress"
    moves = _move_phase_with(state, task, status, task.get("iterations_used", 0))
    return [{"type": event_type, "data": data}, *moves]


@evolves("confirmation_recorded")
def _confirmed(state: Workflow, data: Fields, _at: str) -> Workflow:
    used = _task_of(state, data).get("confirmations_used", 0)
    changed: Fields = {"status": "verifying", "confirmations_used": used + 1}
    if not data["clean"]:
        changed |= {"status": "in_progress", "remaining": data.get("found")}
    return with_task(state, data["task"], changed)


@evolves("verification_recorded")
def _verified(state: Workflow, data: Fields, at: str) -> Workflow:
    changed: Fields = {"verification_passed": data["clean"]}
    if data.get("ran"):
        # Events of earlier versions have the evidence alone, and give the states they gave then.
        changed["verification_run"] = data["evidence"]
    if data["clean"]:
        changed |= {"status": "completed", "completed_at": at, "remaining": None, "blockers": None}
    else:
        changed |= {"status": "in_progress", "remaining": data.get("found")}
    return with_task(state, data["task"], changed)


@decides("unblock_unit", "loop unblock")
def unblock(state: Workflow, task: Task, _args: Fields) -> Decision:
    if task["status"] != "blocked":
        return _wrong(state, "unblock", task, f"it is {task['status']}", "loop next")
    return [{"type": "task_unblocked", "data": {"task": task["id"]}}]


@evolves("task_unblocked")
def _unblocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    task = _task_of(state, data)
    begun = task.get("iterations_used", 0) > 0
    if state["recipe"]["format"] != "loop":
        begun = "started_at" in task
    changed = {"status": "in_progress" if begun else "pending", "reason": None}
    return with_task(state, data["task"], changed)


@decides("extend_unit", "loop extend")
def extend(_state: Workflow, task: Task, args: Fields) -> Decision:
    """Allow more iterations; a timed-out unit continues."""
    most = args["max_iterations"]
    if not task.get("iterations_used", 0) < most <= _MAX_LIMIT:
        return Refusal(
            "invalid",
            f"loop extend: {task['id']} has used {task.get('iterations_used', 0)} iterations; "
            f"the maximum must be more, up to {_MAX_LIMIT}",
            f"holdfast loop extend {shell_word(task['id'])} --max {limit_of(task) + 5}",
        )
    return [{"type": "task_extended", "data": {"task": task["id"], "max_iterations": most}}]


@evolves("task_extended")
def _extended(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"max_iterations": data["max_iterations"], **_goes_on(state, data)}
    return with_task(state, data["task"], changed)
