"""The schema of ``--json``: what each command answers, as its contract in ``json.md`` lists it.

The page lists the keys, and tests compare the command line with it. The shape of each value is
declared here, from the types of the code where there are any.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from handbook import declared
from handbook.pages import DOCS
from handbook.schemas import (
    COUNT,
    FLAG,
    OBJECT,
    TEXT,
    Schema,
    array,
    document,
    fields,
    ledger_line,
    nullable,
    of,
    words,
)
from holdfast import formats
from holdfast.answers.documents import REPORT_FORMATS
from holdfast.core import types as core_types
from holdfast.hub.contract import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROW = re.compile(r"^\| `([^`]+)` \| (.*?) ?\|$", re.MULTILINE)
_LEVELS = ("ok", "note", "behind", "repaired", "error")


@functools.cache
def contract() -> dict[str, list[str]]:
    """Return the keys of each command's answer, by command."""
    page = (DOCS / "json.md").read_text("utf-8")
    table = page.partition("\n## Answers\n")[2].partition("\n## ")[0]
    return {name: re.findall(r"`([^`]+)`", keys) for name, keys in _ROW.findall(table)}


@functools.cache
def schema() -> Schema:
    """Return the schema of all answers: one definition for each command in ``$defs``."""
    answers = {name: _answer(name, keys) for name, keys in contract().items()}
    return document(
        "The answers of --json",
        "One object for each command, under its name in $defs. See json.md.",
        {**_ref("every answer"), "$defs": {**_parts(), **answers}},
    )


def of_command(name: str) -> Schema:
    """Return the schema of one command's answer."""
    whole = schema()
    return {"$schema": whole["$schema"], **_ref(name), "$defs": whole["$defs"]}


def _answer(command: str, keys: list[str]) -> Schema:
    required = [] if command in _EITHER else [key for key in keys if key not in _SOMETIMES]
    return {
        **_ref("every answer"),
        "properties": {key: _shape(command, key) or {} for key in keys},
        "if": {"properties": {"ok": {"const": True}}},
        "then": {"required": required},
    }


def _shape(command: str, key: str) -> Schema | None:
    return _OF_COMMAND.get((command, key), _KEYS.get(key))


def unshaped() -> Iterator[str]:
    """Yield the keys of the contract whose shape is not declared."""
    for command, keys in contract().items():
        for key in keys:
            if _shape(command, key) is None:
                yield f"tools/handbook/answers.py: say what {key} of {command} is"


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name.replace(' ', '%20')}"}


def _parts() -> dict[str, Schema]:
    error = fields(
        {
            "code": {**TEXT, "examples": declared.error_codes()},
            "message": TEXT,
            "hint": TEXT,
            "details": OBJECT,
        },
        "details",
    )
    event = {key: value for key, value in ledger_line().items() if key in ("type", "properties",
             "required")}  # fmt: skip
    answer = {
        **fields({"ok": FLAG, "notes": array(TEXT), "error": _ref("error")}, "notes", "error"),
        "if": {"properties": {"ok": {"const": False}}},
        "then": {"required": ["error"]},
    }
    return {
        "every answer": answer,
        "error": error,
        "workflow": _workflow(),
        "row": _row(),
        "event": event,
        "initiative": _initiative(),
    }


def _workflow() -> Schema:
    base = of(core_types.Workflow)
    properties = {
        **base["properties"],
        "recipe": TEXT,
        "format": words(formats.FORMATS),
        "unread": array(TEXT),
        "record": nullable(TEXT),
    }
    return {**base, "properties": properties, "required": [*base["required"], "format", "unread"]}


def _row() -> Schema:
    whole = _workflow()["properties"]
    same = ("id", "recipe", "format", "subject", "title", "status", "phase", "branch", "worktree",
            "record", "session", "ttl", "created_at", "updated_at")  # fmt: skip
    numbers = ("seq", "phase_index", "phase_total", "tasks_done", "tasks_total")
    return fields(
        {
            **{name: whole[name] for name in same},
            **dict.fromkeys(numbers, COUNT),
            "phase_status": nullable(of(core_types.PhaseStatus)),
            "floating": FLAG,
        }
    )


