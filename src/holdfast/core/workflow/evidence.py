"""Gates, violations, test runs and touched files; and the notes that survive a compaction.

Notes are required reading, reminders, lessons and context. When a gate counts as passed is in
``needs.is_passed``.
"""

from __future__ import annotations

from holdfast.core.refusal import (
    Refusal,
    bad_reading,
    bad_text,
    bad_values,
    first_bad_text,
    shell_word,
)
from holdfast.core.workflow import (
    decides,
    declared_phase,
    evolves,
    find_task,
    is_blocking,
    with_phase,
)
from holdfast.core.workflow.lifecycle import OF_FOLDER
from holdfast.core.workflow.needs import (
    CHECK,
    CLAIM,
    NOT_RUN,
    RUN,
    WAIVED,
    evidence_of,
    mark_of_run,
    needs_of,
    shows_failure,
    subject_of_run,
    task_needs_of,
    with_stale_gates,
)
from holdfast.core.workflow.tasks import inner_phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Draft, Event, Fields, Task, Violation, Workflow
    from holdfast.core.workflow import Decision

SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")
OF_ONE_RUN = (
    "evidence", "command", "exit_code", "signal", "timed_out", "cancelled", "no_test",
    "duration_ms", "output_tail", "commit", "tree", "reason", "waived_at", "instead_of", "claimed",
    "pushed_to", "output_digest", "replica", "machine",
)  # fmt: skip
"""The fields of a gate that its next result replaces."""
OWN_GATE_FIELDS = ("status", "passed", "last_run", *OF_ONE_RUN)
ONLY_RUN = (
    "evidence", "exit_code", "duration_ms", "runner", "counts", "tree", "ran_in", "cut_short",
    "replica", "machine",
)  # fmt: skip
OF_ONE_TEST_RUN = (
    "test_command", "last_run", "last_result", "failing_tests", "passing_tests", "last_error",
    *ONLY_RUN,
)  # fmt: skip
_SEEN_IN_RUN = ("ran_in", "failure")
"""What no caller can hand in with a test run."""
_LESSON = ("name", "when", "problem", "solution", "learned")


def record_one_gate(state: Workflow, args: Fields) -> Decision:
    """Record a gate's result. An undeclared gate begins with its first result.

    A claim that a gate passed is refused if the recipe asks for a run. No claim takes the place of
    a run that failed or is stale. ``looked_up`` has what a check showed; whatever else the caller
    gives with it is claimed.
    """
    evidence, fields = args.get("evidence", CLAIM), args.get("fields", {})
    if refusal := first_bad_text(gate=args["gate"]):
        return refusal
    if evidence == CLAIM and (refusal := _refuse_claim(state, args)):
        return refusal
    if evidence != RUN:
        taken = [key for key in fields if key in OWN_GATE_FIELDS]
        if taken:
            why = f"gate record: {taken[0]} is what Holdfast sees for itself"
            return Refusal("invalid", why, "holdfast gate run NAME -- COMMAND")
        if refusal := bad_values(fields):
            return refusal
    if evidence == CHECK:
        seen = args["looked_up"]
        claimed = [key for key in fields if key not in seen]
        fields = {**fields, **seen, **({"claimed": claimed} if claimed else {})}
    return [_result(state, args["gate"], fields, evidence, passed=bool(args["passed"]))]


def _result(state: Workflow, name: str, fields: Fields, evidence: str, *, passed: bool) -> Draft:
    """Return the event of a gate's result, with the command that it took the place of."""
    before = state["gates"].get(name, {})
    is_declared = "command" in state["recipe"].get("gates", {}).get(name, {})
    original = None if is_declared else replaced_command(before, str(fields.get("command")))
    if original is not None:
        reason = fields.get("reason") or before.get("reason")
        fields = {**fields, "instead_of": original, **({"reason": reason} if reason else {})}
    data = {"gate": name, "passed": passed, "evidence": evidence, "fields": fields}
    return {"type": "gate_recorded", "data": data}


def replaced_command(gate: Fields, command: str) -> str | None:
    """Return the command of a gate that failed, if ``command`` is another one or none."""
    has_failed = gate.get("evidence") == RUN and gate.get("passed") is False
    own = gate.get("instead_of")
    if own is None and has_failed and gate.get("exit_code") not in NOT_RUN:
        own = gate.get("command")
    return None if own == command else own


