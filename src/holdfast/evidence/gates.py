"""Run the command of a gate or of tests, and list the files that a workflow touched.

Commands run without the workspace's lock, as long as they take. A command that came with the
repository runs only after a person approved it (``trust``).
"""

from __future__ import annotations

import os

from holdfast.core.next_step import current_task, inner_phase
from holdfast.core.refusal import shell_word
from holdfast.core.time import duration_s
from holdfast.core.workflow.evidence import RUN
from holdfast.errors import HoldfastError, Refused
from holdfast.evidence import git, tree
from holdfast.evidence.run import RunOutcome, run
from holdfast.workspace import settings, trust
from holdfast.workspace.location import OWN_PREFIXES, is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.workspace.location import Workspace

    Echo = Callable[[bytes], None]
    IsCancelled = Callable[[], bool]

DEFAULT_TIMEOUT = "10m"
MAX_NAMES = 200
"""The number of names of failing and of passing tests that are kept; counts are complete."""
_MAX_ERROR_CHARS = 500
_MAX_CHANGED_NAMES = 3


class GateCommand:
    """A command to run: a list of words, or a line for the shell; and its timeout."""

    __slots__ = ("command", "timeout")

    def __init__(self, command: list[str] | str, timeout: str | None) -> None:
        self.command = command
        self.timeout = timeout or DEFAULT_TIMEOUT

    @property
    def text(self) -> str:
        """The command as one line."""
        if isinstance(self.command, str):
            return self.command
        return " ".join(shell_word(part) for part in self.command)


def gate_command(
    workspace: Workspace, state: Workflow, gate: str, words: list[str], timeout: str | None
) -> GateCommand:
    """Return the caller's command, else the recipe's, else that of the settings.

    Raise ``Refused`` if there is none, or if a person has not approved it.
    """
    if words:
        if not words[0].strip():
            raise Refused("invalid", "the command is empty", "name a program after --")
        return GateCommand(words, timeout)
    declared = state["recipe"].get("gates", {}).get(gate, {})
    source, is_from_repository = f"the recipe {state['recipe']['name']}", True
    if "command" not in declared:
        declared, is_from_repository = settings.load(workspace.root).gate(gate)
        source = settings.TEAM
    if not isinstance(declared.get("command"), str):
        raise Refused(
            "no_command",
            f"gate run: nothing says what {gate} runs",
            f"holdfast gate run {shell_word(gate)} -- COMMAND, or record what you found: "
            f"holdfast gate record {shell_word(gate)} --passed",
        )
    if is_from_repository:
        trust.check(workspace, gate, declared["command"], source)
    return GateCommand(declared["command"], timeout or declared.get("timeout"))


def undeclared_note(workspace: Workspace, state: Workflow, gate: str) -> str | None:
    """Return a note if the recipe declares gates, but not this one; ``None`` otherwise."""
    declared = state["recipe"].get("gates", {})
    if not declared or gate in declared:
        return None
    from difflib import get_close_matches

    try:
        if settings.load(workspace.root).gate(gate)[0]:
            return None
    except HoldfastError:
        pass  # The result is recorded already; commands that need the settings report them.
    close = get_close_matches(gate, declared, 1)
    question = f"; did you mean {close[0]!r}?" if close else ""
    return f"the recipe {state['recipe']['name']} does not declare a gate {gate!r}{question}"


def run_gate(
    workspace: Workspace,
    command: GateCommand,
    echo: Echo | None,
    is_cancelled: IsCancelled = lambda: False,
) -> tuple[Fields, str, str | None]:
    """Run a gate's command; return the fields of the result, the tree's digest after, and a note.

    Raise ``Refused`` if it cannot be started.
    """
    before = tree.read(workspace)
    commit = workspace.commit()
    outcome = _run(workspace, command, echo, is_cancelled)
    finish = tree.start(workspace)
    before_digest = tree.digest_of(before)  # while git looks at the files
    after = finish()
    changed = tree.changed(before, after)
    after_digest = before_digest if after == before else tree.digest_of(after)
    fields: Fields = {
        "command": command.text,
        "exit_code": outcome.exit_code,
        "duration_ms": outcome.duration_ms,
        "output_tail": outcome.tail.rstrip("\n"),
        "commit": commit,
        "tree": before_digest if changed else after_digest,
    }
    if outcome.signal is not None:
        fields["signal"] = outcome.signal
    if outcome.timed_out:
        fields["timed_out"] = True
    if outcome.cancelled:
        fields["cancelled"] = True
    note = None
    if changed:
        names = ", ".join(changed[:_MAX_CHANGED_NAMES])
        if len(changed) > _MAX_CHANGED_NAMES:
            names += f" and {len(changed) - _MAX_CHANGED_NAMES} more"
        note = f"{names} changed while it ran, so the result is stale"
    return fields, after_digest, note


