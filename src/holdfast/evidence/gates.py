"""Evidence: commands that are run and recorded, and the files that were touched.

A command is run without the workspace's lock, as long as it takes; only its result is recorded
under it. Where a command came from the repository, a person must have approved it (``trust``).
"""

from __future__ import annotations

import os

from holdfast.core.refusal import word
from holdfast.core.time import duration_s
from holdfast.core.workflow.evidence import RUN
from holdfast.errors import HoldfastError, Refused
from holdfast.evidence import git, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.evidence.run import Outcome
    from holdfast.workspace.location import Workspace

    Echo = Callable[[bytes], None]
    Asked = Callable[[], bool]

LIMIT = "10m"
MAX_NAMES = 200
"""So many names of tests are kept of each kind; how many there were is kept anyway."""
_MAX_ERROR = 500


def _never() -> bool:
    return False


class Order:
    """What is to be run: a list of words as the caller gave them, or a line for the shell."""

    __slots__ = ("command", "limit")

    def __init__(self, command: list[str] | str, limit: str | None) -> None:
        self.command = command
        self.limit = limit or LIMIT

    @property
    def shown(self) -> str:
        if isinstance(self.command, str):
            return self.command
        return " ".join(word(part) for part in self.command)


def gate_order(
    workspace: Workspace, state: Workflow, gate: str, given: list[str], limit: str | None
) -> Order:
    """What ``gate run`` runs: what the caller says, else the recipe, else the settings."""
    from holdfast.workspace import settings, trust

    if given:
        return Order(_sensible(given), limit)
    declared = state["recipe"].get("gates", {}).get(gate, {})
    source, is_theirs = f"the recipe {state['recipe']['name']}", True
    if "command" not in declared:
        declared, is_theirs = settings.load(workspace.root).gate(gate)
        source = settings.TEAM
    if not isinstance(declared.get("command"), str):
        raise Refused(
            "no_command",
            f"gate run: nothing says what {gate} runs",
            f"holdfast gate run {word(gate)} -- COMMAND, or record what you found: "
            f"holdfast gate record {word(gate)} --passed",
        )
    if is_theirs:
        trust.check(workspace, gate, declared["command"], source)
    return Order(declared["command"], limit or declared.get("timeout"))


def undeclared(workspace: Workspace, state: Workflow, gate: str) -> str | None:
    """What to say about a gate that the recipe, where it has some, does not have."""
    declared = state["recipe"].get("gates", {})
    if not declared or gate in declared:
        return None
    from difflib import get_close_matches

    from holdfast.workspace import settings

    try:
        if settings.load(workspace.root).gate(gate)[0]:
            return None
    except HoldfastError:
        # The result is recorded by now: settings that are bad are for a command that needs them.
        pass
    close = get_close_matches(gate, declared, 1)
    asked = f"; did you mean {close[0]!r}?" if close else ""
    return f"the recipe {state['recipe']['name']} does not declare a gate {gate!r}{asked}"


def _sensible(given: list[str]) -> list[str]:
    if not given[0].strip():
        raise Refused("invalid", "the command is empty", "name a program after --")
    return given


def run_gate(
    workspace: Workspace, order: Order, echo: Echo | None, is_cancelled: Asked = _never
) -> tuple[Fields, str, str | None]:
    """Run it; return the result's fields, the tree's digest after it, and a note."""
    before = tree.read(workspace)
    commit = workspace.commit()
    outcome = _run(workspace, order, echo, is_cancelled)
    after = tree.read(workspace)
    changed = tree.changed(before, after)
    after_digest = tree.digest_of(after)
    fields: Fields = {
        "command": order.shown,
        "exit_code": outcome.exit_code,
        "duration_ms": outcome.duration_ms,
        "output_tail": outcome.tail.rstrip("\n"),
        "commit": commit,
        "tree": tree.digest_of(before) if changed else after_digest,
    }
    if outcome.signal is not None:
        fields["signal"] = outcome.signal
    if outcome.timed_out:
        fields["timed_out"] = True
    if outcome.cancelled:
        fields["cancelled"] = True
    note = None
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        note = f"{', '.join(changed[:3])}{more} changed while it ran, so the result is stale"
    return fields, after_digest, note