def _refuse_claim(state: Workflow, args: Fields) -> Refusal | None:
    """Return a refusal if a claim cannot take the place of evidence."""
    name = args["gate"]
    gate = with_stale_gates(state, args.get("facts"))["gates"].get(name, {})
    is_configured = name in args.get("facts", {}).get("commands", ())
    again = f"holdfast gate run {shell_word(name)}"
    command = gate.get("command") or state["recipe"].get("gates", {}).get(name, {}).get("command")
    if not command and not is_configured:
        again += " -- COMMAND"
    if args["passed"] and (is_configured or evidence_of(state, name) == RUN):
        why = f"gate record: {name} takes a run by Holdfast, not a claim"
        return Refusal("needs_run", why, again)
    if gate.get("evidence") == RUN and gate.get("status") == "stale":
        why = f"gate record: files changed since {name} ran; a claim does not stand for a run"
        return Refusal("needs_run", why, again)
    if gate.get("evidence") == RUN and gate.get("passed") is False:
        why = f"gate record: the last run of {name} failed; a claim does not stand for a run"
        return Refusal("needs_run", why, again)
    return None


@decides("waive_gate")
def waive_gate(state: Workflow, args: Fields) -> Decision:
    """Record a person's decision that a gate need not be passed."""
    name, reason = args["gate"], args["reason"]
    if refusal := first_bad_text(gate=name, reason=reason):
        return refusal
    if name not in state["gates"]:
        known = ", ".join(state["gates"]) or "none"
        why = f"gate waive: {state['id']} has no gate {name[:40]!r}; it has {known}"
        return Refusal("not_found", why, "holdfast gate list")
    return [{"type": "gate_waived", "data": {"gate": name, "reason": reason}}]


@evolves("gate_waived")
def _gate_waived(state: Workflow, data: Fields, at: str) -> Workflow:
    before = state["gates"].get(data["gate"], {})
    kept = {k: v for k, v in before.items() if k not in (*OF_ONE_RUN, "passed")}
    gate = {**kept, "status": WAIVED, "waived_at": at, "reason": data["reason"]}
    return {**state, "gates": {**state["gates"], data["gate"]: gate}}


@evolves("gate_recorded")
def _gate_recorded(state: Workflow, data: Fields, at: str) -> Workflow:
    before = state["gates"].get(data["gate"], {})
    lasting = {key: value for key, value in before.items() if key not in OF_ONE_RUN}
    result = {"status": "completed", "last_run": at, "passed": data["passed"]}
    gate = {**lasting, **result, **data["fields"], "evidence": data.get("evidence", CLAIM)}
    return {**state, "gates": {**state["gates"], data["gate"]: gate}}


@decides("add_violation")
def add_violation(_state: Workflow, args: Fields) -> Decision:
    if refusal := first_bad_text(code=args["code"], details=args["details"]):
        return refusal
    if args["severity"] not in SEVERITIES:
        why = f"violation: {str(args['severity'])[:40]!r} is not a severity"
        return Refusal("invalid", why, f"one of {', '.join(SEVERITIES)}")
    data = {key: args[key] for key in ("code", "severity", "details")}
    return [{"type": "violation_found", "data": data}]


@evolves("violation_found")
def _violation_found(state: Workflow, data: Fields, _at: str) -> Workflow:
    after = state
    found: Violation = data  # type: ignore[assignment]
    if is_blocking(found) and found not in state["violations"]:
        # The phase was forced before this violation was known.
        after = with_phase(state, state["phase"], {"forced": None})
    others = [violation for violation in state["violations"] if violation["code"] != data["code"]]
    return {**after, "violations": [*others, {**found}]}


@decides("clear_violation")
def clear_violation(state: Workflow, args: Fields) -> Decision:
    code = args["code"]
    if all(violation["code"] != code for violation in state["violations"]):
        why = f"violation: {state['id']} has no {code}"
        return Refusal("not_found", why, f"holdfast show {state['id']}")
    return [{"type": "violation_cleared", "data": {"code": code}}]


@evolves("violation_cleared")
def _violation_cleared(state: Workflow, data: Fields, _at: str) -> Workflow:
    others = [violation for violation in state["violations"] if violation["code"] != data["code"]]
    return {**state, "violations": others}


