"""The tools of ``holdfast mcp``: what each takes and returns, and the keeper call behind it.

Every definition is part of the context of every session, so each word is paid for each time: eight
tools, short sentences. What only a person decides (approve a phase, trust a command, abandon a
workflow) is not a tool, and no tool runs a command that the caller made up.

Answers become part of a context too, so they say where the workflow is, not everything about it.
"""

from __future__ import annotations

from holdfast import answers, loops
from holdfast.core.briefing import place_of, quoted
from holdfast.core.next_step import NextStep, current_task, next_fields, next_step
from holdfast.core.selection import join_names
from holdfast.core.workflow.lifecycle import pending
from holdfast.core.workflow.steps import CYCLE, is_step_done
from holdfast.core.workflow.tasks import inner_phase
from holdfast.errors import Fault, Refused
from holdfast.mcp.messages import schema_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json
    from holdfast.keeper import Keeper, Receipt

    Call = Callable[[Keeper, Fields], Fields]

_TEXT: Fields = {"type": "string"}
_TEXTS: Fields = {"type": "array", "items": _TEXT}
_FLAG: Fields = {"type": "boolean"}
_ANY: Fields = {"type": "object"}
_WORKFLOW: Fields = {"type": "string", "description": "its id; default: the one of this session"}
_ID: Fields = {"type": "string", "description": "names the request: a retry is applied once"}
_OUTPUT: Fields = {
    "ok": _FLAG,
    "position": {"type": "object", "description": "phase, task, pending, next, …"},
    "seqs": {"type": "array"},
}
_LAST_OUTPUT: Fields = {
    "next": {"type": ["object", "null"]},
    "notes": _TEXTS,
    "error": {"type": "object", "description": "code, message, hint"},
}

_MAX_FOUND, _MAX_EVENTS_FOUND = 20, 10
TOOLS: list[Fields] = []
CALLS: dict[str, Call] = {}
"""By the name of a tool: the function that returns the fields of its answer."""


def _one_of(*words: str) -> Fields:
    return {"type": "string", "enum": list(words)}


def _object(properties: Fields, required: tuple[str, ...] = ()) -> Fields:
    schema: Fields = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _tool(
    name: str,
    about: str,
    inputs: Fields,
    *required: str,
    output: Fields | None = None,
    **hints: bool,
) -> Callable[[Call], Call]:
    """Declare a tool; all but those that only read take the id of a request as well."""
    if not hints.get("readOnlyHint"):
        target = {} if name == "start" else {"workflow": _WORKFLOW}
        inputs = {**inputs, **target, "id": _ID}
        hints.setdefault("destructiveHint", False)
    TOOLS.append(
        {
            "name": name,
            "description": about,
            "inputSchema": _object(inputs, required),
            "outputSchema": _object({**_OUTPUT, **(output or {}), **_LAST_OUTPUT}, ("ok",)),
            "annotations": {"openWorldHint": False, **hints},
        }
    )

    def register(function: Call) -> Call:
        CALLS[name] = function
        return function

    return register


def check_arguments(name: str, arguments: Fields) -> None:
    """Raise ``Refused`` if the arguments do not fit the schema of the tool."""
    tool = next(tool for tool in TOOLS if tool["name"] == name)
    errors = schema_errors(tool["inputSchema"], arguments)
    if errors:
        why = "; ".join(errors[:5])
        hint = f"{name} takes: {', '.join(tool['inputSchema']['properties'])}"
        raise Refused("invalid", f"{name}: {why}", hint)


def changed(receipt: Receipt, **more: Json) -> Fields:
    """Return the answer to a call that changed something: where the workflow is now."""
    fields: Fields = {"ok": True, "position": _position(receipt), "seqs": list(receipt.seqs)}
    return answers.with_notes({**fields, **more}, receipt.notes)


def target(arguments: Fields) -> Fields:
    """Return the selected workflow and the id of the request, for a method of the keeper."""
    return {"workflow": arguments.get("workflow"), "id": arguments.get("id")}


