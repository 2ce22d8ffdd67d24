"""The tools of a workflow, as data: what each is for, what it takes, what it gives.

Every definition is part of every session's context, so each word of it is paid for each time: eight
tools, short sentences. What only a person decides (to approve a phase, to trust a command, to give
a workflow up) is not among them, and no tool runs a command that the caller made up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

_TEXT: Fields = {"type": "string"}
_TEXTS: Fields = {"type": "array", "items": _TEXT}
_FLAG: Fields = {"type": "boolean"}
_ANY: Fields = {"type": "object"}
_WORKFLOW: Fields = {"type": "string", "description": "its id; default: the one of this session"}
_ID: Fields = {"type": "string", "description": "names the request: a retry is applied once"}
_TASK: Fields = {"type": ["integer", "string"]}


def _one_of(*words: str) -> Fields:
    return {"type": "string", "enum": list(words)}


def _object(properties: Fields, required: tuple[str, ...] = ()) -> Fields:
    found: Fields = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


_POSITION: Fields = {"type": "object", "description": "phase, task, pending, next, …"}
_ERROR: Fields = {"type": "object", "description": "code, message, hint"}


def _gives(**more: Fields) -> Fields:
    shared = {"ok": _FLAG, "position": _POSITION, "seqs": {"type": "array"}}
    return _object({**shared, **more, "notes": _TEXTS, "error": _ERROR}, ("ok",))


def _tool(
    name: str, about: str, takes: Fields, gives: Fields, *required: str, **hints: bool
) -> Fields:
    if not hints.get("readOnlyHint"):
        aim = {} if name == "start" else {"workflow": _WORKFLOW}
        takes = {**takes, **aim, "id": _ID}
        hints.setdefault("destructiveHint", False)
    return {
        "name": name,
        "description": about,
        "inputSchema": _object(takes, required),
        "outputSchema": gives,
        "annotations": {"openWorldHint": False, **hints},
    }


TOOLS: tuple[Fields, ...] = (
    _tool(
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
        _gives(resumed=_FLAG),
        "recipe",
    ),
    _tool(
        "status",
        "List the active workflows; with an id, or for one, show all of it.",
        {"workflow": _WORKFLOW, "show": {**_FLAG, "description": "the whole workflow"}},
        _gives(workflows={"type": "array", "items": _ANY}, workflow=_ANY),
        readOnlyHint=True,
    ),
    _tool(
        "resume",
        "Take a workflow up in this session, also one that ended, and get its briefing: where it "
        "stands, what is next, what to read.",
        {},
        _gives(briefing=_TEXT),
    ),
    _tool(
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
        _gives(),
        "action",
    ),
    _tool(
        "task",
        "Add a task (text), start it, enter a phase of it (red, green, refactor), say that it is "
        "done (commit) or blocked (reason).",
        {
            "action": _one_of("add", "start", "phase", "done", "block"),
            "task": {**_TASK, "description": "its id; not for add"},
            "text": _TEXT,
            "phase": _TEXT,
            "commit": _TEXT,
            "reason": _TEXT,
        },
        _gives(),
        "action",
    ),
    _tool(
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
        _gives(gate=_ANY),
        "action",
        openWorldHint=True,
    ),
    _tool(
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
        _gives(),
        "kind",
    ),
    _tool(
        "complete",
        "Finish the workflow. Refused while tasks, phases or gates are pending; force needs a "
        "reason.",
        {"outcome": _TEXT, "force": _FLAG, "reason": _TEXT},
        _gives(signal=_TEXT),
    ),
)