def enforcement(violations: list[Violation]) -> Fields:
    """Return the violations, whether they block, and a summary line."""
    severities = [violation["severity"] for violation in violations]
    blocking = any(map(is_blocking, violations))
    counted = ", ".join(
        f"{severities.count(name)} {name}" for name in sorted(dict.fromkeys(severities), key=_rank)
    )
    noun = "violation" if len(violations) == 1 else "violations"
    summary = f"{counted} {noun}{' (blocking)' if blocking else ''}"
    return {"violations": violations, "blocking": blocking, "summary": summary}


def _rank(severity: str) -> tuple[int, str]:
    name = severity.upper()
    return (SEVERITIES.index(name) if name in SEVERITIES else len(SEVERITIES), severity)


@decides("record_tests")
def record_tests(state: Workflow, args: Fields) -> Decision:
    """Record a test run, and the phase in which Holdfast made it."""
    tests = {key: value for key, value in args["tests"].items() if key not in _SEEN_IN_RUN}
    if refusal := bad_values(tests):
        return refusal
    if tests.get("evidence") == RUN:
        task, inner = _tested(state)
        tests["ran_in"] = mark_of_run(state, task, inner)
        if must_fail(state) and shows_failure(tests):
            about = subject_of_run(state, task)
            tests["failure"] = {"of": about, "command": tests["test_command"]}
    drafts: list[Draft] = [{"type": "tests_recorded", "data": {"tests": tests}}]
    name, passed = args.get("gate"), tests.get("last_result") == "passed"
    # A test that has to fail does not fail the gate, which is stale anyway by the new test.
    if name and (passed or (state["gates"][name].get("passed") and not must_fail(state))):
        drafts.append(_result(state, name, args["result"], RUN, passed=passed))
    return drafts


def ran_by(event: Event) -> list[str]:
    """Return the commands that Holdfast ran for an event."""
    data = event["data"]
    if event["type"] == "gate_recorded" and data.get("evidence") == RUN:
        return [str(data["fields"].get("command"))]
    if event["type"] == "tests_recorded" and data["tests"].get("evidence") == RUN:
        return [str(data["tests"].get("test_command"))]
    return []


def settled_at(gate: Fields) -> str:
    """Return when a gate got its result: when it was waived, else its last run; empty if never."""
    waived_at = gate.get("waived_at") if gate.get("status") == WAIVED else None
    return str(waived_at or gate.get("last_run") or "")


def how_it_ended(result: Fields) -> str:
    """Return how a run ended, in a few words."""
    if result.get("cancelled"):
        return "cancelled"
    if result.get("no_test"):
        return "no test was found"
    return "timed out" if result.get("timed_out") else f"exit {result.get('exit_code')}"


def shows_nothing(state: Workflow) -> bool:
    """Return whether the last run passed in a phase that asks for a test that fails."""
    tests = state["tests"]
    if tests.get("evidence") != RUN or tests.get("last_result") != "passed":
        return False
    return must_fail(state) and tests.get("ran_in") == mark_of_run(state, *_tested(state))


def must_fail(state: Workflow) -> bool:
    """Return whether the phase of the task, else the phase, asks for a test that fails."""
    inner = _tested(state)[1]
    needs = task_needs_of(state, inner) if inner else needs_of(state, state["phase"])
    return "failure" in needs


def _tested(state: Workflow) -> tuple[Task | None, str | None]:
    """Return the task and its phase that a test run is about now; without them, the phase is."""
    task = find_task(state, state.get("current_task"))
    inner = inner_phase(task) if task is not None else None
    return (task, inner) if inner is not None else (None, None)


@evolves("tests_recorded")
def _tests_recorded(state: Workflow, data: Fields, at: str) -> Workflow:
    lasting = {key: value for key, value in state["tests"].items() if key not in OF_ONE_TEST_RUN}
    tests = {**lasting, "last_run": at, **data["tests"]}
    after: Workflow = {**state, "tests": tests}
    declared = declared_phase(state, state["phase"])
    if declared is None or not declared.get("shows_tests"):
        return after
    fields = {
        "tests_passing": tests.get("last_result") == "passed",
        "last_error": tests.get("last_error"),
    }
    return with_phase(after, declared["name"], fields)


@decides("record_files")
def record_files(_state: Workflow, args: Fields) -> Decision:
    files = args["files"]
    if refusal := first_bad_text(path=[file["path"] for file in files]):
        return refusal
    return [{"type": "files_recorded", "data": {"files": files}}] if files else []


@evolves("files_recorded")
def _files_recorded(state: Workflow, data: Fields, _at: str) -> Workflow:
    named = {file["path"] for file in data["files"]}
    others = [file for file in state["files"] if file["path"] not in named]
    return {**state, "files": [*others, *data["files"]]}


