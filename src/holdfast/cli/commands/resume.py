"""``holdfast resume``: take a workflow up in this session; for a person, where it goes on."""

from __future__ import annotations

from holdfast.answers import json
from holdfast.answers.text import clean
from holdfast.cli.answer import Answer, names_workflow, target_args
from holdfast.cli.parser import WORKFLOW, command
from holdfast.cli.screen import next_lines, note_lines
from holdfast.core.next_step import current_task, inner_phase
from holdfast.core.refusal import shell_word
from holdfast.core.workflow import declared_phase, find_phase, is_active, is_floating
from holdfast.core.workflow.lifecycle import feature_position
from holdfast.errors import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parser import Arguments
    from holdfast.cli.screen import Screen
    from holdfast.core.types import Phase, Task, Workflow
    from holdfast.keeper import Keeper, Receipt

_COMMIT_CHARS = 12
_MAX_TESTS = 10
_RULE_COLUMNS = 47
_INNER_PHASES = {
    "red": "write a test that fails",
    "green": "make the tests pass",
    "refactor": "tidy up",
}


@command(
    "resume: take a workflow up in this session and print its briefing",
    WORKFLOW,
    "holdfast resume",
    "holdfast resume dev-1f2e3d4c",
)
def resume(keeper: Keeper, args: Arguments) -> Answer:
    try:
        receipt = keeper.resume(**target_args(args))
        if keeper.has_initiatives():
            from holdfast.initiatives.initiatives import Initiatives

            receipt.notes += Initiatives(keeper).resume_noting()
    except Fault as fault:
        if fault.code != "not_writable":
            raise
        receipt = _show_read_only(keeper, args, fault)
    briefing = keeper.briefing(state=receipt.state)
    aimed = names_workflow(args) or keeper.needs_explicit_id(receipt.state)
    branch = keeper.workspace.branch()

    def lines(screen: Screen) -> Iterator[str]:
        if screen.width is None:
            # Whoever reads it from a pipe gets the briefing itself.
            yield from [clean(line) for line in briefing.split("\n")]
            yield from note_lines(screen, receipt.notes)
            return
        yield from resume_panel(screen, receipt.state, branch)
        yield from note_lines(screen, receipt.notes)
        yield from next_lines(screen, receipt.state, aimed=aimed)

    return Answer(lambda: {"briefing": briefing, **json.change(receipt)}, lines)


def _show_read_only(keeper: Keeper, args: Arguments, fault: Fault) -> Receipt:
    """Return the workflow as it is, where nothing can be recorded.

    Raise the fault if resuming would have to bring it back, or into this worktree, first.
    """
    receipt = keeper.show(workflow=args["workflow"])
    state = receipt.state
    if not is_active(state) or state["worktree"] != keeper.workspace.name:
        raise fault
    receipt.notes.append(f"it was read and not taken up: {fault.message}; {fault.hint}")
    return receipt


def resume_panel(screen: Screen, state: Workflow, branch: str | None) -> Iterator[str]:
    """Yield the workflow as a tree, then where it goes on, then the tests that failed last."""
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
    expected = state["branch"]
    if branch is None or expected in (None, branch) or is_floating(state):
        return
    yield screen.paint(
        f"The workflow is for branch {clean(expected)}, checked out is {clean(branch)}.", "warn"
    )
    yield f"  1) git switch {clean(shell_word(expected))}"
    yield f"  2) holdfast abandon -w {clean(state['id'])}, and start anew"
    yield ""


def _identity(screen: Screen, state: Workflow) -> Iterator[str]:
    yield screen.paint("Found active workflow:", "strong")
    yield f"  ID: {clean(state['id'])}"
    number, total = feature_position(state)
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
    name = clean(_in_words(phase["name"]))
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


def _in_words(name: str) -> str:
    """Return ``task_execution`` as ``Task execution``."""
    words = ["PR" if part == "pr" else part for part in name.split("_")]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def _tasks(screen: Screen, state: Workflow) -> Iterator[str]:
    for task in state["tasks"]:
        facts = _task_facts(state, task)
        about = screen.paint(f" ({clean(facts)})", "dim") if facts else ""
        text = clean(f"Task {task['id']}: {task['description']}")
        yield f"       {screen.mark(task['status'])} {text}{about}"


def _task_facts(state: Workflow, task: Task) -> str:
    if task.get("commit"):
        return f"committed: {str(task.get('commit'))[:_COMMIT_CHARS]}"
    if task["status"] == "blocked":
        return f"blocked: {task.get('reason', '')}"
    inner = inner_phase(task)
    if task["status"] != "in_progress" or inner is None:
        return ""
    result = state["tests"].get("last_result")
    tests = {"failed": " - tests failing", "passed": " - tests passing"}.get(str(result), "")
    return f"{inner.upper()} phase{tests}"


def _banner(screen: Screen, state: Workflow) -> Iterator[str]:
    rule = ("━" if screen.fancy else "-") * min(_RULE_COLUMNS, screen.width or _RULE_COLUMNS)
    task = current_task(state)
    yield screen.paint(rule, "dim")
    if task is not None:
        number = state["tasks"].index(task) + 1
        text = clean(f"Task {number}/{len(state['tasks'])} - {task['description']}")
        yield f"{screen.mark('in_progress')} {screen.paint(f'Resuming: {text}', 'strong')}"
        yield f"  Phase: {clean(_phase_in_words(state, inner_phase(task)))}"
    else:
        phase = find_phase(state, state["phase"])
        text = _in_words(phase["name"]) if phase is not None else "everything is done"
        yield f"{screen.mark('in_progress')} {screen.paint(f'Resuming: {clean(text)}', 'strong')}"
    yield screen.paint(rule, "dim")


def _phase_in_words(state: Workflow, inner: str | None) -> str:
    if inner is None:
        return _in_words(str(state["phase"]))
    return f"{inner.upper()} ({_INNER_PHASES[inner]})" if inner in _INNER_PHASES else inner.upper()


def _last_tests(screen: Screen, state: Workflow) -> Iterator[str]:
    tests = state["tests"]
    failing = tests.get("failing_tests") or []
    if not isinstance(tests.get("last_run"), str) or not isinstance(failing, list):
        return
    yield f"Last test run ({screen.age(tests['last_run'])}): {clean(tests.get('last_result', '?'))}"
    for name in failing[:_MAX_TESTS]:
        yield f"  {screen.mark('blocked')} {clean(name)}"
    if len(failing) > _MAX_TESTS:
        yield f"  and {len(failing) - _MAX_TESTS} more: holdfast show {clean(state['id'])}"
