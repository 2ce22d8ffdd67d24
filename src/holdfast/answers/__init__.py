"""The answers of all surfaces (docs/json.md): the fields of every answer and failure, safe text.

The fields are for ``--json`` and for MCP. A function returns those of one kind of answer without
``ok``, which the surface puts first.

State is written by models and by strangers' repositories. An escape sequence in it could rewrite
the screen, a bidirectional override could show a command as another one. So nothing that came from
storage is printed without ``clean`` or ``clean_json`` of ``core.visible``.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.refusal import shell_word
from holdfast.core.selection import join_names
from holdfast.core.visible import clean
from holdfast.core.workflow import unread
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper import Keeper, Receipt
    from holdfast.keeper.audit import Report

_WORKFLOW_FIRST = (
    "id", "recipe", "format", "subject", "title", "status", "phase", "step", "cycle", "phases",
    "tasks", "gates", "violations", "required_reading", "unread", "read", "reminders", "context",
    "branch", "worktree", "record", "session", "ttl", "created_at", "updated_at",
)  # fmt: skip
"""The order in which people look for the fields; other fields follow, unsorted."""
_ROW = (
    "id", "seq", "recipe", "format", "subject", "title", "status", "phase", "phase_status",
    "phase_index", "phase_total", "tasks_done", "tasks_total", "branch", "floating", "worktree",
    "record", "session", "ttl", "created_at", "updated_at",
)  # fmt: skip
"""Columns of a workflow's row that a listing shows; the others are for the ledger."""
_WATCHED = ("unopened", "seq", "mine", "initiative", "layers", "events", "damage")
_OF_ONE_WORKFLOW = (
    *("abandon", "advance", "complete", "files", "gate", "log", "loop", "phase", "read", "remind"),
    *("rename", "resume", "set", "show", "step", "task", "tests", "undo", "unset", "violation"),
    *("ask", "answer", "red", "green", "refactor", "commit", "start", "report", "pr"),
)
"""First words of the commands that work on one workflow."""
_TAKE_AN_ID = ("show", "resume", "log", "report", "pr")
"""The commands among these that take the workflow's id as their first argument."""
_COMMANDS = ("holdfast ", "git ", "gh ")


def is_about_workflow(command: str | None) -> bool:
    """Return whether a command works on one workflow, loop or initiative."""
    return bool(command) and str(command).partition(" ")[0] in (*_OF_ONE_WORKFLOW, "initiative")


def is_command_hint(hint: str) -> bool:
    """Return whether the hint of a failure is a command to run; others are sentences."""
    return hint.startswith(_COMMANDS)


def with_notes(fields: Fields, notes: list[str]) -> Fields:
    """Return the fields of an answer, with its notes last if there are any."""
    return {**fields, "notes": list(notes)} if notes else fields


def workflow_view(state: Workflow, record: str | None) -> Fields:
    """Return a workflow as every answer shows it; ``record`` is the path of its record now."""
    recipe = state["recipe"]
    fields: Fields = {
        **state,
        "recipe": recipe["name"],
        "format": recipe["format"],
        "unread": unread(state),
        "record": record,
    }
    return {**{name: fields[name] for name in _WORKFLOW_FIRST}, **fields}


def row_view(row: Fields) -> Fields:
    """Return a workflow's row as listings show it."""
    return {name: row[name] for name in _ROW}


def workflow(receipt: Receipt) -> Fields:
    return with_notes({"workflow": workflow_view(receipt.state, receipt.record)}, receipt.notes)


def workflows(rows: list[Fields], notes: list[str], questions: list[Fields]) -> Fields:
    """Return the active workflows, and the questions of all of them that wait for an answer."""
    fields = {"workflows": [row_view(row) for row in rows], "questions": questions}
    return with_notes(fields, notes)


def change(receipt: Receipt) -> Fields:
    """Return the fields of every command that changes a workflow."""
    view = workflow_view(receipt.state, receipt.record)
    return with_notes({"workflow": view, "seqs": list(receipt.seqs)}, receipt.notes)


