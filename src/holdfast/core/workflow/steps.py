"""Steps that are done whole: red, green, refactor, and the commit that ends a task or a phase."""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, shell_word
from holdfast.core.workflow import (
    decides,
    declared_phase,
    evidence,
    evolve,
    find_phase,
    next_phases,
    remaining_phases,
)
from holdfast.core.workflow.lifecycle import advance, start_phase
from holdfast.core.workflow.needs import (
    CHECK,
    CLAIM,
    RUN,
    evidence_of,
    failing_command,
    gates_of,
    mark_of_run,
    missing_for_task,
    needs_of,
    unmet,
)
from holdfast.core.workflow.tasks import complete as complete_task
from holdfast.core.workflow.tasks import inner_phase, start_task_phase, task_at_hand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Draft, Event, Fields, Task, Workflow
    from holdfast.core.workflow import Decision

CYCLE = ("red", "green", "refactor")
"""The phases, of a workflow or of a task, that have a command of their own."""


@decides("advance_to_branch")
def advance_to_branch(state: Workflow, args: Fields) -> Decision:
    """Complete the current phase, and the next one too if it asks for nothing but this branch."""
    moves = advance(state, args)
    if isinstance(moves, Refusal):
        return moves
    after = _after(state, moves)
    declared = declared_phase(after, after["phase"])
    if declared is None or not declared.get("sets_branch") or unmet(after, args.get("facts")):
        return moves
    following = advance(after, args)
    return moves if isinstance(following, Refusal) else [*moves, *following]


@decides("enter_step")
def enter_step(state: Workflow, args: Fields) -> Decision:
    """Move to red, green or refactor; return no event if the workflow is there.

    Phases before the one of the tasks are left on the way, if they lack nothing, and the next task
    is started.
    """
    name = args["step"]
    if refusal := bad_text("step", name):
        return refusal
    phase = find_phase(state, name)
    if phase is not None:
        if state["phase"] == name and phase["status"] == "in_progress":
            return []
        return start_phase(state, phase, {**args, "phase": name})
    if name not in state["recipe"].get("task_phases", []):
        why = f"{name}: neither {state['id']} nor its tasks have a phase {name}"
        return Refusal("not_found", why, f"holdfast show {state['id']}")
    moved = _move_to_tasks(state, args)
    if isinstance(moved, Refusal):
        return moved
    drafts, after = moved
    task = task_at_hand(after)
    if task is None:
        why = f"{name}: {state['id']} has no task to do"
        hint = "holdfast advance" if after["tasks"] else "holdfast task add TASK"
        return Refusal("not_found", why, hint)
    if task["status"] == "blocked":
        why = f"{name}: only blocked tasks are left; {task['id']} waits ({task.get('reason', '')})"
        return Refusal("blocked", why, f"holdfast task unblock {shell_word(task['id'])}")
    if inner_phase(task) == name:
        return drafts
    entered = start_task_phase(after, task, {**args, "phase": name})
    return entered if isinstance(entered, Refusal) else [*drafts, *entered]


def phases_before(state: Workflow, step: str) -> list[str]:
    """Return the phases that the way to a step leaves: the current one, or all up to the tasks."""
    current = state["phase"]
    if current is None or find_phase(state, step):
        return [] if current is None else [current]
    ahead = [current, *remaining_phases(state)]
    to_tasks = next((n for n, name in enumerate(ahead) if "tasks" in needs_of(state, name)), 0)
    return ahead[:to_tasks]


def command_of_step(state: Workflow, step: str) -> str | None:
    """Return the command that green and refactor run: the one that showed the failing test."""
    if step not in CYCLE[1:]:
        return None
    return failing_command(state, None if find_phase(state, step) else task_at_hand(state))


def is_step_done(state: Workflow, step: str) -> bool:
    """Return whether the last run gave what a step asks for: red a failure, the others none."""
    is_failure = state["tests"].get("last_result") == "failed"
    task = task_at_hand(state)
    if task is not None and inner_phase(task) == step:
        missing: Sequence[str] = missing_for_task(state, task, step)
    else:
        missing = [kind for kind in unmet(state) if kind in ("failure", "tests")]
    return is_failure == (step == "red") and not missing


