"""What a person sees who takes a workflow up again: how far it is, and where it goes on."""

from __future__ import annotations

from holdfast.cli.terminal_text import clean
from holdfast.core.next_step import current_task, inner_phase
from holdfast.core.refusal import word
from holdfast.core.workflow import folder_mode
from holdfast.core.workflow.state import declared_phase, find_phase, is_floating

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.core.types import Phase, Task, Workflow

_COMMIT = 12
_MOST_TESTS = 10
_RULE = 47


def resume_panel(screen: Screen, state: Workflow, branch: str | None) -> Iterator[str]:
    """The workflow as a tree, then the place where it goes on, then what failed last."""
    yield from _mismatch(screen, state, branch)
    yield from _identity(screen, state)
    yield "  Progress:"
    for phase in state["phases"]:
        yield from _phase(screen, state, phase)
    if state["phase"] is None:
        yield from _tasks(screen, state)
    yield ""
    yield from _banner(screen, state)
    yield from _last_tests(screen, state)


def _mismatch(screen: Screen, state: Workflow, branch: str | None) -> Iterator[str]:
    held = state["branch"]
    if branch is None or held in (None, branch) or is_floating(state):
        return
    yield screen.paint(
        f"The workflow is for branch {clean(held)}, checked out is {clean(branch)}.", "warn"
    )
    yield f"  1) git switch {clean(word(held))}"
    yield f"  2) holdfast abandon -w {clean(state['id'])}, and start anew"
    yield ""


def _identity(screen: Screen, state: Workflow) -> Iterator[str]:
    yield screen.paint("Found active workflow:", "strong")
    yield f"  ID: {clean(state['id'])}"
    number, total = folder_mode.place_of(state)
    about = state["context"].get("feature_file") if total else state["subject"]
    which = f" ({number} of {total})" if total else ""
    is_feature = total or state["recipe"].get("subject_key") == "feature_file"
    yield f"  {'Feature' if is_feature else 'Subject'}: {clean(about)}{which}"
    yield f"  Started: {screen.age(state['created_at'])}"
    yield f"  Last activity: {screen.age(state['updated_at'])}"
    yield ""


def _phase(screen: Screen, state: Workflow, phase: Phase) -> Iterator[str]:
    current = phase["name"] == state["phase"]
    tasks = current and bool(state["tasks"])
    name = clean(spoken(phase["name"]))
    about = _phase_facts(state, phase, has_tasks=tasks)
    facts = screen.paint(f" ({clean(about)})", "dim") if about else ""
    yield f"    {screen.mark(phase['status'])} {name}{facts}{':' if tasks else ''}"
    if tasks:
        yield from _tasks(screen, state)


def _phase_facts(state: Workflow, phase: Phase, *, has_tasks: bool) -> str:
    if has_tasks:
        done = [task for task in state["tasks"] if task["status"] == "completed"]
        return f"{len(done)}/{len(state['tasks'])} tasks complete"
    declared = declared_phase(state, phase["name"])
    if declared is not None and declared.get("sets_branch") and phase["status"] == "completed":
        return state["branch"] or ""
    return ", ".join(phase.get("steps", []))


def spoken(name: str) -> str:
    """``task_execution`` as people say it."""
    words = ["PR" if word == "pr" else word for word in name.replace("_", " ").split(" ")]
    said = " ".join(words)
    return said[:1].upper() + said[1:]


def _tasks(screen: Screen, state: Workflow) -> Iterator[str]:
    for task in state["tasks"]:
        facts = _task_facts(state, task)
        about = screen.paint(f" ({clean(facts)})", "dim") if facts else ""
        said = clean(f"Task {task['id']}: {task['description']}")
        yield f"       {screen.mark(task['status'])} {said}{about}"


def _task_facts(state: Workflow, task: Task) -> str:
    if task.get("commit"):
        return f"committed: {str(task.get('commit'))[:_COMMIT]}"
    if task["status"] == "blocked":
        return f"blocked: {task.get('reason', '')}"
    inner = inner_phase(task)
    if task["status"] != "in_progress" or inner is None:
        return ""
    result = state["tests"].get("last_result")
    tests = {"failed": " - tests failing", "passed": " - tests passing"}.get(str(result), "")
    return f"{inner.upper()} phase{tests}"


def _banner(screen: Screen, state: Workflow) -> Iterator[str]:
    rule = ("━" if screen.fancy else "-") * min(_RULE, screen.width or _RULE)
    task = current_task(state)
    yield screen.paint(rule, "dim")
    if task is not None:
        number = state["tasks"].index(task) + 1
        said = clean(f"Task {number}/{len(state['tasks'])} - {task['description']}")
        yield f"{screen.mark('in_progress')} {screen.paint(f'Resuming: {said}', 'strong')}"
        yield f"  Phase: {clean(_place(state, inner_phase(task)))}"
    else:
        phase = find_phase(state, state["phase"])
        said = spoken(phase["name"]) if phase is not None else "everything is done"
        yield f"{screen.mark('in_progress')} {screen.paint(f'Resuming: {clean(said)}', 'strong')}"
    yield screen.paint(rule, "dim")


_MEANS = {"red": "write a test that fails", "green": "make the tests pass", "refactor": "tidy up"}


def _place(state: Workflow, inner: str | None) -> str:
    if inner is None:
        return spoken(str(state["phase"]))
    return f"{inner.upper()} ({_MEANS[inner]})" if inner in _MEANS else inner.upper()


def _last_tests(screen: Screen, state: Workflow) -> Iterator[str]:
    tests = state["tests"]
    failing = tests.get("failing_tests") or []
    if not isinstance(tests.get("last_run"), str) or not isinstance(failing, list):
        return
    yield f"Last test run ({screen.age(tests['last_run'])}): {clean(tests.get('last_result', '?'))}"
    for name in failing[:_MOST_TESTS]:
        yield f"  {screen.mark('blocked')} {clean(name)}"
    if len(failing) > _MOST_TESTS:
        yield f"  and {len(failing) - _MOST_TESTS} more: holdfast show {clean(state['id'])}"