def required(arguments: Fields, tool: str, *names: str) -> list[Json]:
    """Return arguments that an action needs; raise ``Refused`` if one is missing."""
    missing = [name for name in names if arguments.get(name) in (None, "")]
    if missing:
        action = arguments.get("action") or arguments.get("kind") or ""
        message = f"{tool} {action}: {', '.join(missing)} is missing"
        raise Refused("invalid", message, "give it too")
    return [arguments[name] for name in names]


def _position(receipt: Receipt) -> Fields:
    state = receipt.state
    values: Fields = {**state}
    names = ("id", "title", "status", "phase", "step", "branch")
    fields: Fields = {name: quoted(values[name]) for name in names if values[name] is not None}
    number, total = place_of(state)
    if total:
        fields["place"] = f"{number}/{total}"
    task = current_task(state)
    if task is not None:
        description = quoted(task["description"])
        fields["task"] = {"id": task["id"], "description": description, "status": task["status"]}
        phase = inner_phase(task)
        if phase:
            fields["task"]["phase"] = phase
    fields["pending"] = pending(state)
    step = next_step(state, receipt.facts)
    if step is not None:
        fields["next"] = quoted(f"{step.about}: {step.text}")
    return fields


@_tool(
    "start",
    "Open a workflow from a recipe (dev, tdd, planning, custom, …; a wrong name lists all), or "
    "go on with the active one of the same subject. Do it before multi-step work.",
    {
        "recipe": _TEXT,
        "subject": {"type": "string", "description": "a file, a ticket, a sentence"},
        "title": _TEXT,
        "tasks": _TEXTS,
        "phases": {**_TEXTS, "description": "in place of the recipe's"},
        "reading": {**_TEXTS, "description": "@path: files that every new context reads"},
        "reminders": _TEXTS,
        "context": _ANY,
        "again": _FLAG,
    },
    "recipe",
    output={"resumed": _FLAG, "briefing": _TEXT},
)
def _start_workflow(keeper: Keeper, args: Fields) -> Fields:
    names = ("title", "tasks", "phases", "reading", "reminders", "context", "again")
    options = {name: args[name] for name in names if name in args}
    receipt = keeper.start(args["recipe"], args.get("subject"), **options, id=args.get("id"))
    if receipt.resumed:
        return _briefed(keeper, receipt, resumed=True)
    return changed(receipt, resumed=False)


@_tool(
    "status",
    "List the active workflows; with an id, or for one, show all of it.",
    {"workflow": _WORKFLOW, "show": {**_FLAG, "description": "the whole workflow"}},
    output={
        "workflows": {"type": "array", "items": _ANY},
        "questions": {"type": "array", "items": _ANY},
        "workflow": _ANY,
    },
    readOnlyHint=True,
)
def _show_status(keeper: Keeper, args: Fields) -> Fields:
    if args.get("show") or "workflow" in args:
        receipt = keeper.show(workflow=args.get("workflow"))
        step = next_step(receipt.state, receipt.facts, is_named="workflow" in args)
        return {"ok": True, **answers.workflow(receipt), "next": next_fields(step)}
    rows, notes = keeper.workflows()
    return {"ok": True, **answers.workflows(rows, notes, keeper.open_questions())}


@_tool(
    "search",
    "Search this project's memory: its workflows, initiatives, interviews, delegations, learnings, "
    "and events. What is found has all words of the query.",
    {"query": _TEXT, "limit": {"type": "integer", "minimum": 1}},
    "query",
    output={
        "entities": {"type": "array", "items": _ANY},
        "events": {"type": "array", "items": _ANY},
        "path": _TEXT,
        "query": _TEXT,
    },
    readOnlyHint=True,
)
def _search(keeper: Keeper, args: Fields) -> Fields:
    limit = args.get("limit", _MAX_FOUND)
    found = keeper.search_memory(args["query"], limit=limit)
    del found["relations"]
    found["events"] = _search_events(keeper, args["query"], min(limit, _MAX_EVENTS_FOUND))
    return {"ok": True, **answers.with_notes(found, keeper.drain_notes())}


