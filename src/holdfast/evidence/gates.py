"""Run the command of a gate or of tests, and list the files that a workflow touched.

Commands run without the workspace's lock, as long as they take. A command that came with the
repository runs only after a person approved it (``trust``).
"""

from __future__ import annotations

import os
import shlex

from holdfast.core.json_text import is_encodable
from holdfast.core.next_step import current_task
from holdfast.core.refusal import shell_line, shell_word
from holdfast.core.time import duration_s
from holdfast.core.workflow.evidence import replaced_command
from holdfast.core.workflow.needs import (
    CHECK,
    MASK,
    RUN,
    TEST_GATE,
    UNKNOWN_TREE,
    evidence_of,
    gates_of,
    last_gate_command,
    last_test_command,
    why_stale,
)
from holdfast.core.workflow.steps import command_of_step
from holdfast.core.workflow.tasks import inner_phase
from holdfast.errors import HoldfastError, Refused
from holdfast.evidence import git, tree
from holdfast.evidence.masking import masker
from holdfast.evidence.run import RunOutcome, run
from holdfast.workspace import settings, trust
from holdfast.workspace.location import OWN_PREFIXES, is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.evidence.masking import Mask
    from holdfast.workspace.location import Workspace

    Echo = Callable[[bytes], None]
    IsCancelled = Callable[[], bool]

DEFAULT_TIMEOUT = "10m"
MAX_NAMES = 200
"""The number of names of failing and of passing tests that are kept; counts are complete."""
_MAX_ERROR_CHARS = 500
_MAX_CHANGED_NAMES = 3
_NO_TEST = "no test was found"
_SHOWS_NOTHING = ("true", "false", ":", "echo", "printf", "exit", "sleep", "pwd")
"""Programs whose exit code says nothing about a project."""


class GateCommand:
    """A command to run: a list of words, or a line for the shell; its timeout; what masks it."""

    __slots__ = ("command", "is_repeated", "mask", "timeout")

    def __init__(
        self, command: list[str] | str, timeout: str | None, mask: Mask, *,
        is_repeated: bool = False,
    ) -> None:  # fmt: skip
        self.command = command
        self.timeout = timeout or DEFAULT_TIMEOUT
        self.mask = mask
        self.is_repeated = is_repeated
        """True if nobody named it: it is the one that was run last."""

    @property
    def text(self) -> str:
        """The command as one line, without secrets."""
        if isinstance(self.command, str):
            return self.mask(self.command)
        return self.mask(shell_line(self.command))


def gate_command(
    workspace: Workspace, state: Workflow, gate: str, words: list[str], timeout: str | None,
    reason: str | None = None,
) -> GateCommand:  # fmt: skip
    """Return the command that the recipe or the settings declare, else the caller's.

    Without any of them, return the command that the gate ran last; for the gate ``test``, the
    workflow's test command. Raise ``Refused`` if there is none, if a person has not approved it,
    if the caller's is another one than the one that is declared, or, without a ``reason``, another
    one than the one that failed last.
    """
    if evidence_of(state, gate) == CHECK:
        message = f"gate run: {gate} is looked up, not run"
        raise Refused("invalid", message, f"holdfast gate record {shell_word(gate)} --passed")
    mask = masker(workspace.root)
    declared = state["recipe"].get("gates", {}).get(gate, {})
    source, is_from_repository = f"the recipe {state['recipe']['name']}", True
    if "command" not in declared:
        declared, is_from_repository = settings.load(workspace.root).gate(gate)
        source = settings.TEAM if is_from_repository else "the settings"
    known = declared.get("command")
    if words:
        if isinstance(known, str) and _words(known) != words:
            raise Refused(
                "invalid",
                f"gate run: {source} says what {gate} runs: {known}",
                f"holdfast gate run {shell_word(gate)}",
            )
        check_shows_something(f"gate run {shell_word(gate)}", words)
        command = GateCommand(words, timeout, mask)
        _check_not_replaced(state["gates"].get(gate, {}), gate, command.text, reason)
        return command
    if not isinstance(known, str):
        last = _words(last_gate_command(state, gate))
        if last:
            return GateCommand(last, timeout, mask, is_repeated=True)
        raise Refused(
            "no_command",
            f"gate run: nothing says what {gate} runs",
            f"holdfast gate run {shell_word(gate)} -- COMMAND",
        )
    if is_from_repository:
        trust.check(workspace, gate, declared["command"], source)
    return GateCommand(declared["command"], timeout or declared.get("timeout"), mask)