def run_tests(workspace: Workspace, order: Order, echo: Echo | None) -> Fields:
    """Runs it; gives what is known of the tests."""
    from holdfast.evidence import testlogs

    outcome = _run(workspace, order, echo)
    told = testlogs.read(outcome.output)
    has_passed = outcome.exit_code == 0 and not outcome.timed_out
    failing, passing = told.get("failing", []), told.get("passing", [])
    tests: Fields = {
        "test_command": order.shown,
        "last_result": "passed" if has_passed else "failed",
        "failing_tests": failing[:MAX_NAMES],
        "passing_tests": passing[:MAX_NAMES],
        "evidence": RUN,
        "exit_code": outcome.exit_code,
        "duration_ms": outcome.duration_ms,
    }
    if told:
        tests["runner"] = told["runner"]
        names = ("passed", "failed", "skipped")
        tests["counts"] = {name: told[name] for name in names if name in told}
    if not has_passed:
        tests["last_error"] = _error(order, outcome, told)
    return tests


def _error(order: Order, outcome: Outcome, told: Fields) -> str:
    if outcome.timed_out:
        return f"not done after {order.limit}"
    lines = [line.strip() for line in outcome.tail.split("\n") if line.strip()]
    last = lines[-1] if lines else f"exit code {outcome.exit_code}"
    return str(told.get("error") or last)[:_MAX_ERROR]


def _run(
    workspace: Workspace, order: Order, echo: Echo | None, is_cancelled: Asked = _never
) -> Outcome:
    from holdfast.evidence.run import run

    seconds = duration_s(order.limit)
    if not seconds:
        raise Refused(
            "invalid", f"{order.limit[:40]!r} is not a duration", "write it like 30s, 90m or 2h"
        )
    outcome = run(
        order.command, workspace.root, limit_s=seconds, echo=echo, is_cancelled=is_cancelled
    )
    if not outcome.started:
        raise Refused(
            "not_started",
            f"{order.shown[:200]} could not be started: {outcome.why}; nothing was recorded",
            "check the command, then run the same again",
        )
    return outcome


def file_entry(workspace: Workspace, path: str, phase: str | None, lines: int | None) -> Fields:
    """A touched file as it is recorded: by its path from the root."""
    top = os.path.realpath(workspace.root)
    full = os.path.realpath(os.path.join(workspace.root, path.replace("\0", "")))
    if "\0" in path or not full.startswith(os.path.join(top, "")):
        raise Refused(
            "outside", f"files add: {path[:200]!r} is not in the workspace", "name a file in it"
        )
    entry: Fields = {"path": os.path.relpath(full, top)}
    if phase is not None:
        entry["phase"] = phase
    if lines is not None:
        entry["lines_added"] = lines
    return entry


def touched(workspace: Workspace, state: Workflow) -> list[Fields]:
    """What git tells of the files that changed since the workflow began, where that is news."""
    if git.line(workspace.root, "rev-parse", "--git-dir") is None:
        raise Refused(
            "no_git", "files sync: git does not know this folder", "holdfast files add PATH"
        )
    known = {file["path"]: file for file in state["files"]}
    found = []
    for path, lines in sorted(
        git.lines_added(workspace.root, state.get("base"), state["created_at"]).items()
    ):
        name = path.encode(errors="replace").decode()
        before = known.get(name)
        if workspace.is_own(path) or (before and before.get("lines_added") == lines):
            continue
        found.append({"path": name, **_phase_of(state, before), "lines_added": lines})
    return found


def _phase_of(state: Workflow, before: Fields | None) -> Fields:
    """The phase in which a file was first touched."""
    if before is not None:
        return {"phase": before["phase"]} if "phase" in before else {}
    phase = current_phase(state)
    return {} if phase is None else {"phase": phase}


def current_phase(state: Workflow) -> str | None:
    """The sub-phase of the task in progress, else the workflow's phase."""
    from holdfast.core.next_step import current_task, inner_phase

    task = current_task(state)
    inner = inner_phase(task) if task is not None else None
    return inner or state["phase"]