def _search_events(keeper: Keeper, query: str, limit: int) -> list[Fields]:
    """Return the events that have all words of a query, in short."""
    try:
        hits = keeper.search(query, limit=limit)["hits"]
    except Refused:
        return []  # There is no word in the query; the graph can be asked for a sign.
    names = ("seq", "at", "kind", "type", "stream")
    return [{**{name: hit[name] for name in names}, "text": quoted(hit["text"])} for hit in hits]


@_tool(
    "resume",
    "Take a workflow up in this session, also one that ended, and get its briefing: where it "
    "stands, what is next, what to read.",
    {},
    output={"briefing": _TEXT},
)
def _resume_workflow(keeper: Keeper, args: Fields) -> Fields:
    return _briefed(keeper, keeper.resume(**target(args)))


def _briefed(keeper: Keeper, receipt: Receipt, **more: Json) -> Fields:
    """Return the answer to a call that took a workflow up, with its briefing."""
    briefing = ""
    try:
        # That the request is a repeated one says nothing about the work.
        notes = [] if receipt.is_repeat else receipt.notes
        briefing = keeper.briefing(state=receipt.state, notes=notes)
        if keeper.needs_delivery(receipt):
            keeper.note_briefing(briefing, "resume", workflow=receipt.state["id"])
    except Fault as fault:
        # The workflow is taken up, even if its briefing cannot be made or recorded.
        what = "the briefing is not recorded" if briefing else "there is no briefing"
        receipt.notes.append(f"{what}: {fault.message}; {fault.hint}")
    return changed(receipt, briefing=briefing, **more)


@_tool(
    "phase",
    "Move on: advance to the next phase; start, complete, block or unblock one by name; enter "
    "a step of it. undo: take back your last change of the workflow, of any kind.",
    {
        "action": _one_of("advance", "start", "complete", "block", "unblock", "step", "undo"),
        "name": {"type": "string", "description": "phase or step; not for advance, undo"},
        "branch": {"type": "string", "description": "of advance"},
        "fields": {**_ANY, "description": "kept with the phase"},
        "force": {**_FLAG, "description": "although something is missing"},
        "reason": _TEXT,
    },
    "action",
    output={"undone": _ANY},
)
def _change_phase(keeper: Keeper, args: Fields) -> Fields:
    action = args["action"]
    forced = {"force": args.get("force", False), "reason": args.get("reason")}
    if action == "advance":
        return changed(keeper.advance(branch=args.get("branch"), **forced, **target(args)))
    if action == "undo":
        receipt = keeper.undo(**target(args))
        return changed(receipt, undone=receipt.undone)
    (name,) = required(args, "phase", "name")
    if action == "step":
        return changed(keeper.start_step(name, **target(args)))
    fields = args.get("fields", {})
    if action in ("start", "complete"):
        method = keeper.start_phase if action == "start" else keeper.complete_phase
        return changed(method(name, fields, **forced, **target(args)))
    if action == "unblock":
        return changed(keeper.unblock_phase(name, fields, **target(args)))
    why = {"reason": args["reason"]} if "reason" in args else {}
    return changed(keeper.block_phase(name, {**fields, **why}, **target(args)))