def pull_request(fields: Fields, receipt: Receipt) -> Fields:
    """Return the fields of ``pr``: the pull request as it was planned or sent."""
    return {"pull_request": fields, **change(receipt)}


def run(receipt: Receipt, what: str, result: Fields, *, is_good: bool) -> Fields:
    """Return the fields of a command that ran a gate's command or the tests."""
    if receipt.output and result.get("last_result") == "failed":
        result = {**result, "output_tail": receipt.output}
    fields = {"gate" if "name" in result else "tests": result, **change(receipt)}
    return fields if is_good else {**fields, "error": failed_run(what, result)}


def failed_run(what: str, result: Fields) -> Fields:
    """Return the ``error`` of a run that was recorded and is no success."""
    if what == "red":
        return _error("failed", "red: no test was seen to fail", "write one that does, and run it")
    ending = f"exit code {result['exit_code']}"
    if result.get("cancelled"):
        ending = "it was cancelled"
    elif result.get("timed_out"):
        ending = "it was ended at its time limit"
    elif result.get("signal"):
        ending = f"it died of signal {result['signal']}"
    elif result.get("no_test"):
        ending = "no test was found"
    failing = result.get("failing_tests") or []
    names = f": {', '.join(failing[:5])}" if failing else ""
    hint = "fix it, then run the same command again"
    return _error("failed", f"{what} failed ({ending}){names}", hint)


def loop_run(result: Fields, following: str) -> Fields:
    """Return the fields of ``loop run``; ``following`` is the command after it."""
    fields: Fields = {"run": result}
    if not result["finished"]:
        stuck = "".join(f"; {name} {why}" for name, why in result["stuck"].items())
        message = f"loop run: {result['loop']} is not finished: {result['why']}{stuck}"
        fields["error"] = _error("failed", message, following)
    return fields


def failed_verification(receipt: Receipt, unit: str, why: str, following: str) -> Fields:
    message = f"loop verify: {unit} did not pass: {why[:200]}"
    return {**change(receipt), "error": _error("failed", message, following)}


def checks(rows: list[Fields]) -> Fields:
    fields: Fields = {"checks": rows}
    bad = [check for check in rows if check["status"] == "bad"]
    if bad:
        message = "; ".join(f"{check['what']}: {check['found']}" for check in bad)
        fields["error"] = _error("unwell", message, bad[0]["hint"])
    return fields


def layers(rows: list[Fields], notes: list[str]) -> Fields:
    fields = with_notes({"layers": rows}, notes)
    failed = [row for row in rows if "error" in row]
    if failed:
        fields["error"] = {**failed[0]["error"], "code": "undelivered"}
    return fields


def report(result: Report, following: str) -> Fields:
    """Return the fields of ``verify`` and ``repair``; ``following`` is the command after damage."""
    fields: Fields = {"lines": result.lines, "counts": result.counts}
    if not result.ok:
        errors = [line for line in result.lines if line["level"] == "error"]
        message = "; ".join([f"{line['what']}: {line['message']}" for line in errors[:3]])
        fields["error"] = _error("damaged", message, following)
    return fields


def watched(view: Fields, progress: list[Fields]) -> Fields:
    """Return what ``watch`` shows of a repository at one moment."""
    states = view["states"].values()
    return {
        "workflows": [workflow_view(state, state["record"]) for state in states],
        **{name: view[name] for name in _WATCHED},
        "progress": progress,
    }


def failure_fields(error: Exception, workflow: str | None = None) -> Fields:
    """Return the ``error`` object of an answer.

    ``workflow`` is the one that the caller named: commands in the hint name it too, because
    without it they might go to another one. The traceback of an error that is a bug goes to
    standard error.
    """
    if isinstance(error, HoldfastError):
        fields = _error(error.code, error.message, _aim_hint(error.hint, workflow))
        return {**fields, "details": error.details} if error.details else fields
    if isinstance(error, FileNotFoundError):
        try:
            os.getcwd()
        except FileNotFoundError:
            return _error("storage", "the current folder is gone", "cd to one that exists")
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        message = f"the system refused: {error.strerror or error}{where}"
        return _error("storage", message, "see to that, then run the same command again")
    from traceback import format_exc

    if sys.stderr is not None:
        for line in format_exc().splitlines():
            print(clean(line), file=sys.stderr)
    message = f"an error in Holdfast itself (report this): {type(error).__name__}: {error}"
    return _error("internal", message, "holdfast verify")


