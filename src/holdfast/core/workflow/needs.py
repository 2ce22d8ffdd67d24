"""The needs of a phase before it can be left: tasks, gates, tests, a branch, a commit, an approval.

A recipe declares it: ``needs`` of a phase, ``task_needs`` of the phases of a task, ``evidence`` of
a gate. What lies outside a workflow arrives as ``facts``, in the command: the branch that is
checked out and whether it is the main one, the commit, the digest of the work tree.
"""

from __future__ import annotations

from holdfast.core.workflow import declared_phase, find_phase
from holdfast.core.workflow.questions import blocking_questions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, Phase, Task, Workflow

RUN, CLAIM, CHECK, WAIVED = "run", "claim", "check", "waived"
"""What a gate's result rests on: Holdfast ran it, a caller stated it, Holdfast looked it up; or a
person decided that the gate need not be passed."""
EVIDENCE = (RUN, CLAIM, CHECK)
_FAILED = ("failed", "blocked", "rejected", "error")
"""Statuses of a gate that is not passed; other tools write some of them."""
PULL_REQUEST = "pr_created"
TEST_GATE = "test"
"""The gate that a passing run of the test command passes."""
CHECKS = (PULL_REQUEST,)
"""The gates that Holdfast can look up."""
UNKNOWN_TREE = "?"
"""The prefix of the digest of a work tree that could not be read; the reason follows."""
ANY_TASK = "at least one"
"""What is asked for in place of a task's id where there is no task yet."""
UNTESTED = "untested"
"""What a commit lacks if files have changed since the tests passed."""
MASK = "[masked]"
"""The text that replaces a secret in the output and the command of a run."""
NOT_RUN = (126, 127)
"""Exit codes of a shell that could not run the command: nothing was tested."""
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

    Whatever a recipe asks, no phase is left before its blocking questions are answered. Without
    ``facts``, whatever needs them is left out.
    """
    state = with_stale_gates(state, facts)
    phase = find_phase(state, state["phase"])
    if phase is None or phase["status"] in ("completed", "skipped"):
        return {}
    needs = needs_of(state, phase["name"])
    missing = {need: _missing(state, phase, need, facts) for need in NEEDS if need in needs}
    missing["questions"] = [question["id"] for question in blocking_questions(state)]
    return {need: items for need, items in missing.items() if items}


def _missing(state: Workflow, phase: Phase, need: str, facts: Fields | None) -> Sequence[int | str]:
    if need == "tasks":
        return open_tasks(state)
    if need in ("tests", "failure"):
        return missing_run(state, need)
    if need == "gates":
        return [name for name in gates_of(state, phase["name"]) if not is_passed(state, name)]
    if need == "approval":
        return [] if phase.get("approved") else [phase["name"]]
    if facts is None or not facts.get("git"):
        return []
    if need == "branch":
        return ["missing"] if is_branch_missing(facts) else []
    if not is_new_commit(state, facts.get("head")):
        return ["missing"]
    tests = state["tests"]
    is_tested = tests.get("evidence") == RUN and tests.get("tree") is not None
    return [UNTESTED] if is_tested and not is_fresh(tests, facts.get("tree")) else []


def is_branch_missing(facts: Fields | None) -> bool:
    """Return whether no branch but a main one is checked out; False outside git."""
    if facts is None or not facts.get("git"):
        return False
    return facts.get("branch") is None or bool(facts.get("is_main"))


def open_tasks(state: Workflow) -> list[int | str]:
    """Return the ids of tasks that are not done; of a recipe with phases of tasks, at least one."""
    if not state["tasks"] and "task_phases" in state["recipe"]:
        return [ANY_TASK]
    return [task["id"] for task in state["tasks"] if task["status"] != "completed"]


def is_new_commit(state: Workflow, head: str | None) -> bool:
    """Return whether a commit was made since the work began and is not recorded yet."""
    known = [line.partition(":")[0] for line in state["commits"]]
    return head is not None and head != state.get("base") and head not in known


# Tests


def last_test_command(state: Workflow) -> str:
    """Return the test command that Holdfast ran last; empty if it ran none.

    A command that came with a record or was merely claimed is not run by itself, and one with a
    secret in it was not kept whole.
    """
    return _kept_command(state["tests"], "test_command")


def last_gate_command(state: Workflow, gate: str) -> str:
    """Return the command that Holdfast ran last for a gate; for ``test``, the test command."""
    command = _kept_command(state["gates"].get(gate, {}), "command")
    return command or (last_test_command(state) if gate == TEST_GATE else "")


def _kept_command(ran: Fields, key: str) -> str:
    command = str(ran.get(key) or "") if ran.get("evidence") == RUN else ""
    return "" if MASK in command else command


def mark_of_run(state: Workflow, task: Task | None = None, inner: str | None = None) -> str:
    """Return the mark of a test run: the phase, or the phase of a task, in which it was made."""
    if task is not None and inner is not None:
        return f"task {task['id']} {inner}"
    cycle = f", cycle {state['cycle']}" if state["cycle"] > 1 else ""
    return f"{state['phase']}{cycle}"


def subject_of_run(state: Workflow, task: Task | None = None) -> str:
    """Return what a failing test and the run that passes after it are about: a task, or a cycle."""
    return f"cycle {state['cycle']}" if task is None else f"task {task['id']}"


def shows_failure(tests: Fields) -> bool:
    """Return whether a run shows a test that fails.

    It does not if it was cut short, if no test failed in it, or if the command was not found.
    """
    is_complete = not tests.get("cut_short") and tests.get("exit_code") not in NOT_RUN
    has_failed = tests.get("last_result") == "failed" and _counts(tests).get("failed") != 0
    return is_complete and has_failed


def failing_tests(tests: Fields) -> list[str]:
    """Return the names of the tests that failed; none where an edit put no list of them."""
    names = tests.get("failing_tests")
    return [str(name) for name in names] if isinstance(names, list) else []


def counts_in_words(tests: Fields) -> list[str]:
    """Return ``12 passed``, ``1 failed``; nothing where an edit put no counts."""
    return [f"{count} {name}" for name, count in _counts(tests).items() if count]


def _counts(tests: Fields) -> Fields:
    counts = tests.get("counts")
    return counts if isinstance(counts, dict) else {}


def failing_command(state: Workflow, task: Task | None = None) -> str | None:
    """Return the command that showed the failing test of a task or a cycle, if there was one.

    Only this command shows that the test passes: another one may not run it.
    """
    failure = state["tests"].get("failure") or {}
    return failure.get("command") if failure.get("of") == subject_of_run(state, task) else None


def missing_run(
    state: Workflow, need: str, task: Task | None = None, inner: str | None = None
) -> list[str]:
    """Return what is missing for ``tests`` or ``failure``; only a run in this phase counts."""
    tests, mark = state["tests"], mark_of_run(state, task, inner)
    is_seen = tests.get("evidence") == RUN and tests.get("ran_in") == mark
    if need == "failure":
        return [] if is_seen and shows_failure(tests) else ["a run that fails"]
    result = tests.get("last_result") if is_seen else None
    if result == "passed":
        own = failing_command(state, task)
        return [] if own in (None, tests["test_command"]) else [f"a run of {own}"]
    return (failing_tests(tests) if result == "failed" else []) or ["a run is missing"]


def missing_for_task(state: Workflow, task: Task, inner: str) -> list[str]:
    """Return what a phase of a task still asks for."""
    needs = task_needs_of(state, inner)
    return [item for need in needs for item in missing_run(state, need, task, inner)]


def is_untested(state: Workflow, task: Task) -> bool:
    """Return whether a task is done, and its recipe's tests of it were not seen."""
    needs = state["recipe"].get("task_needs", {})
    if task["status"] != "completed" or not needs:
        return False
    if "phases" not in task:
        return bool(task.get("claimed"))  # The feature's list had it ticked.
    went = [name for name, status in task.get("phases", {}).items() if status == "completed"]
    seen = {need for name in went for need in needs.get(name, [])}
    asked = {need for names in needs.values() for need in names}
    return bool(task.get("claimed")) or seen != asked