@_tool(
    "task",
    "red (write a test that fails first), green, refactor: run the known tests for the task at "
    "hand; commit (text): commit what is staged, which completes it. Or add (text), start, phase, "
    "done (commit), block (reason); edit (text), remove, reopen, unblock, move.",
    {
        "action": _one_of(
            *("red", "green", "refactor", "commit", "add", "start", "phase", "done", "block"),
            *("edit", "remove", "reopen", "unblock", "move"),
        ),
        "task": {"type": ["integer", "string"], "description": "its id; not for the first five"},
        "text": _TEXT,
        "phase": _TEXT,
        "commit": _TEXT,
        "reason": _TEXT,
        "before": {"type": ["integer", "string"], "description": "a task's id"},
        "to": {"type": "integer", "description": "or its place, from 1"},
        "timeout": {"type": "string", "description": "of the tests: 90s, 10m"},
    },
    "action",
    output={"tests": _ANY},
    openWorldHint=True,
)
def _change_task(keeper: Keeper, args: Fields) -> Fields:
    """Change a task; ``workflows`` runs red, green and refactor, in a thread."""
    action = args["action"]
    if action in ("add", "commit"):
        (text,) = required(args, "task", "text")
        method = keeper.add_task if action == "add" else keeper.evidence().commit
        return changed(method(text, **target(args)))
    (task,) = required(args, "task", "task")
    if action == "done":
        return changed(keeper.complete_task(task, args.get("commit"), **target(args)))
    if action == "move":
        position = {name: args.get(name) for name in ("before", "to")}
        return changed(keeper.move_task(task, **position, **target(args)))
    by_id = {
        "start": keeper.start_task,
        "remove": keeper.remove_task,
        "reopen": keeper.reopen_task,
        "unblock": keeper.unblock_task,
    }
    if action in by_id:
        return changed(by_id[action](task, **target(args)))
    with_text: dict[str, tuple[Callable[..., Receipt], str]] = {
        "phase": (keeper.start_task_phase, "phase"),
        "block": (keeper.block_task, "reason"),
        "edit": (keeper.edit_task, "text"),
    }
    method, name = with_text[action]
    (text,) = required(args, "task", name)
    return changed(method(task, text, **target(args)))


@_tool(
    "gate",
    "run: run the command that the project declares for a gate, and record what came of it. "
    "record: say yourself whether a gate passed. tests: record a test run of yours.",
    {
        "action": _one_of("run", "record", "tests"),
        "gate": {"type": "string", "description": "not for tests"},
        "timeout": {"type": "string", "description": "of run: 90s, 10m"},
        "passed": {**_FLAG, "description": "of record"},
        "also": {**_TEXTS, "description": "of record: more gates"},
        "fields": {**_ANY, "description": "of record: kept with it"},
        "command": {"type": "string", "description": "of tests: what you ran"},
        "failing": _TEXTS,
        "passing": _TEXTS,
    },
    "action",
    output={"gate": _ANY},
    openWorldHint=True,
)
def _record_gate(keeper: Keeper, args: Fields) -> Fields:
    """Record a gate or a test run; ``workflows`` runs gates, in a thread."""
    if args["action"] == "tests":
        (command,) = required(args, "gate", "command")
        tests = {name: args.get(name, []) for name in ("failing", "passing")}
        return changed(keeper.evidence().record_tests(command, **tests, **target(args)))
    gate, passed = required(args, "gate", "gate", "passed")
    receipt = keeper.evidence().record_gate(
        gate, args.get("fields"), passed=passed, also=args.get("also", ()), **target(args)
    )
    return changed(receipt, gate={"name": gate, **receipt.state["gates"][gate]})


def step_after_refusal(
    keeper: Keeper, error: Fields, tool: str, arguments: Fields
) -> NextStep | None:
    """Return the next step after a refused call."""
    if error["code"] == "ambiguous":
        names = join_names(error["details"]["candidates"])
        return NextStep(f"call it again with a workflow: {names}; or list them", ["status"])
    action = arguments.get("action")
    words = [tool] if action is None else [tool, action]
    if tool == "phase" and action in ("advance", "step", "undo"):
        words = [action]
    subject = arguments.get("task", arguments.get("gate", arguments.get("name")))
    line = [*words, *([] if subject is None else [str(subject)])]
    workflow = arguments.get("workflow")
    return answers.step_after_refusal(
        error, keeper, workflow, line, after=" ".join(words), is_named=workflow is not None
    )


def is_run(tool: str, arguments: Fields) -> bool:
    """Return whether a call runs a command; raise ``Refused`` if it does not say which."""
    if tool == "gate" and arguments["action"] == "run":
        required(arguments, "gate", "gate")
        return True
    return tool == "task" and arguments["action"] in CYCLE


def run_gate(keeper: Keeper, name: str, options: Fields) -> Fields:
    """Run the command of a gate, and answer with its result."""
    receipt = keeper.evidence().run_gate(name, **options)
    gate = {"name": name, **receipt.state["gates"][name]}
    fields = changed(receipt, gate=gate)
    if gate["passed"]:
        return fields
    return {**fields, "ok": False, "error": answers.failed_run(f"gate {name}", gate)}