def _initiative() -> Schema:
    base = of(core_types.Initiative)
    hidden = ("extra",)
    properties = {key: value for key, value in base["properties"].items() if key not in hidden}
    properties |= {"key": TEXT, "completed": COUNT, "total": COUNT}
    needed = [name for name in base["required"] if name not in hidden]
    whole = {**base, "properties": properties, "required": [*needed, "key", "completed", "total"]}
    return nullable(whole)


_LISTS = ("events", "workflows", "loops", "recipes", "gates", "commands", "entries", "layers",
          "files", "checks", "lines", "learnings", "interviews", "skips", "others",
          "milestones", "violations")  # fmt: skip
_NUMBERS = ("interviews_earlier", "skips_earlier", "earlier")
_TEXTS = ("briefing", "source", "signal", "help", "version", "script", "does", "summary", "path",
          "query", "tier", "work", "behaviour", "resume", "id")  # fmt: skip
_OBJECTS = ("gate", "tests", "recipe", "run", "counts", "entry", "skip", "undone")
_SOMETIMES = ("script", "briefing")
"""Keys that an answer may lack: ``completion`` with a command line answers with candidates, and
``start`` has a briefing if it resumed."""
_EITHER = ("abandon", "show", "watch")
"""Commands whose answer has other keys with an option: ``abandon --all``, ``show --at``,
``watch --all``."""
_WAITING = fields({"id": TEXT, "title": TEXT, "why": TEXT, "next": nullable(TEXT)})
_LEASE = fields(
    {"workflow": TEXT, "holder": nullable(TEXT), "until": nullable(TEXT), "epoch": COUNT,
     "hub": FLAG},
    "workflow",
)  # fmt: skip
_ASKED = of(core_types.Question)
_QUESTION = {
    **_ASKED,
    "properties": {**_ASKED["properties"], "workflow": TEXT},
    "required": [*_ASKED["required"], "workflow"],
}
_NEXT = nullable(fields({"command": array(TEXT), "about": TEXT, "fill": OBJECT}))
_DURATION: Schema = {"duration_ms": nullable(COUNT)}
_PROGRESS = fields(
    {
        "workflow": TEXT,
        "next": _NEXT,
        "phases": array(fields({"name": TEXT, **_DURATION})),
        "task": nullable(fields({"id": {"type": ["integer", "string"]}, **_DURATION})),
    }
)
_HUB = fields({"kind": words(KINDS), "where": TEXT, "name": TEXT, "fences": FLAG})
_REPLICA = fields({"replica": TEXT, "name": TEXT, "n": COUNT, "at": TEXT, "own": FLAG})
_EVENT_AT = fields({"seq": COUNT, "at": TEXT, "type": TEXT, "stream": TEXT})
_HIT = fields(
    {
        **dict.fromkeys(("at", "type", "stream", "kind", "text", "repository"), TEXT),
        "seq": nullable(COUNT), "title": nullable(TEXT), "marks": array(array(COUNT)),
        "open": array(TEXT),
    }
)  # fmt: skip
_PULL_REQUEST = fields(
    {
        **dict.fromkeys(("repository", "title", "body", "base", "head", "remote"), TEXT),
        "number": {"type": ["integer", "null"]},
        "url": nullable(TEXT),
        "draft": FLAG,
        "status": nullable(words(("success", "pending", "failure"))),
        "became": words(("planned", "created", "updated", "unchanged")),
    }
)
_OF_CONFLICT = dict.fromkeys(("id", "workflow", "command", "why", "from", "at"), TEXT)
_CONFLICT = fields(_OF_CONFLICT)
_KEYS: dict[str, Schema] = {
    **dict.fromkeys(_LISTS, array(OBJECT)),
    **dict.fromkeys(_NUMBERS, COUNT),
    **dict.fromkeys(_TEXTS, TEXT),
    **dict.fromkeys(_OBJECTS, OBJECT),
    "next": _NEXT,
    "workflow": _ref("workflow"),
    "loops": array(_ref("workflow")),
    "events": array(_ref("event")),
    "initiative": _ref("initiative"),
    "lines": array(fields({"level": words(_LEVELS), "what": TEXT, "message": TEXT})),
    "seqs": array(COUNT),
    "seq": COUNT,
    "unopened": COUNT,
    "folder": TEXT,
    "git": FLAG,
    "branch": nullable(TEXT),
    "mine": nullable(TEXT),
    "progress": array(_PROGRESS),
    "damage": array(TEXT),
    "resumed": FLAG,
    "dry_run": FLAG,
    "blocking": FLAG,
    "blocking_codes": array(TEXT),
    "forced": nullable(TEXT),
    "memory": nullable(TEXT),
    "cleaned": array({}),
    "archived": array(TEXT),
    "due": array(TEXT),
    "archive": nullable(TEXT),
    "abandoned": array({}),
    "not_covered": {},
    "interview": {},
    "delegations": {},
    "answer": {},
    "context": {},
    "layers": {},
    "learnings": {},
    "entities": {"type": ["array", "integer"]},
    "relations": {"type": ["array", "integer"]},
    "kept": nullable(TEXT),
    "status_file": nullable(TEXT),
    "agent": nullable(TEXT),
    "scope": nullable(TEXT),
    "pages": array(TEXT),
    "disagreements": array(TEXT),
    "recoverable": array(TEXT),
    "agreement": words(("agree", "corrected", "disagree")),
    "in_graph": array(TEXT),
    "previews": array(OBJECT),
    "recover": nullable(fields({"about": TEXT, "command": TEXT})),
    "streams": array(TEXT),
    "known": COUNT,
    "hub": nullable(_HUB),
    "public": nullable(FLAG),
    "logs": array(TEXT),
    "added": FLAG,
    "pushed": COUNT,
    "pulled": COUNT,
    "unsent": COUNT,
    "conflicts": COUNT,
    "conflict": _CONFLICT,
    "replicas": array(_REPLICA),
    "held": array(TEXT),
    "last": OBJECT,
    "removed": OBJECT,
    "ready": array(OBJECT),
    "waiting": array(_WAITING),
    "lease": _LEASE,
    "leases": array(_LEASE),
    "reaped": array(_LEASE),
    "address": TEXT,
    "port": COUNT,
    "approvals": FLAG,
    "questions": array(_QUESTION),
    "hits": array(_HIT),
    "repositories": array(TEXT),
    "at": _EVENT_AT,
    "report": OBJECT,
    "format": words(REPORT_FORMATS),
    "text": TEXT,
    "file": nullable(TEXT),
    "pull_request": _PULL_REQUEST,
}
_OF_COMMAND: dict[tuple[str, str], Schema] = {
    ("status", "workflows"): array(_ref("row")),
    ("holdfast", "workflows"): array(_ref("row")),
    ("holdfast", "next"): array(fields({"command": TEXT, "about": TEXT})),
    ("watch", "workflows"): array(_ref("workflow")),
    ("watch", "repositories"): array(
        fields(
            {
                "folder": TEXT,
                "name": TEXT,
                "workflows": array(_ref("workflow")),
                "unopened": COUNT,
                "mine": nullable(TEXT),
                "seq": COUNT,
                "initiative": _ref("initiative"),
                "layers": {},
                "events": array(_ref("event")),
                "damage": array(TEXT),
                "progress": array(_PROGRESS),
            }
        )
    ),
    ("import", "events"): COUNT,
    ("hub add", "workflows"): array(TEXT),
    ("conflicts", "conflicts"): array(fields({**_OF_CONFLICT, "can_take": FLAG})),
    ("archive", "events"): COUNT,
    ("delegation list", "summary"): OBJECT,
}
"""The shape of a key in the answer of one command, where it differs from the others."""