@decides("add_reminder")
def add_reminder(state: Workflow, args: Fields) -> Decision:
    text = args["text"]
    if refusal := bad_text("reminder", text):
        return refusal
    if text in state["reminders"]:
        why = f"remind: {state['id']} has that reminder"
        return Refusal("already", why, f"holdfast show {state['id']}")
    return [{"type": "reminder_added", "data": {"text": text}}]


@evolves("reminder_added")
def _reminder_added(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "reminders": [*state["reminders"], data["text"]]}


@decides("require_reading")
def require_reading(state: Workflow, args: Fields) -> Decision:
    path = args["path"]
    if refusal := bad_text("path", path) or bad_reading(path):
        return refusal
    if path in state["required_reading"]:
        why = f"read: {state['id']} requires {path} already"
        return Refusal("already", why, f"holdfast show {state['id']}")
    return [{"type": "reading_required", "data": {"path": path}}]


@evolves("reading_required")
def _reading_required(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "required_reading": [*state["required_reading"], data["path"]]}


@decides("confirm_reading")
def confirm_reading(state: Workflow, args: Fields) -> list[Draft]:
    """Record that required reading was read; return no event for other files."""
    path = args["path"]
    if path not in state["required_reading"] or path in state["read"]:
        return []
    return [{"type": "reading_confirmed", "data": {"path": path}}]


@evolves("reading_confirmed")
def _reading_confirmed(state: Workflow, data: Fields, at: str) -> Workflow:
    return {**state, "read": {**state["read"], data["path"]: at}}


@decides("set_context")
def set_context(_state: Workflow, args: Fields) -> Decision:
    values = args["values"]
    if not values:
        return Refusal("invalid", "set: nothing is given", "holdfast set key=value")
    kept = [key for key in values if key in (*OF_FOLDER, "feature_file")]
    if kept:
        why = f"set: {kept[0]} is the position in a folder of features, which Holdfast keeps"
        return Refusal("invalid", why, "give it another name: key=value")
    return bad_values(values) or [{"type": "context_set", "data": {"values": values}}]


@evolves("context_set")
def _context_set(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "context": {**state["context"], **data["values"]}}


@decides("add_guardrail")
def add_guardrail(state: Workflow, args: Fields) -> Decision:
    """Add a lesson for every later iteration. With ``replace``, overwrite the one of that name."""
    lesson = {key: args[key] for key in _LESSON if args.get(key) is not None}
    if refusal := first_bad_text(**lesson):
        return refusal
    lessons = {rule.get("name"): rule for rule in state.get("guardrails", [])}
    if lessons.get(lesson["name"]) == lesson:
        return []
    if not args.get("replace"):
        name, number = lesson["name"], 2
        while lesson["name"] in lessons:
            lesson["name"], number = f"{name} ({number})", number + 1
    return [{"type": "guardrail_added", "data": lesson}]


@evolves("guardrail_added")
def _guardrail_added(state: Workflow, data: Fields, _at: str) -> Workflow:
    lessons = state.get("guardrails", [])
    if data["name"] not in [rule.get("name") for rule in lessons]:
        return {**state, "guardrails": [*lessons, dict(data)]}
    rules = [dict(data) if rule.get("name") == data["name"] else rule for rule in lessons]
    return {**state, "guardrails": rules}


@decides("note_compaction")
def note_compaction(state: Workflow, args: Fields) -> list[Draft]:
    """Record a compaction; return no event if the last event was one."""
    last = state["history"][-1:]
    if last and last[0].get("event") == "context_compacted":
        return []
    return [{"type": "context_compacted", "data": dict(args)}]


@evolves("context_compacted")
def _compacted(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return {**state, "read": {}}


@decides("note_briefing")
def note_briefing(_state: Workflow, args: Fields) -> list[Draft]:
    return [{"type": "briefing_delivered", "data": dict(args)}]


@decides("note_rebuild", after_end=True)
def note_rebuild(_state: Workflow, args: Fields) -> list[Draft]:
    """Record that a loop was rebuilt from its pages, and what did not agree."""
    return [{"type": "loop_rebuilt", "data": {"found": list(args["found"])}}]


@evolves("briefing_delivered")
def _briefed(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "read": {}} if data.get("new_context") else state


@evolves("loop_rebuilt")
def _unchanged(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return state
