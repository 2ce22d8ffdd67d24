"""The tools of ``holdfast mcp``: what each takes and returns, and the keeper call behind it.

Every definition is part of the context of every session, so each word is paid for each time: eight
tools, short sentences. What only a person decides (approve a phase, trust a command, abandon a
workflow) is not a tool, and no tool runs a command that the caller made up.

Answers become part of a context too, so they say where the workflow is, not everything about it.
"""

from __future__ import annotations

from holdfast import answers
from holdfast.core.briefing import place_of, quoted
from holdfast.core.next_step import current_task, inner_phase, next_step
from holdfast.core.workflow.lifecycle import pending
from holdfast.errors import Refused
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
    "notes": _TEXTS,
    "error": {"type": "object", "description": "code, message, hint"},
}

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
        raise Refused("invalid", f"{name}: {why}", "call it as its schema says")


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
    following = next_step(state)
    if following is not None:
        fields["next"] = quoted(f"{following[0]}: {' '.join(following[1])}")
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
        "reading": {**_TEXTS, "description": "@path: files to read after a compaction"},
        "reminders": _TEXTS,
        "context": _ANY,
    },
    "recipe",
    output={"resumed": _FLAG},
)
def _start_workflow(keeper: Keeper, args: Fields) -> Fields:
    names = ("title", "tasks", "phases", "reading", "reminders", "context")
    options = {name: args[name] for name in names if name in args}
    receipt = keeper.start(args["recipe"], args.get("subject"), **options, id=args.get("id"))
    return changed(receipt, resumed=bool(receipt.resumed))


@_tool(
    "status",
    "List the active workflows; with an id, or for one, show all of it.",
    {"workflow": _WORKFLOW, "show": {**_FLAG, "description": "the whole workflow"}},
    output={"workflows": {"type": "array", "items": _ANY}, "workflow": _ANY},
    readOnlyHint=True,
)
def _show_status(keeper: Keeper, args: Fields) -> Fields:
    if args.get("show") or "workflow" in args:
        receipt = keeper.show(workflow=args.get("workflow"))
        return {"ok": True, **answers.workflow(receipt)}
    rows, notes = keeper.workflows()
    return {"ok": True, **answers.workflows(rows, notes)}


@_tool(
    "resume",
    "Take a workflow up in this session, also one that ended, and get its briefing: where it "
    "stands, what is next, what to read.",
    {},
    output={"briefing": _TEXT},
)
def _resume_workflow(keeper: Keeper, args: Fields) -> Fields:
    receipt = keeper.resume(**target(args))
    return changed(receipt, briefing=keeper.briefing(state=receipt.state))


@_tool(
    "phase",
    "Move on: advance to the next phase; start, complete, block or unblock one by name; enter "
    "a step of it.",
    {
        "action": _one_of("advance", "start", "complete", "block", "unblock", "step"),
        "name": {"type": "string", "description": "phase or step; not for advance"},
        "fields": {**_ANY, "description": "kept with the phase"},
        "force": {**_FLAG, "description": "although a grave violation is open"},
        "reason": _TEXT,
    },
    "action",
)
def _change_phase(keeper: Keeper, args: Fields) -> Fields:
    action = args["action"]
    forced = {"force": args.get("force", False), "reason": args.get("reason")}
    if action == "advance":
        return changed(keeper.advance(**forced, **target(args)))
    (name,) = required(args, "phase", "name")
    if action == "step":
        return changed(keeper.start_step(name, **target(args)))
    fields = args.get("fields", {})
    if action in ("start", "complete"):
        method = keeper.start_phase if action == "start" else keeper.complete_phase
        return changed(method(name, fields, **forced, **target(args)))
    if action == "unblock":
        return changed(keeper.unblock_phase(name, fields, **target(args)))
    reason = {"reason": args["reason"]} if "reason" in args else {}
    return changed(keeper.block_phase(name, {**fields, **reason}, **target(args)))


@_tool(
    "task",
    "Add a task (text), start it, enter a phase of it (red, green, refactor), say that it is "
    "done (commit) or blocked (reason).",
    {
        "action": _one_of("add", "start", "phase", "done", "block"),
        "task": {"type": ["integer", "string"], "description": "its id; not for add"},
        "text": _TEXT,
        "phase": _TEXT,
        "commit": _TEXT,
        "reason": _TEXT,
    },
    "action",
)
def _change_task(keeper: Keeper, args: Fields) -> Fields:
    action = args["action"]
    if action == "add":
        (text,) = required(args, "task", "text")
        return changed(keeper.add_task(text, **target(args)))
    (task,) = required(args, "task", "task")
    if action == "start":
        return changed(keeper.start_task(task, **target(args)))
    if action == "done":
        return changed(keeper.complete_task(task, args.get("commit"), **target(args)))
    (text,) = required(args, "task", "phase" if action == "phase" else "reason")
    method = keeper.start_task_phase if action == "phase" else keeper.block_task
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
        return changed(keeper.record_tests(command, **tests, **target(args)))
    gate, passed = required(args, "gate", "gate", "passed")
    receipt = keeper.record_gate(gate, args.get("fields"), passed=passed, **target(args))
    return changed(receipt, gate={"name": gate, **receipt.state["gates"][gate]})


@_tool(
    "note",
    "Keep something: reminder (every briefing repeats it), reading (@path to read after a "
    "compaction), context (fields), learning (for all later sessions), violation (code, "
    "severity, text) and mended (code).",
    {
        "kind": _one_of("reminder", "reading", "context", "learning", "violation", "mended"),
        "text": _TEXT,
        "fields": _ANY,
        "code": _TEXT,
        "severity": _one_of("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"),
    },
    "kind",
)
def _take_note(keeper: Keeper, args: Fields) -> Fields:
    kind = args["kind"]
    if kind == "context":
        (fields,) = required(args, "note", "fields")
        return changed(keeper.set_context(fields, **target(args)))
    if kind == "mended":
        (code,) = required(args, "note", "code")
        return changed(keeper.clear_violation(code, **target(args)))
    if kind == "violation":
        violation = required(args, "note", "code", "severity", "text")
        return changed(keeper.add_violation(*violation, **target(args)))
    (text,) = required(args, "note", "text")
    if kind == "learning":
        receipt = keeper.remember(text, id=args.get("id"))
        return answers.with_notes({"ok": True, "seqs": list(receipt.seqs)}, receipt.notes)
    method = keeper.remind if kind == "reminder" else keeper.require_reading
    return changed(method(text, **target(args)))


@_tool(
    "complete",
    "Finish the workflow. Refused while tasks, phases or gates are pending; force needs a reason.",
    {"outcome": _TEXT, "force": _FLAG, "reason": _TEXT},
    output={"signal": _TEXT},
)
def _complete_workflow(keeper: Keeper, args: Fields) -> Fields:
    options = {name: args[name] for name in ("outcome", "force", "reason") if name in args}
    receipt = keeper.complete(**options, **target(args))
    return changed(receipt, **({} if receipt.signal is None else {"signal": receipt.signal}))