def step_after_refusal(
    error: Fields, keeper: Keeper, workflow: str | None, words: list[str], *, after: str,
    is_named: bool,
) -> NextStep | None:  # fmt: skip
    """Return the next step after a refusal: what its hint names, else that of the work.

    ``words`` are those of the refused command, which is never the answer; ``after`` is its name.
    If ``is_named``, the step names the workflow.
    """
    from holdfast.core.next_step import NextStep, next_step, step_of_hint
    from holdfast.core.refusal import Refusal

    if error["code"] == "untrusted":
        return NextStep("let a person read it and approve it", ["trust"])
    choice = step_to_choose(error, keeper, words)
    if choice is not None:
        return choice
    hint = error["hint"]
    state = keeper.peek(workflow=workflow)
    if isinstance(state, Refusal) or not hint.startswith("holdfast show "):
        step = step_of_hint(hint)
        if step is not None or isinstance(state, Refusal):
            return step
    facts = keeper.session.facts.of_next_step(state)
    step = next_step(state, facts, is_named=is_named, after=after)
    if step is not None and step.words == words:
        return NextStep("what it waits for", ["show", state["id"]])
    return step


def step_to_choose(error: Fields, keeper: Keeper, words: list[str]) -> NextStep | None:
    """Return the next step after a refusal that leaves a choice of workflows; else ``None``.

    ``words`` are those of the refused command.
    """
    from holdfast.core.next_step import MEANINGS, NextStep, step_of_hint

    details = error.get("details", {})
    match error["code"]:
        case "ambiguous" if error["hint"].startswith("name one: "):
            meaning = f"one of {join_names(details['candidates'])}"
            return NextStep("name the workflow", words, ID=meaning).named("ID")
        case "held" if error["hint"].startswith("holdfast resume "):
            return step_of_hint(error["hint"])
        case "held" if error["hint"].startswith("holdfast pool take"):
            own = [] if not keeper.session.id or keeper.session.pid else [keeper.session.id]
            session = ["--session", *own] if own else []
            return NextStep("take other work", ["pool", "take", *session])
        case "held":
            start = ["start", "RECIPE", "SUBJECT"]
            if keeper.session.id and keeper.session.pid is None:
                start += ["--session", keeper.session.id]
            fill = {name: MEANINGS[name] for name in ("RECIPE", "SUBJECT")}
            return NextStep("start your own work", start, **fill)
        case "occupied" if "holder" in details:
            fill = {"PATH": "a new folder beside this one", "BRANCH": MEANINGS["BRANCH"]}
            words = ["worktree", "add", "PATH", "-b", "BRANCH"]
            return NextStep("work beside it", words, program="git", **fill)
        case "occupied":
            return NextStep("go on with it, or end it first", ["resume", details["candidates"][0]])
        case "other_branch":
            about = "the work is on another branch"
            return NextStep(about, ["switch", details["branch"]], program="git")
    return None


def _error(code: str, message: str, hint: str) -> Fields:
    return {"code": code, "message": message, "hint": hint}


def _aim_hint(hint: str, workflow: str | None) -> str:
    """Return the hint with the workflow in its commands that work on one and do not name it."""
    if workflow is None or "-w " in hint:
        return hint
    parts = hint.split("holdfast ")
    for number, command in enumerate(parts[1:], 1):
        name, _, arguments = command.partition(" ")
        has_id = name in _TAKE_AN_ID and arguments and not arguments.startswith("-")
        if name in _OF_ONE_WORKFLOW and not has_id:
            parts[number] = f"-w {shell_word(workflow)} {command}"
    return "holdfast ".join(parts)
