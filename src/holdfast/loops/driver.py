"""``loop run``: drive a loop with a worker process, turn by turn.

A turn is recorded when it is over: after a kill, the next run takes the same turn again, and none
is lost or counted twice. The driver and its worker hold a lock of the loop, so that no other run
begins while a worker that outlived its driver is still at work.

Stored text in a prompt is quoted as data, and so is a worker's answer. The prompt describes tags
instead of showing them, because some workers repeat their prompt in what they print.

A run ends when nothing is ready, when a unit waits for a person, or before a turn that would begin
after its time, its cost or a stop file said to stop. A worker says what it cost by an object on the
last line of its output, as Claude Code does with ``--output-format json``.

A command that verifies a unit is run as it is if it comes from the command line. A command that is
stored with a unit runs only after a person approved exactly that command.
"""

from __future__ import annotations

import os
import re
import time

from holdfast.core import json_text
from holdfast.core.briefing import quoted
from holdfast.core.next_step import lessons, next_step, stuck_units, turn_of
from holdfast.core.refusal import shell_line, shell_word
from holdfast.core.selection import join_names
from holdfast.core.time import duration_s
from holdfast.core.workflow import find_task, is_active
from holdfast.core.workflow.questions import blocking_questions
from holdfast.core.workflow.tasks import limit_of, refuse_claim, signal_of
from holdfast.errors import Fault, Refused
from holdfast.evidence import git
from holdfast.evidence.gates import check_shows_something
from holdfast.evidence.masking import masker
from holdfast.evidence.run import run as run_command
from holdfast.keeper.record_folders import folder_of
from holdfast.loops import page_files
from holdfast.workspace import trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.types import Fields, Json, Task, Workflow
    from holdfast.evidence.run import RunOutcome
    from holdfast.keeper.session import Receipt
    from holdfast.keeper.store import Store
    from holdfast.loops import Loops
    from holdfast.workspace.location import Workspace

    Tell = Callable[[Workflow, Task, str], None]

DEFAULT_LIMIT = "30m"
STOP = "STOP"
"""A file of this name in the loop's folder ends a run before its next turn."""
DONE, STUCK, WAITING, ENDED = "done", "stuck", "waiting", "ended"
STOPPED, TIME, COST, INTERRUPTED = "stopped", "time", "cost", "interrupted"
"""How a run ended."""
_BAR_WIDTH = 24
_MAX_TAIL = 1_000
"""Characters of a verification's output that are recorded."""
_MAX_QUOTED = 2_000
_MAX_LESSONS = 40
_MAX_ANSWER = 3_900
"""Characters of an answer that are kept; the core takes 4,000."""
_MAX_ACCOUNT_LINES = 8
_MAX_ACCOUNT = 1_000
_CONFIRMED_TAGS = ("<confirmed/>", "<confirmed />")
_DOTS = "…"
_WORK = (
    "Work on the unit. End with a short account of what you did, and one of these tags, with the "
    f"words in place of the dots. What is left to do: <remaining>{_DOTS}</remaining>. Why nobody "
    f"can go on without a person: <blocked>{_DOTS}</blocked>. Only when every criterion is met:"
)
_REVIEW = "Go over it once more, against every criterion; fix nothing."
_CONFIRMED, _ISSUES = "CONFIRMED", "ISSUES:"
_VERDICT = (
    f"If you find nothing, end your answer with the word {_CONFIRMED} alone on the last line. If "
    f"you find something, end it with a line that begins with {_ISSUES} and says what you found."
)
_DECORATION = " \t*_`\"'.!"
_CLOCK_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_MONEY = re.compile(r"\$([0-9]{1,6}(?:\.[0-9]{1,4})?)|([0-9]{1,6}(?:\.[0-9]{1,4})?) ?(?:\$|usd)")
_MAX_COST = 1_000_000
_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS


class Limits:
    """When a run ends although there is more to do; raise ``Refused`` for a limit of no kind.

    A limit is a duration such as ``2h``, a time of day such as ``18:30``, or a cost such as ``$5``
    or ``5usd``.
    """

    def __init__(self, texts: Sequence[str], now_ms: int) -> None:
        self._until_ms: dict[int, str] = {}
        self._costs: dict[float, str] = {}
        for text in texts:
            money = _MONEY.fullmatch(text.strip().lower())
            until_ms = _moment_ms(text.strip(), now_ms)
            if money is not None:
                self._costs[float(money[1] or money[2])] = text
            elif until_ms is not None:
                self._until_ms[until_ms] = text
            else:
                message = f"loop run: {text[:40]!r} is neither a time nor a cost"
                raise Refused("invalid", message, "--until 2h, --until 18:30 or --until 5usd")

    def reached(self, now_ms: int, cost: float | None) -> tuple[str, str] | None:
        """Return how a run ends and why, if it does; ``cost`` is ``None`` if it is not known."""
        for until_ms, text in self._until_ms.items():
            if now_ms >= until_ms:
                return TIME, f"--until {text}: the time is up"
        for most, text in self._costs.items():
            if cost is None:
                why = "the worker does not say what it costs (claude -p --output-format json does)"
                return COST, f"--until {text}: {why}"
            if cost >= most:
                return COST, f"--until {text}: the workers have cost {cost:.2f} USD"
        return None


def _moment_ms(text: str, now_ms: int) -> int | None:
    """Return the end of a duration, or the next time that the clock says ``18:30``."""
    seconds = duration_s(text)
    if seconds:
        return now_ms + seconds * 1_000
    clock = _CLOCK_TIME.fullmatch(text)
    if clock is None:
        return None
    here = time.localtime(now_ms / 1_000)
    minutes = (int(clock[1]) - here.tm_hour) * 60 + int(clock[2]) - here.tm_min
    begin_ms = now_ms // _MINUTE_MS * _MINUTE_MS
    return begin_ms + minutes * _MINUTE_MS + (_DAY_MS if minutes <= 0 else 0)