def _check_not_replaced(gate: Fields, name: str, command: str, reason: str | None) -> None:
    """Raise ``Refused`` if the last run of a gate failed, and this is another command."""
    failed = replaced_command(gate, command)
    if failed is None or command == gate.get("command") or reason:
        return
    again = f"holdfast gate run {shell_word(name)}"
    raise Refused(
        "other_command",
        f"gate run: {name} failed with {failed}; another command does not show that it passes",
        again if gate.get("command") == failed and MASK not in failed else f"{again} -- {failed}",
        or_else=f"{again} --reason TEXT -- {command}",
    )


def _words(command: str) -> list[str]:
    """Return the words of a command; none if it needs a shell."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return words if shell_line(words) == command else []


def tests_command(
    workspace: Workspace, state: Workflow, words: list[str], timeout: str | None, tried: str
) -> GateCommand:
    """Return the caller's test command, else the one that ran last, else that of the gate.

    Green and refactor run the command that showed the failing test: raise ``Refused`` for another.
    """
    mask = masker(workspace.root)
    own = command_of_step(state, tried)
    if words:
        check_shows_something(tried, words)
        command = GateCommand(words, timeout, mask)
        if own not in (None, command.text):
            why = f"{tried}: the test failed in a run of {own}; only that shows that it passes"
            raise Refused(
                "other_command", why, f"holdfast {tried}", or_else="holdfast red -- COMMAND"
            )
        return command
    if own is not None and MASK in own:
        message = f"{tried}: the command had a secret in it, which was not kept: {own}"
        raise Refused("no_command", message, f"holdfast {tried} -- COMMAND")
    last = _words(own or last_test_command(state))
    if last:
        return GateCommand(last, timeout, mask, is_repeated=True)
    try:
        return gate_command(workspace, state, TEST_GATE, [], timeout)
    except Refused as refused:
        if refused.code != "no_command":
            raise
        message = f"{tried}: no test command is known yet"
        raise Refused("no_command", message, f"holdfast {tried} -- COMMAND") from None


def check_shows_something(tried: str, words: list[str]) -> None:
    """Raise ``Refused`` if the result of a command is the same whatever the project is like."""
    if not words[0].strip():
        raise Refused("invalid", f"{tried}: the command is empty", f"holdfast {tried} -- COMMAND")
    if "\0" in "".join(words) or not is_encodable("".join(words)):
        message = f"{tried}: the command has a NUL or an undecodable byte"
        raise Refused("invalid", message, f"holdfast {tried} -- COMMAND")
    if os.path.basename(words[0]) in _SHOWS_NOTHING:
        message = f"{tried}: {words[0]} checks nothing, so its result shows nothing"
        raise Refused("invalid", message, f"holdfast {tried} -- COMMAND")


def test_gate(workspace: Workspace, state: Workflow, command: GateCommand) -> str | None:
    """Return the gate that a run of this test command is evidence for."""
    if TEST_GATE not in state["gates"] or evidence_of(state, TEST_GATE) != RUN:
        return None
    declared = state["recipe"].get("gates", {}).get(TEST_GATE, {})
    if "command" not in declared and workspace.has_settings():
        declared = settings.load(workspace.root).gate(TEST_GATE)[0]
    own = declared.get("command") or state["gates"][TEST_GATE].get("command")
    return TEST_GATE if own is None or command.mask(own) == command.text else None


def check(workspace: Workspace, state: Workflow, gate: str) -> Fields:
    """Look up whether a gate is passed, and return what is known of it; raise ``Refused``.

    A pull request needs a branch that is pushed. Where ``gh`` is installed, it must exist.
    """
    branch = workspace.branch()
    if branch is None:
        message = f"gate record: {gate} needs a branch, and none is checked out"
        raise Refused("not_found", message, "git switch BRANCH")
    remote = git.pushed_to(workspace.root, branch)
    if remote is None:
        message = f"gate record: {gate}: no remote has all of {branch}"
        names = (git.line(workspace.root, "remote") or "").split()
        if not names:
            phases = [p["name"] for p in state["phases"] if gate in gates_of(state, p["name"])]
            raise Refused(
                "not_pushed",
                f"{message}; this repository has no remote",
                f"holdfast phase skip {shell_word(phases[0])} --reason TEXT" if phases else "",
                or_else="git remote add origin URL, and push the branch",
            )
        name = names[0] if len(names) == 1 else "REMOTE"
        raise Refused("not_pushed", message, f"git push -u {shell_word(name)} {shell_word(branch)}")
    return {"pushed_to": remote, **git.pull_request(workspace.root, branch)}


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
    digest = before_digest if changed else after_digest
    fields = {**_gate_fields(workspace, outcome, digest), "commit": commit}
    from holdfast.evidence.testlogs import found_no_test

    if found_no_test(outcome.output):
        fields["no_test"] = True
    note = None
    if changed:
        names = ", ".join(changed[:_MAX_CHANGED_NAMES])
        if len(changed) > _MAX_CHANGED_NAMES:
            names += f" and {len(changed) - _MAX_CHANGED_NAMES} more"
        note = f"{names} changed while it ran, so the result is stale"
    elif digest.startswith(UNKNOWN_TREE):
        note = f"the result is stale: {why_stale({'tree': digest})} it ran"
    return fields, after_digest, note


def _gate_fields(workspace: Workspace, outcome: RunOutcome, digest: str) -> Fields:
    """Return the fields of a gate's result."""
    fields: Fields = {
        "command": outcome.command,
        "exit_code": outcome.exit_code,
        "duration_ms": outcome.duration_ms,
        "output_tail": outcome.tail.rstrip("\n"),
        "commit": workspace.commit(),
        "tree": digest,
    }
    if outcome.signal is not None:
        fields["signal"] = outcome.signal
    if outcome.timed_out:
        fields["timed_out"] = True
    if outcome.cancelled:
        fields["cancelled"] = True
    return fields