def run_tests(workspace: Workspace, command: GateCommand, echo: Echo | None) -> Fields:
    """Run tests; return the fields of the result. Raise ``Refused`` if they cannot be started."""
    from holdfast.evidence import testlogs

    outcome = _run(workspace, command, echo)
    log = testlogs.parse(outcome.output)
    has_passed = outcome.exit_code == 0 and not outcome.timed_out
    failing, passing = log.get("failing", []), log.get("passing", [])
    tests: Fields = {
        "test_command": command.text,
        "last_result": "passed" if has_passed else "failed",
        "failing_tests": failing[:MAX_NAMES],
        "passing_tests": passing[:MAX_NAMES],
        "evidence": RUN,
        "exit_code": outcome.exit_code,
        "duration_ms": outcome.duration_ms,
    }
    if log:
        tests["runner"] = log["runner"]
        kinds = ("passed", "failed", "skipped")
        tests["counts"] = {kind: log[kind] for kind in kinds if kind in log}
    if outcome.timed_out:
        tests["last_error"] = f"not done after {command.timeout}"
    elif not has_passed:
        last_line = outcome.tail.rstrip().rpartition("\n")[2].strip()
        why = log.get("error") or last_line or f"exit code {outcome.exit_code}"
        tests["last_error"] = why[:_MAX_ERROR_CHARS]
    return tests


def _run(
    workspace: Workspace,
    command: GateCommand,
    echo: Echo | None,
    is_cancelled: IsCancelled = lambda: False,
) -> RunOutcome:
    timeout_s = duration_s(command.timeout)
    if not timeout_s:
        message = f"{command.timeout[:40]!r} is not a duration"
        raise Refused("invalid", message, "write it like 30s, 90m or 2h")
    outcome = run(
        command.command, workspace.root, limit_s=timeout_s, echo=echo, is_cancelled=is_cancelled
    )
    if not outcome.started:
        raise Refused(
            "not_started",
            f"{command.text[:200]} could not be started: {outcome.why}; nothing was recorded",
            "check the command, then run the same again",
        )
    return outcome


def file_entry(workspace: Workspace, path: str, phase: str | None, lines: int | None) -> Fields:
    """Return the fields of a touched file; raise ``Refused`` if it is outside the workspace."""
    root = workspace.root
    full = os.path.join(root, path)
    if "\0" in path or not is_inside(full, root):
        raise Refused(
            "outside", f"files add: {path[:200]!r} is not in the workspace", "name a file in it"
        )
    name = os.path.relpath(os.path.realpath(full), os.path.realpath(root))
    entry: Fields = {"path": name}
    if phase is not None:
        entry["phase"] = phase
    if lines is not None:
        entry["lines_added"] = lines
    return entry


def touched_files(workspace: Workspace, state: Workflow) -> list[Fields]:
    """Return the files that changed since the workflow began and are not recorded as they are.

    Raise ``Refused`` if the workspace is not in a git repository.
    """
    if git.line(workspace.root, "rev-parse", "--git-dir") is None:
        raise Refused(
            "no_git", "files sync: git does not know this folder", "holdfast files add PATH"
        )
    recorded = {file["path"]: file for file in state["files"]}
    files = []
    added = git.lines_added(workspace.root, state.get("base"), state["created_at"])
    for path, lines in sorted(added.items()):
        name = path.encode(errors="replace").decode()
        before = recorded.get(name)
        if path.startswith(OWN_PREFIXES) or (before and before.get("lines_added") == lines):
            continue
        # The phase is the one in which the file was first touched.
        phase = current_phase(state) if before is None else before.get("phase")
        fields = {} if phase is None else {"phase": phase}
        files.append({"path": name, **fields, "lines_added": lines})
    return files


def current_phase(state: Workflow) -> str | None:
    """Return the sub-phase of the task in progress, else the workflow's phase."""
    task = current_task(state)
    inner = inner_phase(task) if task is not None else None
    return inner or state["phase"]