class Driver:
    """One run of a loop with one worker. Raises ``Refused`` for an empty command.

    ``until`` are its limits. ``echo`` gets the output of the commands as it comes.
    """

    def __init__(
        self,
        loops: Loops,
        store: Store,
        slug: str,
        command: list[str],
        verify: str | None,
        limit: str | None,
        until: Sequence[str] = (),
        echo: Callable[[bytes], None] | None = None,
    ) -> None:
        if not command or not command[0].strip():
            hint = f"holdfast loop run {slug} -- COMMAND"
            raise Refused("invalid", "loop run: the worker's command is empty", hint)
        self._loops = loops
        self._disk = store.disk
        self._workspace = store.workspace
        self._wait_s = store.wait_s
        self._slug = slug
        self._command = command
        self._verify = verify
        self._limit_s = _seconds_of(limit)
        self._now_ms = store.now_ms
        self._limits = Limits(until, store.now_ms())
        self._echo = echo
        self._cost: float | None = 0.0
        self._folder = os.path.join(store.workspace.home, "driven")
        self._root = ""
        self._lock = -1
        self._notes: list[str] = []

    def drive(self, tell: Tell) -> Fields:
        """Take turns until every unit is done, one is stuck, or none is ready.

        Return what ``loop run`` reports, with notes and the ``NextStep``.
        """
        state = self._settle()
        self._check(state)
        self._root = page_files.worktree_root(self._workspace, state, "loop run")
        self._lock = self._take_lock()
        try:
            return self._take_turns(tell)
        finally:
            self._disk.close(self._lock)

    def _take_turns(self, tell: Tell) -> Fields:
        turns = {
            "iterate": self._iterate,
            "timeout": self._time_out,
            "confirm": self._confirm,
            "verify": self._check_unit,
        }
        state = self._settle()
        stuck_before, count = stuck_units(state), 0
        while True:
            task, turn = turn_of(state)
            is_stuck = bool(stuck_units(state).keys() - stuck_before.keys())
            if task is None or is_stuck or not is_active(state):
                return report(state, count, *_end_of(state), self._notes, self._cost)
            if end := self._stop_file(state) or self._limits.reached(self._now_ms(), self._cost):
                return report(state, count, *end, self._notes, self._cost)
            tell(state, task, turn)
            try:
                self._note(turns[turn](state, task).notes)
                count += turn != "timeout"
            except Refused as refused:
                if refused.code != "wrong_order":
                    raise
                # Another process changed the unit while the worker ran: its change counts.
                self._note([f"not recorded: {refused.message}"])
            state = self._settle()

    def _stop_file(self, state: Workflow) -> tuple[str, str] | None:
        """Return how the run ends and why, if somebody asked for that by a file."""
        path = f"{os.path.dirname(state['record'])}/{STOP}"
        if not os.path.lexists(os.path.join(self._root, path)):
            return None
        return STOPPED, f"{path} is there; to go on, remove it and run the same command again"

    def _check(self, state: Workflow) -> None:
        """Raise ``Refused`` if something would stop the run later."""
        page_files.check_active(state, "loop run")
        folder = folder_of(self._workspace, state)
        text = page_files.read_page(self._disk, folder, page_files.CONTEXT) if folder else ""
        if problem := page_files.length_problem(text):
            hint = f"shorten it, then: holdfast loop run {state['id']} -- COMMAND"
            raise Refused("invalid", f"loop run: {problem}", hint)
        if self._verify is None:
            for task in state["tasks"]:
                if task["status"] != "completed":
                    _own_command(self._workspace, state, task)

    def _take_lock(self) -> int:
        """Take the lock of the loop, which workers inherit; raise a ``Fault`` if it is busy."""
        self._disk.make_folder(self._folder, 0o700)
        path = os.path.join(self._folder, f"{self._slug}.lock")
        try:
            # The worker of a killed run may need a moment to end.
            return self._disk.lock(path, self._wait_s)
        except Fault as fault:
            if fault.code != "busy":
                raise
            raise Fault(
                "busy",
                f"loop run: {self._slug} is driven by another process, or a worker of a run that "
                "was killed is still at it, or what a worker started and left running",
                "wait for it or end it, then run the same command again",
            ) from fault

    # Turns

    def _iterate(self, state: Workflow, task: Task) -> Receipt:
        before = self._begun_at(state, task)
        answer, exit_code = self._work(state, task, "iterate")
        work = parse_work(task, answer, exit_code)
        after = git.head(self._root)
        if after is not None and after != before:
            work["commit"] = after
        return self._loops.iterate(str(task["id"]), slug=self._slug, **work)

    def _begun_at(self, state: Workflow, task: Task) -> str | None:
        """Return the commit at which this turn was first begun, or ``None`` without git.

        After a kill the same turn is taken again; it includes what the killed worker committed.
        """
        head = git.head(self._root)
        turn = [state["created_at"], state["worktree"], task["id"], task.get("iterations_used", 0)]
        path = os.path.join(self._folder, f"{self._slug}.json")
        fields = page_files.read_json(self._disk.read_own(path))
        commit: str | None = fields.get("head") if fields.get("turn") == turn else None
        if commit and head is not None and git.is_descendant(self._root, head, commit):
            return commit
        line = json_text.line_of({"turn": turn, "head": head})
        self._disk.replace_view(path, line.encode())
        return head

    def _time_out(self, _state: Workflow, task: Task) -> Receipt:
        """Record the iteration after the last allowed one; no worker is run for it."""
        return self._loops.iterate(
            str(task["id"]),
            did=f"stopped at the maximum of {limit_of(task)} iterations",
            remaining=str(task.get("remaining") or "the criteria are not met yet"),
            slug=self._slug,
        )

    def _confirm(self, state: Workflow, task: Task) -> Receipt:
        issues = parse_verdict(task, *self._work(state, task, "confirm"))
        return self._loops.confirm(str(task["id"]), issues=issues, slug=self._slug)

    def _check_unit(self, state: Workflow, task: Task) -> Receipt:
        """Verify a unit: by its own command if that is approved, by the given one, or a worker."""
        try:
            command = _own_command(self._workspace, state, task) or self._verify
        except Refused:
            command = self._verify
            if command is None:
                raise
        evidence: Fields | None = None
        if command is None and (refusal := refuse_claim(state, task)):
            raise refusal.error()
        if command is None:
            failed = parse_verdict(task, *self._work(state, task, "verify"))
        else:
            evidence, failed = _evidence_of(self._run(command, b""))
        return self._loops.verify(
            str(task["id"]), failed=failed, evidence=evidence, slug=self._slug
        )

    def _work(self, state: Workflow, task: Task, turn: str) -> tuple[str, int | None]:
        """Let the worker take a turn; return its answer and its exit code."""
        outcome = self._run(self._command, prompt(state, task, turn).encode())
        if not outcome.started:
            message = f"loop run: {self._command[0][:80]} could not be started: {outcome.why}"
            raise Refused("not_started", message, "check the command after --")
        answer, cost = parse_answer(outcome.output)
        self._cost = None if cost is None or self._cost is None else self._cost + cost
        return answer, outcome.exit_code

    def _run(self, command: list[str] | str, stdin: bytes) -> RunOutcome:
        return run_command(
            command, self._root, limit_s=self._limit_s, mask=masker(self._root), stdin=stdin,
            lock_fds=(self._lock,), echo=self._echo,
        )  # fmt: skip

    # Reporting

    def _settle(self) -> Workflow:
        """Take in the edits of the pages, which the next prompt and the worker use."""
        receipt = self._loops.settle(self._slug)
        self._note(receipt.notes)
        state: Workflow = receipt.state
        return state

    def _note(self, notes: list[str]) -> None:
        self._notes += [note for note in notes if note not in self._notes]