def take_step(keeper: Keeper, step: str, options: Fields) -> Fields:
    """Do red, green or refactor, with the test command that is known."""
    receipt = keeper.evidence().take_step(step, **options)
    tests = dict(receipt.state["tests"])
    if tests.get("last_result") == "failed":
        tests["output_tail"] = receipt.output
    fields = changed(receipt, tests=tests)
    if is_step_done(receipt.state, step):
        return fields
    return {**fields, "ok": False, "error": answers.failed_run(step, tests)}


@_tool(
    "note",
    "Keep something: reminder (every briefing repeats it), reading (@path to read after a "
    "compaction), context (fields), title, learning (for all later sessions), violation (code, "
    "severity, text), fixed (code), question (to people), answer (number, text).",
    {
        "kind": _one_of(
            *("reminder", "reading", "context", "title", "learning", "violation", "fixed"),
            *("question", "answer"),
        ),
        "text": _TEXT,
        "choices": _TEXTS,
        "blocking": {**_FLAG, "description": "all waits for the answer"},
        "number": {"type": "integer"},
        "remove": {**_FLAG, "description": "a reminder, reading, question, context (its keys)"},
        "fields": _ANY,
        "code": _TEXT,
        "severity": _one_of("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"),
    },
    "kind",
    output={"question": {"type": "integer"}},
)
def _take_note(keeper: Keeper, args: Fields) -> Fields:
    kind = args["kind"]
    removes = args.get("remove", False)
    if removes and kind not in ("reminder", "reading", "context", "question"):
        raise Refused("invalid", f"note {kind}: it is not removed", "leave out remove")
    if kind == "context":
        (fields,) = required(args, "note", "fields")
        method = keeper.unset_context if removes else keeper.set_context
        return changed(method(fields, **target(args)))
    if kind in ("question", "answer"):
        return _note_question(keeper, args, removes=removes)
    if kind == "fixed":
        (code,) = required(args, "note", "code")
        return changed(keeper.evidence().clear_violation(code, **target(args)))
    if kind == "violation":
        violation = required(args, "note", "code", "severity", "text")
        return changed(keeper.evidence().add_violation(*violation, **target(args)))
    (text,) = required(args, "note", "text")
    if kind == "learning":
        receipt = keeper.remember(text, id=args.get("id"))
        return answers.with_notes({"ok": True, "seqs": list(receipt.seqs)}, receipt.notes)
    methods = {
        ("reminder", False): keeper.remind,
        ("reminder", True): keeper.remove_reminder,
        ("reading", False): keeper.require_reading,
        ("reading", True): keeper.remove_reading,
        ("title", False): keeper.rename,
    }
    return changed(methods[kind, removes](text, **target(args)))


def _note_question(keeper: Keeper, args: Fields, *, removes: bool) -> Fields:
    if removes:
        (number,) = required(args, "note", "number")
        return changed(keeper.withdraw_question(number, **target(args)))
    if args["kind"] == "answer":
        number, text = required(args, "note", "number", "text")
        return changed(keeper.answer(number, text, **target(args)))
    (text,) = required(args, "note", "text")
    options = {name: args[name] for name in ("choices", "blocking") if name in args}
    receipt = keeper.ask(text, **options, **target(args))
    numbers = [q["id"] for q in receipt.state.get("questions", ()) if q["text"] == text]
    return changed(receipt, question=numbers[-1]) if numbers else changed(receipt)


@_tool(
    "complete",
    "Finish the workflow. Refused while tasks, phases or gates are pending; force needs a reason.",
    {"outcome": _TEXT, "force": _FLAG, "reason": _TEXT},
    output={"signal": _TEXT},
)
def _complete_workflow(keeper: Keeper, args: Fields) -> Fields:
    options = {name: args[name] for name in ("outcome", "force", "reason") if name in args}
    receipt = loops.complete(keeper, **options, **target(args))
    return changed(receipt, **({} if receipt.signal is None else {"signal": receipt.signal}))
