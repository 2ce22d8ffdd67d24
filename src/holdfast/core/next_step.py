"""The next step of a workflow: its description and command. In a loop, also the unit that is due.

Whoever follows it finishes the work as the recipe asks: first what the current phase needs, in the
order of ``needs.NEEDS``, then the next phase. A command runs as it stands, or has words in CAPITALS
that ``fill`` explains.

A loop finishes work before it begins more: units that are nearly done come first. Units that are
blocked or out of iterations wait for a person, and the next unit is due.

While a blocking question is open, its answer is the next step of any workflow.
"""

from __future__ import annotations

from holdfast.core.refusal import shell_line
from holdfast.core.selection import join_names
from holdfast.core.workflow import (
    find_phase,
    is_active,
    next_phases,
    unit_mark,
)
from holdfast.core.workflow.needs import (
    CHECK,
    CLAIM,
    RUN,
    evidence_of,
    gates_of,
    has_git,
    is_branch_missing,
    is_unknown_tree,
    last_gate_command,
    last_test_command,
    missing_for_task,
    needs_of,
    open_tasks,
    pending_gates,
    unmet,
    why_stale,
    with_stale_gates,
)
from holdfast.core.workflow.questions import blocking_questions, question_line
from holdfast.core.workflow.steps import CYCLE
from holdfast.core.workflow.tasks import (
    MAX_ITERATIONS,
    TIMEOUT_CHOICES,
    WAITING,
    inner_phase,
    iterations_allowed,
    limit_of,
    needs_run,
    signal_of,
    task_at_hand,
    waits_for,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Phase, Question, Task, Workflow

_OPPOSITES = {
    "phase block": ["phase", "unblock"],
    "task block": ["task", "unblock"],
    "loop block": ["loop", "unblock"],
}
_BY_PERSON = ("approve", "waive")
"""Second words of commands that only a person can run."""
COMPLETE, GONE = "says that it is complete", "no longer tells of it"
"""Why the notes that a workflow was adopted from are over."""
LEFT = ("completed", "skipped")
"""Statuses of a phase that was left."""
_TEST_COMMAND = "the project's test command"
_ALL_DONE = "nothing is left to do"


MEANINGS = {
    "ANSWER": "the answer, in words or as the number of a choice",
    "BRANCH": "a branch's name",
    "CODE": "the violation's code",
    "COMMAND": "the command, with its arguments",
    "ID": "the workflow's id",
    "KEY": "the field's name",
    "MESSAGE": "the commit's message",
    "NAME": "its name",
    "PATH": "the files of the change",
    "RECIPE": "one of `holdfast recipes`",
    "REMOTE": "the remote, such as origin",
    "SHA": "the commit's id",
    "SLUG": "the loop's short name",
    "SUBJECT": "what it is about: a file, a ticket, a sentence",
    "TASK": "what is to be done, in a sentence",
    "TEXT": "what to say, in a sentence",
    "TITLE": "a short title",
    "UNIT": "the unit's id",
}
"""What the words in CAPITALS of a refusal's next command stand for."""


class NextStep:
    """A command, what it is about, and what each word in CAPITALS stands for."""

    __slots__ = ("about", "fill", "program", "words")

    def __init__(
        self, about: str, words: list[str], *, program: str = "holdfast", **fill: str
    ) -> None:
        self.about = about
        self.words = words
        """The words after the program's name."""
        self.program = program
        self.fill = fill

    @property
    def command(self) -> list[str]:
        """All words of the command."""
        return [self.program, *self.words]

    @property
    def text(self) -> str:
        """The command as one line for a shell."""
        return shell_line(self.command)

    @property
    def remark(self) -> str:
        """Return what the step is about, for a line that begins with the command."""
        before = self.about.removesuffix(", then")
        return self.about if before == self.about else f"first: {before}"

    @property
    def is_persons(self) -> bool:
        """Return whether only a person can run it, on a terminal of their own."""
        return self.words == ["trust"] or (len(self.words) > 1 and self.words[1] in _BY_PERSON)

    def named(self, workflow: str) -> NextStep:
        """Return the same step with the workflow's id in the command."""
        if self.program != "holdfast":
            return self
        # The words after `--` are another command.
        end = self.words.index("--") if "--" in self.words else len(self.words)
        words = [*self.words[:end], "-w", workflow, *self.words[end:]]
        return NextStep(self.about, words, program=self.program, **self.fill)


def next_step(
    state: Workflow, facts: Fields | None = None, *, is_named: bool = False, after: str = ""
) -> NextStep | None:
    """Return the next step; ``None`` after the end. If ``is_named``, it names the workflow.

    So does a step for a person, who is in no session. ``after`` is the command that was carried out
    or refused, whose opposite is never the answer.
    """
    if not is_active(state):
        return None
    state = with_stale_gates(state, facts)
    phase = find_phase(state, state["phase"])
    waiting = blocking_questions(state)
    if waiting:
        step = _answer_step(waiting[0])
    elif phase is not None and phase["status"] == "blocked":
        reason = f" ({phase['reason']})" if phase.get("reason") else ""
        step = NextStep(
            f"phase {phase['name']} is blocked{reason}; when that is resolved",
            ["phase", "unblock", phase["name"]],
        )
    elif state["recipe"]["format"] == "loop":
        step = _turn_steps(state)[0]
    else:
        step = _needed(state, phase, facts) or _leave(state, phase, facts)
    if facts is not None and "elsewhere" in facts:
        about = f"its files are {facts['elsewhere']}: go on there, or bring it here"
        return NextStep(about, ["resume", state["id"]])
    if facts is not None and facts.get("notes_over"):
        step = _step_after_notes(state, facts["notes_over"], step)
    if step.words[:2] == _OPPOSITES.get(after):
        step = NextStep("tell the user what is blocked; all of it", ["show"])
    is_named = is_named or step.is_persons
    return step.named(state["id"]) if is_named and step.words[0] != "resume" else step


def _answer_step(question: Question) -> NextStep:
    number, text = str(question["id"]), question_line(question)
    about = f"ask the user (question {number} holds up this phase): {text}, then"
    meaning = "what the user answers, in words or as the number of a choice"
    return NextStep(about, ["answer", number, "ANSWER"], ANSWER=meaning)


def _step_after_notes(state: Workflow, why: str, step: NextStep) -> NextStep:
    """Return the step that ends a workflow whose notes are over; ``step`` is the one without that.

    What they say is taken in by ``resume``, and completes the phases.
    """
    file = state.get("notes_file", "")
    about = f"{file}, which this workflow came from, {why}"
    are_phases_left = all(phase["status"] in LEFT for phase in state["phases"])
    if step.words == ["complete"] or (why == COMPLETE and are_phases_left):
        return NextStep(f"{about}; {step.about}", step.words, program=step.program, **step.fill)
    if why == COMPLETE:
        return NextStep(f"{about}: take that in", ["resume", state["id"]])
    words = ["abandon", "--reason", f"{file} {why}"]
    return NextStep(f"{about}; end it, or go on with {step.text}", words)


def step_of_hint(hint: str) -> NextStep | None:
    """Return the step that a refusal's hint names; ``None`` if it is no command.

    It is the whole hint, or follows what to do first: ``let a person read it: holdfast trust``.
    """
    from shlex import split

    before, colon, last = hint.rpartition(": holdfast ")
    about = before if colon and ";" not in hint else ""
    if about:
        hint = f"holdfast {last}"
    if not hint.startswith(("holdfast ", "git ", "gh ")):
        return None
    try:
        program, *words = split(hint)
    except ValueError:
        return None  # A name in it has a quote.
    texts = [text for word in words for text in word.replace("=", " ").split()]
    fill = {text: MEANINGS[text] for text in texts if text in MEANINGS}
    return NextStep(about, words, program=program, **fill)


def current_task(state: Workflow) -> Task | None:
    """Return the task in progress, else the first that can start, else one that is blocked.

    In a loop, return the unit that is due, else the first that waits for a person.
    """
    if state["recipe"]["format"] == "loop":
        waiting = [task for task in state["tasks"] if task["status"] in STUCK]
        return turn_of(state)[0] or next(iter(waiting), None)
    return task_at_hand(state)


def _needed(state: Workflow, phase: Phase | None, facts: Fields | None) -> NextStep | None:
    """Return the step that provides the first thing which the current phase asks for."""
    missing = unmet(state, facts)
    if phase is not None and "branch" in missing:
        return _branch_step("create the branch of this work")
    is_last = phase is None or not next_phases(state, phase["name"])
    task = current_task(state)
    has_begun = task is not None and task["status"] not in WAITING
    is_early = "tasks" not in missing and _are_tasks_ahead(state)
    if "tasks" in missing or (has_begun and not is_early) or (is_last and task is not None):
        return _task_step(state, task)
    if is_early and not state["tasks"] and not missing and not is_last:
        return _task_step(state, None)
    if phase is None:
        return None
    for kind in ("failure", "tests"):
        if kind in missing:
            return _test_step(state, phase["name"], kind, missing[kind])
    own = gates_of(state, phase["name"])
    gate = next((name for name in pending_gates(state) if is_last or name in own), None)
    if gate is not None:
        return _gate_step(state, gate, facts)
    if "commit" in missing:
        return _commit_step("stage the change (git add), then")
    if "approval" in missing:
        about = f"phase {phase['name']} waits for a person: ask the user to run this themselves"
        return NextStep(about, ["phase", "approve", phase["name"]])
    return None


def _are_tasks_ahead(state: Workflow) -> bool:
    """Return whether a phase that was not left yet is the one of the tasks, and needs one."""
    ahead = [phase["name"] for phase in state["phases"] if phase["status"] not in LEFT]
    return bool(open_tasks(state)) and any("tasks" in needs_of(state, name) for name in ahead)


def _leave(state: Workflow, phase: Phase | None, facts: Fields | None) -> NextStep:
    """Return the step that leaves a phase which asks for nothing more.

    If the first step of the next phase enters it by itself, that is the step.
    """
    if phase is None:
        pending = [phase["name"] for phase in state["phases"] if phase["status"] == "pending"]
        if pending:
            return NextStep(f"phase {pending[0]}", ["phase", "start", pending[0]])
        return NextStep(_ALL_DONE, ["complete"])
    following = next_phases(state, phase["name"])
    if phase["status"] in LEFT:
        return NextStep(_ALL_DONE, ["complete"])
    if not following:
        return NextStep(f"when {phase['name']} is done", ["complete"])
    name, needs = following[0], needs_of(state, following[0])
    if phase["name"] in CYCLE and name in CYCLE:
        return _cycle_step(state, name)
    if phase["name"] in CYCLE and name == "commit":
        return _commit_step("stage the change (git add), then")
    if "branch" in needs and is_branch_missing(facts):
        return _branch_step(f"when {phase['name']} is done, create the branch of this work")
    task = current_task(state)
    if "tasks" in needs and task is not None and _has_cycle(state):
        return _task_step(state, task)
    gates = [gate for gate in pending_gates(state) if gate in gates_of(state, name)]
    if "gates" in needs and gates:
        return _gate_step(state, gates[0], facts)
    return NextStep(f"when {phase['name']} is done", ["advance"])


def _branch_step(about: str) -> NextStep:
    meaning = "a new branch's name, such as feat/login"
    return NextStep(about, ["advance", "--branch", "BRANCH"], BRANCH=meaning)


def _has_cycle(state: Workflow) -> bool:
    """Return whether tasks are done by red, green and refactor."""
    names = state["recipe"].get("task_phases", [])
    return bool(names) and set(names) <= set(CYCLE) and bool(state["recipe"].get("task_needs"))


def _with_title(task: Task) -> str:
    """Return the id of a task, with its title if it has one: another tool's unit may have none."""
    return f"{task['id']} ({task['description']})" if task["description"] else str(task["id"])


def _task_step(state: Workflow, task: Task | None) -> NextStep:
    if task is None:
        about = "list what is to be done, a task for each test and commit"
        return NextStep(about, ["task", "add", "TASK"], TASK="what is to be done, in a sentence")
    number = str(task["id"])
    name = f"task {_with_title(task)}"
    if task["status"] == "blocked":
        reason = f" ({task['reason']})" if task.get("reason") else ""
        about = f"{name} is blocked{reason}; when that is resolved"
        return NextStep(about, ["task", "unblock", number])
    names = state["recipe"].get("task_phases", [])
    inner = inner_phase(task)
    if _has_cycle(state):
        if inner is None:
            return _cycle_step(state, names[0], name)
        if missing_for_task(state, task, inner):
            return _cycle_step(state, inner, name)
        following = names[names.index(inner) + 1 :]
        if following:
            return _cycle_step(state, following[0], name)
        if has_git(state):
            return _commit_step(f"{name}: stage the change (git add), then")
        return NextStep(f"when {name} is done", ["task", "done", number])
    if task["status"] == "pending":
        return NextStep(name, ["task", "start", number])
    following = names[names.index(inner) + 1 :] if inner in names else []
    if following:
        return NextStep(f"when {inner} is done", ["task", "phase", number, following[0]])
    return NextStep(f"when {name} is done", ["task", "done", number])


def _cycle_step(state: Workflow, name: str, task: str = "") -> NextStep:
    """Return the command that does red, green or refactor as a whole."""
    about = {
        "red": "write a test that fails, then",
        "green": "write the code that makes it pass, then",
        "refactor": "improve the code, with the tests passing, then",
    }[name]
    if task and name == "red":
        about = f"{task}: {about}"
    if last_test_command(state):
        return NextStep(about, [name])
    return NextStep(about, [name, "--", "COMMAND"], COMMAND=_TEST_COMMAND)


def _test_step(state: Workflow, phase: str, kind: str, missing: list[str]) -> NextStep:
    if phase in CYCLE:
        return _cycle_step(state, phase)
    if kind == "failure":
        about = "write a test that fails, then"
    else:
        about = f"the tests must pass ({', '.join(missing)})"
    words = ["tests", "run", "--", "COMMAND"]
    return NextStep(about, words, COMMAND=_TEST_COMMAND)


def _commit_step(about: str) -> NextStep:
    return NextStep(about, ["commit", "-m", "MESSAGE"], MESSAGE="the commit's message")


def _gate_step(state: Workflow, name: str, facts: Fields | None) -> NextStep:
    """Return how a gate is passed: by a run, a claim, or what can be looked up."""
    gate, taken = state["gates"][name], evidence_of(state, name)
    is_known = _has_command(state, name, facts)
    about = f"gate {name}"
    if gate.get("passed") is False:
        about = f"gate {name} failed: fix it, then"
    elif gate.get("status") == "stale":
        about = f"{why_stale(facts)} gate {name} ran; run it again"
        if is_unknown_tree(facts):
            return NextStep(f"{why_stale(facts)} gate {name} ran: see", ["status"], program="git")
    if taken == CHECK and (facts or {}).get("github"):
        return NextStep("push the branch, then", ["pr"])
    if taken == CHECK:
        return NextStep(
            "push the branch and create the pull request, then",
            ["gate", "record", name, "--passed", "pr_number=NUMBER", "pr_url=URL"],
            NUMBER="the pull request's number",
            URL="the pull request's address",
        )
    if taken == CLAIM and gate.get("evidence") != RUN and not is_known:
        if gate.get("passed") is False:
            return NextStep(about, ["gate", "record", name, "--passed"])
        also = _claimed_alike(state, name, facts)
        words = ["gate", "record", name, *(word for other in also for word in ("--also", other))]
        return NextStep(f"do {join_names([name, *also])}, then say so", [*words, "--passed"])
    if is_known or last_gate_command(state, name):
        return NextStep(about, ["gate", "run", name])
    meaning = f"the project's command for {name}"
    about = f"{about}: COMMAND is {meaning}"
    return NextStep(about, ["gate", "run", name, "--", "COMMAND"], COMMAND=meaning)


def _has_command(state: Workflow, gate: str, facts: Fields | None) -> bool:
    """Return whether the recipe or the settings say what a gate runs."""
    declared = state["recipe"].get("gates", {}).get(gate, {})
    return "command" in declared or gate in (facts or {}).get("commands", ())


def _claimed_alike(state: Workflow, name: str, facts: Fields | None) -> list[str]:
    """Return the other gates of the same phase that are due and take the same claim."""
    return [
        other
        for other in pending_gates(state)
        if other != name
        and evidence_of(state, other) == CLAIM
        and state["gates"][other].get("status", "pending") == "pending"
        and not _has_command(state, other, facts)
        and any({name, other} <= set(gates_of(state, p["name"])) for p in state["phases"])
    ]


STUCK = ("blocked", "timeout")
_ORDER = ("verifying", "confirming", "in_progress", "pending")
_TURNS = {"confirming": "confirm", "verifying": "verify"}
_UNIT_FIELDS = ("criteria", "files", "output", "remaining", "blockers", "verify", "model")


def turn_of(state: Workflow) -> tuple[Task | None, str]:
    """Return the unit that is due and its turn: iterate, confirm, verify or timeout.

    No unit is due while a blocking question is open.
    """
    if blocking_questions(state):
        return None, ""
    for status in _ORDER:
        for task in state["tasks"]:
            if task["status"] != status or waits_for(state, task):
                continue
            if status in _TURNS:
                return task, _TURNS[status]
            has_room = task.get("iterations_used", 0) < limit_of(task)
            return task, "iterate" if has_room else "timeout"
    return None, ""


def stuck_units(state: Workflow) -> dict[str, str]:
    """Return the units that wait for a person, and why."""
    return {str(task["id"]): _why(task) for task in state["tasks"] if task["status"] in STUCK}


def _why(task: Task) -> str:
    if task["status"] == "blocked":
        reason = task.get("reason")
        return f"blocked: {reason}" if reason else "blocked"
    return f"timeout: it has used {iterations_allowed(task)}"


def next_turn(state: Workflow, *, is_named: bool = False) -> Fields:
    """Return what to do now and everything needed to do it.

    ``is_named``: the commands name the loop.
    """
    task, turn = turn_of(state)
    steps = [step.named(state["id"]) if is_named else step for step in _turn_steps(state)]
    answer: Fields = {"loop": state["id"], "phase": state["phase"], "stuck": stuck_units(state)}
    answer |= next_fields(steps[0]) or {}
    if task is None:
        return {**answer, "turn": _turn_without_unit(state)}
    used = task.get("iterations_used", 0)
    answer |= {
        "turn": turn,
        "unit": task["id"],
        "title": task["description"],
        "status": task["status"],
        "iteration": used + 1 if turn == "iterate" else used,
        "max_iterations": limit_of(task),
        "signal": signal_of(task),
        "guardrails": state.get("guardrails", []),
    }
    if steps[1:]:
        answer["or"] = [step.command for step in steps[1:]]
    answer |= {key: task.get(key) for key in _UNIT_FIELDS if task.get(key)}
    if turn == "timeout":
        answer["choices"] = TIMEOUT_CHOICES
    return answer


def next_fields(step: NextStep | None) -> Fields | None:
    """Return a step as every JSON answer shows it; ``None`` if there is none."""
    if step is None:
        return None
    fields: Fields = {"command": step.command, "about": step.about, "fill": dict(step.fill)}
    return {**fields, "by": "person"} if step.is_persons else fields


def _turn_steps(state: Workflow) -> list[NextStep]:
    """Return the ways to take a loop's next turn; the first is the one that leads to its end."""
    task, turn = turn_of(state)
    if task is None:
        return [_step_without_unit(state)]
    name = str(task["id"])
    title = _with_title(task)
    if turn == "confirm":
        about = f"{title} was declared done: go over it once more, then"
        issues = NextStep(
            "it is not done",
            ["loop", "confirm", name, "--issues", "ISSUES"],
            ISSUES="what is wrong",
        )
        return [NextStep(about, ["loop", "confirm", name, "--clean"]), issues]
    if turn == "verify":
        return _ways_to_verify(state, task, title)
    if turn == "timeout":
        about = f"{title} has used {iterations_allowed(task)}; ask the user: {TIMEOUT_CHOICES}"
        return [NextStep(about, ["loop", "extend", name, "--max", _longer_limit(task)])]
    iterate, did = ["loop", "iterate", name, "--did", "DID"], "what this iteration did"
    about = f"{title}: work on it; when every criterion is met"
    if task.get("verification_passed") is False:
        about = f"{title} was not verified: fix it; when every criterion is met"
    remaining = NextStep(
        "something remains", [*iterate, "--remaining", "REMAINING"], DID=did,
        REMAINING="what is left to do",
    )  # fmt: skip
    return [NextStep(about, [*iterate, "--signal", signal_of(task)], DID=did), remaining]


def _ways_to_verify(state: Workflow, task: Task, title: str) -> list[NextStep]:
    name, about = str(task["id"]), f"{title} was confirmed: verify it"
    failed = NextStep(
        "it does not hold", ["loop", "verify", name, "--failed", "REASON"], REASON="what is wrong"
    )
    if task.get("verify"):
        return [NextStep(about, ["loop", "verify", name, "--run"]), failed]
    meaning = "a command that shows that the criteria are met"
    if needs_run(task):
        meaning = f"the command that failed before: {task['verification_run'].get('command')}"
    run = NextStep(about, ["loop", "verify", name, "--run", "--", "COMMAND"], COMMAND=meaning)
    if needs_run(task):
        return [run, failed]
    claim = NextStep(about, ["loop", "verify", name, "--passed"])
    if state["recipe"].get("mode") == "knowledge":
        return [claim, failed, run]
    return [run, failed, claim]


def _step_without_unit(state: Workflow) -> NextStep:
    """Return what is due if no unit is."""
    turn, waiting = _turn_without_unit(state), [t for t in state["tasks"] if t["status"] in STUCK]
    if turn == "answer":
        return _answer_step(blocking_questions(state)[0])
    if turn == "plan":
        unit = f"{unit_mark(state['recipe'])}1: TITLE"
        title = "what the first unit is about"
        return NextStep("no unit is planned", ["loop", "plan", "--unit", unit], TITLE=title)
    if turn == "archive":
        return NextStep("every unit is done", ["loop", "archive"])
    if not waiting:
        return NextStep("no unit is ready", ["loop", "status"])
    name = str(waiting[0]["id"])
    if waiting[0]["status"] == "blocked":
        about = f"no unit is ready; {name} is {_why(waiting[0])}; when that is resolved"
        return NextStep(about, ["loop", "unblock", name])
    about = f"no unit is ready; {name} ran out of iterations; ask the user: {TIMEOUT_CHOICES}"
    return NextStep(about, ["loop", "extend", name, "--max", _longer_limit(waiting[0])])


def _turn_without_unit(state: Workflow) -> str:
    if blocking_questions(state):
        return "answer"
    if not state["tasks"]:
        return "plan"
    is_done = all(task["status"] == "completed" for task in state["tasks"])
    return "archive" if is_done else "wait"


def _longer_limit(task: Task) -> str:
    return str(limit_of(task) + MAX_ITERATIONS)


def lessons(state: Workflow) -> list[str]:
    """Return the guardrails, one line each."""
    return [
        f"when {rule.get('when')}: {rule.get('problem')}; instead: {rule.get('solution')}"
        for rule in state.get("guardrails", [])
    ]