def report(
    state: Workflow, turns: int, ended: str, why: str, notes: list[str], cost: float | None
) -> Fields:
    """Return what ``loop run`` reports, with notes and the ``NextStep``."""
    done = [str(t["id"]) for t in state["tasks"] if t["status"] == "completed"]
    open_units = [str(t["id"]) for t in state["tasks"] if t["status"] != "completed"]
    return {
        "loop": state["id"],
        "turns": turns,
        "done": done,
        "left": open_units,
        "stuck": stuck_units(state),
        "finished": bool(done) and not open_units,
        "ended": ended,
        "why": why,
        "cost_usd": None if not cost else round(cost, 4),
        "notes": notes,
        "next": next_step(state, is_named=True),
    }


def _end_of(state: Workflow) -> tuple[str, str]:
    """Return how a run ended that found nothing more to do, and why."""
    stuck = stuck_units(state)
    if not is_active(state):
        return ENDED, f"the loop has ended ({state['status']})"
    if waiting := blocking_questions(state):
        return STUCK, f"question {waiting[0]['id']} waits for an answer"
    if stuck:
        verb = "waits" if len(stuck) == 1 else "wait"
        return STUCK, f"{join_names(list(stuck))} {verb} for a person"
    if not state["tasks"]:
        return WAITING, "no unit is planned"
    if all(task["status"] == "completed" for task in state["tasks"]):
        return DONE, "every unit is done"
    return WAITING, "no unit is ready"


def interruption(state: Workflow, task: Task, turn: str, signal_name: str) -> str:
    """Return where a run stands that was stopped in a turn; ``state`` is the one after it."""
    now = find_task(state, task["id"])
    number = task.get("iterations_used", 0) + (turn == "iterate")
    where = f"stopped by {signal_name} in {task['id']}, {turn} {number} of {limit_of(task)}"
    if now == task:
        return f"{where}: nothing of that turn is recorded, and the same command takes it again"
    return f"{where}, which is recorded; the same command goes on"


def bar(state: Workflow, task: Task, turn: str) -> str:
    """Return the progress in one line: ``[######------] 3/6 units, T4 iterate 2/5``."""
    done = sum(t["status"] == "completed" for t in state["tasks"])
    total = len(state["tasks"])
    filled = _BAR_WIDTH * done // total if total else 0
    current = find_task(state, task["id"]) or task
    number = current.get("iterations_used", 0) + (turn == "iterate")
    picture = "#" * filled + "-" * (_BAR_WIDTH - filled)
    return f"[{picture}] {done}/{total} units, {task['id']} {turn} {number}/{limit_of(current)}"


# Verifying by a command


