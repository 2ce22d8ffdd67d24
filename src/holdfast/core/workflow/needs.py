"""What a phase asks before it is left: tasks, gates, tests, a branch, a commit, an approval.

A recipe declares it: ``needs`` of a phase, ``task_needs`` of the phases of a task, ``evidence`` of
a gate. What lies outside a workflow arrives as ``facts``, in the command: the branch that is
checked out and whether it is the main one, the commit, the digest of the work tree.
"""

from __future__ import annotations

from holdfast.core.workflow import declared_phase, find_phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, Phase, Task, Workflow

RUN, CLAIM, CHECK, WAIVED = "run", "claim", "check", "waived"
"""What a gate's result rests on: Holdfast ran it, a caller stated it, Holdfast looked it up; or a
person decided that the gate need not be passed."""
EVIDENCE = (RUN, CLAIM, CHECK)
PULL_REQUEST = "pr_created"
TEST_GATE = "test"
"""The gate that a passing run of the test command passes."""
CHECKS = (PULL_REQUEST,)
"""The gates that Holdfast can look up."""
NEEDS = ("branch", "tasks", "failure", "tests", "gates", "commit", "approval")
"""What a phase can ask for, in the order in which it is provided.

``failure`` is a test that was seen to fail, ``tests`` are tests that were seen to pass.
"""


def needs_of(state: Workflow, name: str | None) -> list[str]:
    """Return what a phase asks before it is left."""
    declared = declared_phase(state, name)
    if declared is None:
        return []
    needs = declared.get("needs", [])
    if declared.get("approval") and "approval" not in needs:
        return [*needs, "approval"]
    return needs


def task_needs_of(state: Workflow, inner: str | None) -> list[str]:
    """Return what a phase of a task asks before it is left."""
    return state["recipe"].get("task_needs", {}).get(inner or "", [])


def unmet(state: Workflow, facts: Fields | None = None) -> Fields:
    """Return what the current phase still asks for, by kind, in order; empty if nothing.

    Without ``facts``, whatever needs them is left out.
    """
    phase = find_phase(state, state["phase"])
    if phase is None or phase["status"] in ("completed", "skipped"):
        return {}
    needs = needs_of(state, phase["name"])
    missing = {need: _missing(state, phase, need, facts) for need in NEEDS if need in needs}
    return {need: items for need, items in missing.items() if items}


def _missing(state: Workflow, phase: Phase, need: str, facts: Fields | None) -> Sequence[int | str]:
    if need == "tasks":
        return open_tasks(state)
    if need in ("tests", "failure"):
        return missing_run(state, need, mark_of_run(state))
    if need == "gates":
        return [name for name in gates_of(state, phase["name"]) if not is_passed(state, name)]
    if need == "approval":
        return [] if phase.get("approved") else [phase["name"]]
    if facts is None or not facts.get("git"):
        return []
    if need == "branch":
        is_own = facts.get("branch") is not None and not facts.get("is_main")
        return [] if is_own else ["missing"]
    return [] if is_new_commit(state, facts.get("head")) else ["missing"]


def open_tasks(state: Workflow) -> list[int | str]:
    """Return the ids of tasks that are not done; of a recipe with phases of tasks, at least one."""
    if not state["tasks"] and "task_phases" in state["recipe"]:
        return ["at least one"]
    return [task["id"] for task in state["tasks"] if task["status"] != "completed"]


def is_new_commit(state: Workflow, head: str | None) -> bool:
    """Return whether a commit was made since the work began and is not recorded yet."""
    known = [line.partition(":")[0] for line in state["commits"]]
    return head is not None and head != state.get("base") and head not in known


# Tests


def last_test_command(state: Workflow) -> str:
    """Return the test command that Holdfast ran last; empty if it ran none.

    A command that came with a record or was merely claimed is not run by itself.
    """
    tests = state["tests"]
    return str(tests.get("test_command") or "") if tests.get("evidence") == RUN else ""


def last_gate_command(state: Workflow, gate: str) -> str:
    """Return the command that Holdfast ran last for a gate; for ``test``, the test command."""
    ran = state["gates"].get(gate, {})
    command = str(ran.get("command") or "") if ran.get("evidence") == RUN else ""
    return command or (last_test_command(state) if gate == TEST_GATE else "")


def mark_of_run(state: Workflow, task: Task | None = None, inner: str | None = None) -> str:
    """Return the mark of a test run: the phase, or the phase of a task, in which it was made."""
    if task is not None and inner is not None:
        return f"task {task['id']} {inner}"
    cycle = f", cycle {state['cycle']}" if state["cycle"] > 1 else ""
    return f"{state['phase']}{cycle}"


def missing_run(state: Workflow, need: str, mark: str) -> list[str]:
    """Return what is missing for ``tests`` or ``failure``; only a run in this phase counts."""
    tests = state["tests"]
    is_seen = tests.get("evidence") == RUN and tests.get("ran_in") == mark
    result = tests.get("last_result") if is_seen else None
    if need == "failure":
        # A run that was cut short, or in which no test failed, shows no failing test.
        is_shown = not tests.get("cut_short") and tests.get("counts", {}).get("failed") != 0
        return [] if result == "failed" and is_shown else ["a run that fails"]
    if result == "passed":
        return []
    failing = [str(name) for name in tests.get("failing_tests") or []]
    return (failing if result == "failed" else []) or ["a run is missing"]


def missing_for_task(state: Workflow, task: Task, inner: str) -> list[str]:
    """Return what a phase of a task still asks for."""
    mark = mark_of_run(state, task, inner)
    needs = task_needs_of(state, inner)
    return [item for need in needs for item in missing_run(state, need, mark)]


# Gates


def evidence_of(state: Workflow, gate: str) -> str:
    """Return what a gate takes: ``run``, ``claim`` or ``check``."""
    declared = state["recipe"].get("gates", {}).get(gate, {})
    taken = declared.get("evidence", RUN if "command" in declared else CLAIM)
    return taken if taken in EVIDENCE else CLAIM


def gates_of(state: Workflow, phase: str) -> list[str]:
    """Return the gates of a phase: its steps; the last phase has those that are no step."""
    steps = {
        name: declared["name"]
        for declared in state["recipe"]["phases"]
        for name in declared.get("steps", [])
    }
    last = state["phases"][-1]["name"] if state["phases"] else None
    return [name for name in state["gates"] if steps.get(name, last) == phase]


def is_passed(state: Workflow, name: str) -> bool:
    """Return whether a gate is waived, or passed by the evidence that the recipe asks for."""
    gate = state["gates"][name]
    if gate.get("status") == WAIVED:
        return True
    if gate.get("status") != "completed" or gate.get("passed") is False:
        return False
    taken = evidence_of(state, name)
    return taken == CLAIM or gate.get("evidence") == taken


def pending_gates(state: Workflow) -> list[str]:
    """Return the gates that are not passed. A phase that was skipped does not ask for its own."""
    skipped = [phase["name"] for phase in state["phases"] if phase["status"] == "skipped"]
    excused = [name for phase in skipped for name in gates_of(state, phase)]
    return [name for name in state["gates"] if name not in excused and not is_passed(state, name)]


def waived_gates(state: Workflow) -> list[str]:
    return [name for name, gate in state["gates"].items() if gate.get("status") == WAIVED]