# Gates


def evidence_of(state: Workflow, gate: str) -> str:
    """Return what a gate takes: ``run``, ``claim`` or ``check``. Outside git, no check is made."""
    declared = state["recipe"].get("gates", {}).get(gate, {})
    taken = declared.get("evidence", RUN if "command" in declared else CLAIM)
    return CLAIM if taken not in EVIDENCE or (taken == CHECK and not has_git(state)) else taken


def has_git(state: Workflow) -> bool:
    """Return whether the workflow began in a git repository."""
    return state["branch"] is not None or state.get("base") is not None


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


def has_failed(gate: Fields) -> bool:
    """Return whether the result of a gate is a failure, by its status or its outcome."""
    return gate.get("status") in _FAILED or gate.get("passed") is False


def with_stale_gates(state: Workflow, facts: Fields | None) -> Workflow:
    """Return the state with every gate stale that is not known to be of the facts' work tree."""
    tree = (facts or {}).get("tree")
    stale = {
        name: {**gate, "status": "stale"}
        for name, gate in state["gates"].items()
        if not is_fresh(gate, tree)
    }
    return {**state, "gates": {**state["gates"], **stale}} if stale else state


def is_fresh(result: Fields, tree: str | None) -> bool:
    """Return whether a result is of this work tree; True if it rests on no run, or is not asked."""
    if tree is None or not _is_run(result):
        return True
    return result.get("tree") == tree and not tree.startswith(UNKNOWN_TREE)


def is_unknown_tree(facts: Fields | None) -> bool:
    """Return whether the work tree could not be read."""
    return str((facts or {}).get("tree")).startswith(UNKNOWN_TREE)


def why_stale(facts: Fields | None) -> str:
    """Return why gates are stale, for a sentence that goes on with what was done then."""
    if facts is not None and is_unknown_tree(facts):
        reason = facts["tree"].removeprefix(UNKNOWN_TREE)
        return f"nobody can tell whether files changed ({reason}) since"
    return "files changed since"


def was_run(state: Workflow) -> bool:
    """Return whether a gate or the tests rest on a run, which a later edit can make stale."""
    return any(map(_is_run, [*state["gates"].values(), state["tests"]]))


def _is_run(result: Fields) -> bool:
    return result.get("evidence") == RUN or result.get("tree") is not None


def pending_gates(state: Workflow) -> list[str]:
    """Return the gates that are not passed. A phase that was skipped does not ask for its own."""
    skipped = [phase["name"] for phase in state["phases"] if phase["status"] == "skipped"]
    excused = [name for phase in skipped for name in gates_of(state, phase)]
    return [name for name in state["gates"] if name not in excused and not is_passed(state, name)]


def waived_gates(state: Workflow) -> list[str]:
    return [name for name, gate in state["gates"].items() if gate.get("status") == WAIVED]