def run_verification(
    workspace: Workspace, state: Workflow, unit: str, words: list[str], limit: str | None
) -> tuple[Fields, str | None]:
    """Run the command ``words``, or else the unit's own.

    Return the evidence, and why it failed or ``None``. Raise ``Refused`` if nothing can be run.
    """
    task = find_task(state, unit)
    if task is not None and task["status"] != "verifying":
        status = "done" if task["status"] == "completed" else task["status"].replace("_", " ")
        why = f"it is {status}, not verifying"
        message = f"loop verify: {unit} of {state['id']}: {why}"
        raise Refused("wrong_order", message, "holdfast loop next")
    own = None if task is None else task.get("verify")
    if words and own and shell_line(words) != own and words != [own]:
        message = f"loop verify: {unit} of {state['id']} is verified by its own command: {own[:80]}"
        raise Refused("needs_run", message, f"holdfast loop verify {shell_word(unit)} --run")
    command = words or (None if task is None else _own_command(workspace, state, task))
    if not command:
        message = f"loop verify: nothing says what verifies {unit[:40]}"
        hint = f"holdfast loop verify {shell_word(unit)} --run -- COMMAND"
        raise Refused("no_command", message, hint)
    if words:
        check_shows_something(f"loop verify {shell_word(unit)} --run", words)
    root = page_files.worktree_root(workspace, state, "loop verify")
    limit_s = _seconds_of(limit)
    return _evidence_of(run_command(command, root, limit_s=limit_s, mask=masker(root)))


def _seconds_of(limit: str | None) -> int:
    """Return a time limit in seconds; raise ``Refused`` if it is not a duration."""
    seconds = duration_s(limit or DEFAULT_LIMIT)
    if not seconds:
        raise Refused("invalid", f"{str(limit)[:40]!r} is not a duration", "--timeout 30m")
    return seconds


def _own_command(workspace: Workspace, state: Workflow, task: Task) -> str | None:
    """Return the unit's own command, if any; raise ``Refused`` if it is not approved."""
    command = task.get("verify")
    if not isinstance(command, str):
        return None
    trust.check(workspace, f"unit {task['id']}", command, f"the loop {state['id']}")
    return command


def _evidence_of(outcome: RunOutcome) -> tuple[Fields, str | None]:
    """Return the evidence of a run, and why it failed or ``None``.

    Raise ``Refused`` if the command could not be started.
    """
    if not outcome.started:
        message = f"{outcome.command[:80]} could not be started: {outcome.why}"
        raise Refused("not_started", message, "check the command, then run it again")
    evidence: Fields = {"command": outcome.command, "exit_code": outcome.exit_code}
    if outcome.exit_code == 0:
        return evidence, None
    ended = "not done in time" if outcome.timed_out else f"exit code {outcome.exit_code}"
    return evidence, f"{ended}: {outcome.tail[-_MAX_TAIL:].strip()}".rstrip(": ")


# The worker's prompt and its answer


def prompt(state: Workflow, task: Task, turn: str) -> str:
    """Return the prompt for a turn: ``iterate``, ``confirm`` or ``verify``."""
    folder = state["record"].rpartition("/")[0]
    files: Json = task.get("files")
    about = [
        f"Loop {state['subject']}: {quoted(state['title'])}",
        _fact("Outcome needed", state["context"].get("outcome")),
        f"Unit {quoted(task['id'])}: {quoted(task['description'])}",
        _fact("Criteria", task.get("criteria")),
        _fact("Files", ", ".join(map(str, files)) if isinstance(files, list) else ""),
        _fact("Output", task.get("output")),
        f"Read first: {folder}/context.md, and {folder}/progress.md for what was done.",
    ]
    parts = ["\n".join(filter(None, about))]
    if turn == "iterate":
        parts += [
            f"This is iteration {task.get('iterations_used', 0) + 1} of {limit_of(task)}.",
            _fact("What remains", task.get("remaining")),
            _fact("Blockers so far", task.get("blockers")),
            f"{_WORK} <signal>{_DOTS}</signal>, with {signal_of(task)} in it.",
        ]
    elif turn == "confirm":
        parts += [
            f"The unit was declared done. {_REVIEW}",
            _VERDICT,
        ]
    else:
        parts += [
            "The unit was done and confirmed. Verify it: run its tests, review the result.",
            _VERDICT,
        ]
    learned = [f"- {quoted(lesson, _MAX_QUOTED)}" for lesson in lessons(state)[-_MAX_LESSONS:]]
    if learned:
        parts.append("\n".join(["Guardrails, learned from what went wrong:", *learned]))
    return "\n\n".join(filter(None, parts)) + "\n"


