"""Run the command that verifies a unit, and report its result as evidence.

A command from the command line is run as it is. A command that is stored with a unit runs only
after a person approved exactly that command, like every command of a repository.
"""

from __future__ import annotations

from holdfast.core.refusal import word
from holdfast.core.time import duration_s
from holdfast.core.workflow.state import find_task
from holdfast.errors import Refused
from holdfast.evidence.run import run as run_command
from holdfast.loops import page_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Task, Workflow
    from holdfast.evidence.run import Outcome
    from holdfast.workspace.location import Workspace

DEFAULT_LIMIT = "30m"
_MAX_TAIL = 1_000
"""Characters of the output that are recorded."""


def seconds_of(limit: str | None) -> int:
    """Return a time limit in seconds; raise ``Refused`` if it is not a duration."""
    seconds = duration_s(limit or DEFAULT_LIMIT)
    if not seconds:
        raise Refused("invalid", f"{str(limit)[:40]!r} is not a duration", "--timeout 30m")
    return seconds


def own_command(workspace: Workspace, state: Workflow, task: Task) -> str | None:
    """Return the unit's own command, if any; raise ``Refused`` if it is not approved."""
    from holdfast.workspace import trust

    command = task.get("verify")
    if not isinstance(command, str):
        return None
    trust.check(workspace, f"unit {task['id']}", command, f"the loop {state['id']}")
    return command


def run(
    workspace: Workspace, state: Workflow, unit: str, words: list[str], limit: str | None
) -> tuple[Fields, str | None]:
    """Run the command ``words``, or else the unit's own.

    Return the evidence, and why it failed or ``None``. Raise ``Refused`` if nothing can be run.
    """
    task = find_task(state, unit)
    if task is not None and task["status"] != "verifying":
        why = f"it is {task['status'].replace('_', ' ')}, not verifying"
        raise Refused(
            "wrong_order", f"loop verify: {unit} of {state['id']}: {why}", "holdfast loop next"
        )
    own = own_command(workspace, state, task) if task is not None and not words else None
    command = words or own
    if not command:
        raise Refused(
            "no_command",
            f"loop verify: nothing says what verifies {unit[:40]}",
            f"holdfast loop verify {word(unit)} --run -- COMMAND",
        )
    root = page_files.worktree_root(workspace, state, "loop verify")
    outcome = run_command(command, root, limit_s=seconds_of(limit))
    return evidence_of(command, outcome)


def evidence_of(command: list[str] | str, outcome: Outcome) -> tuple[Fields, str | None]:
    """Return the evidence of a run, and why it failed or ``None``.

    Raise ``Refused`` if the command could not be started.
    """
    shown = command if isinstance(command, str) else " ".join(word(part) for part in command)
    if not outcome.started:
        raise Refused(
            "not_started",
            f"{shown[:80]} could not be started: {outcome.why}",
            "check the command, then run it again",
        )
    evidence: Fields = {"command": shown, "exit_code": outcome.exit_code}
    if outcome.exit_code == 0:
        return evidence, None
    ended = "not done in time" if outcome.timed_out else f"exit code {outcome.exit_code}"
    return evidence, f"{ended}: {outcome.tail[-_MAX_TAIL:].strip()}".rstrip(": ")