def _move_to_tasks(state: Workflow, args: Fields) -> tuple[list[Draft], Workflow] | Refusal:
    """Return the events that lead to the phase of the tasks, and the state there."""
    drafts: list[Draft] = []
    for _ in phases_before(state, args["step"]):
        moves = advance(state, args)
        if isinstance(moves, Refusal):
            return moves
        drafts += moves
        state = _after(state, moves)
    return drafts, state


def _after(state: Workflow, drafts: list[Draft]) -> Workflow:
    for draft in drafts:
        event: Event = {**draft, "at": state["updated_at"], "stream": state["id"]}  # type: ignore[typeddict-item]
        state = evolve(state, event)
    return state


def commit_target(state: Workflow) -> Task | str | Refusal:
    """Return the task that a commit completes, or the phase that asks for one.

    Return a refusal if neither is ready for it.
    """
    task, phase = task_at_hand(state), state["phase"]
    if task is not None and task["status"] == "in_progress":
        return task
    needs = needs_of(state, phase)
    if phase is not None and "commit" in needs:
        missing = [kind for kind in unmet(state) if kind != "commit"]
        if not missing:
            return phase
        why = f"commit: {phase} of {state['id']} needs {', '.join(missing)} first"
        return Refusal("pending", why, f"holdfast show {state['id']}")
    following = next_phases(state, phase) if phase is not None else []
    if following and "commit" in needs_of(state, following[0]) and not unmet(state):
        return following[0]
    why = f"commit: no task of {state['id']} is in progress, and its phase asks for no commit"
    return Refusal("wrong_order", why, f"holdfast show {state['id']}")


def is_tested(state: Workflow, target: Task | str) -> bool:
    """Return whether the tests passed before this commit, so that no file may change after them."""
    tests = state["tests"]
    if tests.get("evidence") != RUN or tests.get("last_result") != "passed":
        return False
    if isinstance(target, str):
        return str(tests.get("ran_in", "")).partition(",")[0] in CYCLE
    return tests.get("ran_in") == mark_of_run(state, target, inner_phase(target))


@decides("record_gate")
def record_gate(state: Workflow, args: Fields) -> Decision:
    """Record the result of gates, and enter their phase if nothing is missing before it.

    What is claimed before the phase that asks for it says nothing about the work.
    """
    drafts = _moves_to_gate(state, args)
    for name in (args["gate"], *args.get("also", ())):
        kind = args.get("evidence", CLAIM)
        if kind == CHECK and evidence_of(state, name) != CHECK:
            kind = CLAIM
        recorded = evidence.record_one_gate(state, {**args, "gate": name, "evidence": kind})
        if isinstance(recorded, Refusal):
            return recorded
        is_claim = args["passed"] and kind == CLAIM
        if is_claim and (refusal := _refuse_early_claim(_after(state, drafts), name)):
            return refusal
        drafts += recorded
    return drafts


def _refuse_early_claim(state: Workflow, gate: str) -> Refusal | None:
    """Return a refusal if the recipe declares a gate, and the phase that asks for it is pending."""
    if gate not in state["recipe"].get("gates", {}):
        return None
    for phase in state["phases"]:
        asks = "gates" in needs_of(state, phase["name"]) and gate in gates_of(state, phase["name"])
        if asks and phase["status"] == "pending":
            why = f"gate record: {gate} belongs to {phase['name']}, which has not begun"
            return Refusal("wrong_order", why, f"holdfast show {state['id']}")
    return None


def _moves_to_gate(state: Workflow, args: Fields) -> list[Draft]:
    """Return the events that enter the phase of a gate, if it is next and nothing is missing."""
    current = find_phase(state, state["phase"])
    if current is None or current["status"] != "in_progress":
        return []
    following = next_phases(state, current["name"])
    if not following or "gates" not in needs_of(state, following[0]):
        return []
    if args["gate"] not in gates_of(state, following[0]):
        return []
    moves = advance(state, {"facts": args.get("facts", {})})
    return [] if isinstance(moves, Refusal) else moves


@decides("record_commit")
def record_commit(state: Workflow, args: Fields) -> Decision:
    """Complete the task or the phase that a commit was made for."""
    target = commit_target(state)
    if isinstance(target, Refusal):
        return target
    if not isinstance(target, str):
        return complete_task(state, target, args)
    if target == state["phase"]:
        return advance(state, args)
    moves = advance(state, args)
    if isinstance(moves, Refusal):
        return moves
    following = advance(_after(state, moves), args)
    return following if isinstance(following, Refusal) else [*moves, *following]