def _fact(label: str, text: Json) -> str:
    return f"{label}: {quoted(text, _MAX_QUOTED)}" if text else ""


def parse_answer(output: str) -> tuple[str, float | None]:
    """Return a worker's answer, and what it cost in USD; ``None`` if it did not say so.

    On its last line a worker may print an object with ``result`` and ``total_cost_usd``.
    """
    before, _, last = output.rstrip().rpartition("\n")
    try:
        fields = json_text.loads(last.encode(), strict=True) if last.startswith("{") else {}
    except (json_text.BadJson, UnicodeEncodeError):
        fields = {}
    if not isinstance(fields, dict):
        return output, None
    result, cost = fields.get("result"), fields.get("total_cost_usd")
    answer = f"{before}\n{result}" if isinstance(result, str) else output
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < _MAX_COST:
        return answer, None
    return answer, cost


def parse_work(task: Task, output: str, exit_code: int | None) -> Fields:
    """Return the arguments that record an iteration; ``blocked`` is why the unit cannot go on."""
    signal = signal_of(task)
    args: Fields = {"did": _account(output) or "nothing that was told"}
    if f"<signal>{signal}</signal>" in output and exit_code == 0:
        return {**args, "signal": signal}
    remaining = _last_tag(output, "remaining") or task.get("remaining")
    args["remaining"] = remaining or "the criteria are not met yet"
    if exit_code != 0:
        args["blockers"] = _exit_text(exit_code)
    blocked = _last_tag(output, "blocked")
    return {**args, "blocked": blocked} if blocked else args


def parse_verdict(task: Task, output: str, exit_code: int | None) -> str | None:
    """Return the issues that a confirmation or a verification found; ``None`` if it was clean."""
    text = _clean(output)
    is_confirmed = text.rpartition("\n")[2].strip(_DECORATION) == _CONFIRMED
    issues = _last_tag(output, "issues") or ("" if is_confirmed else _issues_in(text))
    if issues:
        return issues
    if exit_code != 0:
        return _exit_text(exit_code)
    clean_tags = (f"<signal>{signal_of(task)}</signal>", *_CONFIRMED_TAGS)
    is_clean = is_confirmed or any(tag in output for tag in clean_tags)
    return None if is_clean else "the worker gave no verdict"


def _issues_in(text: str) -> str:
    """Return what follows the last line that begins with ``ISSUES:``."""
    lines = text.split("\n")
    begins = [i for i, line in enumerate(lines) if line.lstrip(_DECORATION).startswith(_ISSUES)]
    if not begins:
        return ""
    first = lines[begins[-1]].partition(":")[2].lstrip("* ")
    return "\n".join([first, *lines[begins[-1] + 1 :]]).strip()


def _exit_text(exit_code: int | None) -> str:
    if exit_code is None:
        return "the worker was ended at its time limit"
    return f"the worker ended with exit code {exit_code}"


def _split_tag(output: str, tag: str) -> tuple[str, str, str]:
    """Return the text before, inside and after the last tag of this name."""
    before, opened, tail = output.rpartition(f"<{tag}>")
    inside, closed, after = tail.partition(f"</{tag}>")
    return (before, inside, after) if opened and closed else (output, "", "")


def _last_tag(output: str, tag: str) -> str:
    """Return the content of the last tag of this name; the dots of the prompt are no content."""
    text = _clean(_split_tag(output, tag)[1])
    return "" if text == _DOTS else text


def _account(output: str) -> str:
    """Return the last lines of an answer without its tags."""
    for tag in ("signal", "remaining", "blocked", "issues"):
        before, _, after = _split_tag(output, tag)
        output = f"{before}\n{after}"
    lines = [line.strip() for line in _clean(output).split("\n") if line.strip()]
    return "\n".join(lines[-_MAX_ACCOUNT_LINES:])[-_MAX_ACCOUNT:]


def _clean(text: str) -> str:
    """Return output as text that the core accepts."""
    return text.replace("\x00", "").encode(errors="replace").decode().strip()[-_MAX_ANSWER:]