def run_tests(
    workspace: Workspace,
    command: GateCommand,
    echo: Echo | None,
    is_cancelled: IsCancelled = lambda: False,
) -> tuple[Fields, Fields]:
    """Run tests; return the fields of the result, and those of a gate with the same command.

    Raise ``Refused`` if they cannot be started.
    """
    from holdfast.evidence import testlogs

    before = tree.read(workspace)
    outcome = _run(workspace, command, echo, is_cancelled)
    log = testlogs.parse(outcome.output)
    has_ended = not (outcome.timed_out or outcome.cancelled)
    has_no_test = testlogs.found_no_test(outcome.output)
    has_passed = outcome.exit_code == 0 and has_ended and not has_no_test
    failing, passing = log.get("failing", []), log.get("passing", [])
    tests: Fields = {
        "test_command": outcome.command,
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
    if has_no_test:
        tests["counts"] = {"failed": 0, "passed": 0}
    if not has_ended:
        tests["cut_short"] = True
        why = f"not done after {command.timeout}"
        tests["last_error"] = "cancelled" if outcome.cancelled else why
    elif not has_passed:
        last_line = outcome.tail.rstrip().rpartition("\n")[2].strip()
        why = log.get("error") or last_line or f"exit code {outcome.exit_code}"
        why = _NO_TEST if has_no_test else why
        tests["last_error"] = why[:_MAX_ERROR_CHARS]
    after = tree.read(workspace)
    digest = tree.digest_of(before if tree.changed(before, after) else after)
    tests["tree"] = digest
    return tests, _gate_fields(workspace, outcome, digest)


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
        command.command, workspace.root, limit_s=timeout_s, mask=command.mask, echo=echo,
        is_cancelled=is_cancelled,
    )  # fmt: skip
    why = _missing_module(command.command, outcome) if outcome.started else outcome.why
    if why:
        raise Refused(
            "not_started",
            f"{outcome.command[:200]} could not be started: {why}; nothing was recorded",
            "check the command, then run the same again",
        )
    return outcome


def _missing_module(command: list[str] | str, outcome: RunOutcome) -> str:
    """Return why ``python -m MODULE`` ran nothing, if there is no such module; else ""."""
    if outcome.exit_code != 1 or isinstance(command, str) or "-m" not in command[:-1]:
        return ""
    module = command[command.index("-m") + 1]
    why = f"No module named {module}"
    return why if outcome.tail.strip().endswith(f": {why}") else ""


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
