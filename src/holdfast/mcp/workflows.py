"""``holdfast mcp``: a workflow for any agent. Each call is one command of the keeper.

Only the ledger stays open between calls: other servers, hooks and commands work on the same
workspace at the same time, so everything else is looked up for each call. Answers are short because
they become part of a context: where the workflow stands, not all of it.
"""

from __future__ import annotations

import os

from holdfast.errors import Refused
from holdfast.mcp import resources
from holdfast.mcp.messages import BAD_PARAMS, Wrong
from holdfast.mcp.schemas import misfits
from holdfast.mcp.server import App
from holdfast.mcp.tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json
    from holdfast.keeper import Keeper, Receipt
    from holdfast.mcp.gate_runs import Runs
    from holdfast.mcp.server import Talk

_BY_NAME = {tool["name"]: tool for tool in TOOLS}
_STARTING = ("title", "tasks", "phases", "reading", "reminders", "context")
INSTRUCTIONS = (
    "Holdfast keeps the state of your work, so that it survives a compaction or the end of a "
    "session. Resume at the beginning; report tasks, phases and gates as you go."
)


class Workflows(App):
    """The tools and resources of one workspace."""

    name = "holdfast"
    instructions = INSTRUCTIONS

    def __init__(self, open_keeper: Callable[[Keeper | None], Keeper]) -> None:
        self._open_sharing = open_keeper
        self._keeper: Keeper | None = None
        self._runs: Runs | None = None

    def _open(self) -> Keeper:
        """Open the workspace as it is now, with the ledger that is open already."""
        self._keeper = self._open_sharing(self._keeper)
        return self._keeper

    def tools(self) -> list[Fields]:
        return list(TOOLS)

    def call(self, name: str, arguments: Fields, talk: Talk) -> Fields | None:
        tool = _BY_NAME.get(name)
        if tool is None:
            raise Wrong(BAD_PARAMS, f"Unknown tool: {name[:80]}", {"tools": list(_BY_NAME)})
        try:
            _check(tool, arguments)
            if name == "gate" and arguments["action"] == "run":
                self._run_gate(arguments, talk)
                return None
            return told(_CALLS[name](self._open(), arguments))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
            return failed(error, arguments)

    def _run_gate(self, arguments: Fields, talk: Talk) -> None:
        from holdfast.mcp.gate_runs import Runs

        needed(arguments, "gate", "gate")
        self._runs = self._runs or Runs()
        # A run has its own thread, and so a ledger of its own.
        self._runs.begin(lambda: self._open_sharing(None), arguments, talk)

    def cancel(self, id: Json) -> None:
        if self._runs is not None:
            self._runs.cancel(id)

    def close(self) -> None:
        if self._runs is not None:
            self._runs.end()

    def resources(self) -> list[Fields]:
        return resources.listed(self._open())

    def templates(self) -> list[Fields]:
        return list(resources.TEMPLATES)

    def read(self, uri: str) -> list[Fields]:
        return resources.read(self._open, uri)


def _check(tool: Fields, arguments: Fields) -> None:
    wrong = misfits(tool["inputSchema"], arguments)
    if wrong:
        why = "; ".join(wrong[:5])
        raise Refused("invalid", f"{tool['name']}: {why}", "call it as its schema says")


# Answers


def told(fields: Fields) -> Fields:
    """A tool's result: the fields for programs, and as text for those who read."""
    from holdfast.core import json_text

    said = fields.get("briefing") or json_text.line_of(fields)
    result = {"content": [{"type": "text", "text": said}], "structuredContent": fields}
    return result if fields["ok"] else {**result, "isError": True}


def failed(error: Exception, arguments: Fields) -> Fields:
    """What the command line would say, with its code and hint."""
    from holdfast.answers.failure import failure_fields

    workflow = arguments.get("workflow")
    told = failure_fields(error, workflow if isinstance(workflow, str) else None)
    said = f"{told['code']}: {told['message']}" + (
        f"\nnext: {told['hint']}" if told["hint"] else ""
    )
    fields = {"ok": False, "error": told}
    return {
        "content": [{"type": "text", "text": said}],
        "structuredContent": fields,
        "isError": True,
    }


def changed(receipt: Receipt, **more: Json) -> Fields:
    """The answer to a call that changed something: where the workflow stands now."""
    fields: Fields = {"ok": True, "position": _position(receipt), "seqs": list(receipt.seqs)}
    return {**fields, **more, **_notes(receipt.notes)}


def _position(receipt: Receipt) -> Fields:
    from holdfast.core.briefing import place_of, quoted
    from holdfast.core.next_step import ahead, current_task, inner_phase
    from holdfast.core.workflow.lifecycle import pending

    state = receipt.state
    number, total = place_of(state)
    told: Fields = {**state}
    names = ("id", "title", "status", "phase", "step", "branch")
    found: Fields = {name: quoted(told[name]) for name in names if told[name] is not None}
    if total:
        found["place"] = f"{number}/{total}"
    task = current_task(state)
    if task is not None:
        about = quoted(task["description"])
        found["task"] = {"id": task["id"], "description": about, "status": task["status"]}
        inner = inner_phase(task)
        if inner:
            found["task"]["phase"] = inner
    following = ahead(state)
    found["pending"] = pending(state)
    if following is not None:
        found["next"] = quoted(f"{following[0]}: {' '.join(following[1])}")
    return found


def _notes(notes: list[str]) -> Fields:
    return {"notes": list(notes)} if notes else {}


def needed(arguments: Fields, tool: str, *names: str) -> list[Json]:
    """Arguments that this action cannot do without."""
    missing = [name for name in names if arguments.get(name) in (None, "")]
    if missing:
        what = arguments.get("action") or arguments.get("kind") or ""
        raise Refused("invalid", f"{tool} {what}: {', '.join(missing)} is missing", "give it too")
    return [arguments[name] for name in names]


def aim(arguments: Fields) -> Fields:
    return {"workflow": arguments.get("workflow"), "id": arguments.get("id")}


# The tools


def _start(keeper: Keeper, given: Fields) -> Fields:
    options = {name: given[name] for name in _STARTING if name in given}
    receipt = keeper.start(given["recipe"], given.get("subject"), **options, id=given.get("id"))
    return changed(receipt, resumed=bool(receipt.resumed))


def _status(keeper: Keeper, given: Fields) -> Fields:
    from holdfast.answers import json

    if given.get("show") or "workflow" in given:
        receipt = keeper.show(workflow=given.get("workflow"))
        return {"ok": True, **json.workflow(receipt)}
    rows, notes = keeper.workflows()
    return {"ok": True, **json.workflows(rows, notes)}


def _resume(keeper: Keeper, given: Fields) -> Fields:
    receipt = keeper.resume(**aim(given))
    return changed(receipt, briefing=keeper.briefing(state=receipt.state))


def _phase(keeper: Keeper, given: Fields) -> Fields:
    action = given["action"]
    forced = {"force": given.get("force", False), "reason": given.get("reason")}
    if action == "advance":
        return changed(keeper.advance(**forced, **aim(given)))
    (name,) = needed(given, "phase", "name")
    if action == "step":
        return changed(keeper.start_step(name, **aim(given)))
    fields = given.get("fields", {})
    if action in ("start", "complete"):
        method = keeper.start_phase if action == "start" else keeper.complete_phase
        return changed(method(name, fields, **forced, **aim(given)))
    if action == "unblock":
        return changed(keeper.unblock_phase(name, fields, **aim(given)))
    reason = {"reason": given["reason"]} if "reason" in given else {}
    return changed(keeper.block_phase(name, {**fields, **reason}, **aim(given)))


def _task(keeper: Keeper, given: Fields) -> Fields:
    action = given["action"]
    if action == "add":
        (text,) = needed(given, "task", "text")
        return changed(keeper.add_task(text, **aim(given)))
    (task,) = needed(given, "task", "task")
    if action == "start":
        return changed(keeper.start_task(task, **aim(given)))
    if action == "done":
        return changed(keeper.complete_task(task, given.get("commit"), **aim(given)))
    (word,) = needed(given, "task", "phase" if action == "phase" else "reason")
    method = keeper.start_task_phase if action == "phase" else keeper.block_task
    return changed(method(task, word, **aim(given)))


def _gate(keeper: Keeper, given: Fields) -> Fields:
    if given["action"] == "tests":
        (ran,) = needed(given, "gate", "command")
        named = {name: given.get(name, []) for name in ("failing", "passing")}
        return changed(keeper.record_tests(ran, **named, **aim(given)))
    gate, passed = needed(given, "gate", "gate", "passed")
    receipt = keeper.record_gate(gate, given.get("fields"), passed=passed, **aim(given))
    return changed(receipt, gate={"name": gate, **receipt.state["gates"][gate]})


def _note(keeper: Keeper, given: Fields) -> Fields:
    kind = given["kind"]
    if kind == "context":
        (fields,) = needed(given, "note", "fields")
        return changed(keeper.set_context(fields, **aim(given)))
    if kind == "mended":
        (code,) = needed(given, "note", "code")
        return changed(keeper.clear_violation(code, **aim(given)))
    if kind == "violation":
        return changed(
            keeper.add_violation(*needed(given, "note", "code", "severity", "text"), **aim(given))
        )
    (text,) = needed(given, "note", "text")
    if kind == "learning":
        noted = keeper.remember(text, id=given.get("id"))
        return {"ok": True, "seqs": list(noted.seqs), **_notes(noted.notes)}
    method = keeper.remind if kind == "reminder" else keeper.require_reading
    return changed(method(text, **aim(given)))


def _complete(keeper: Keeper, given: Fields) -> Fields:
    options = {name: given[name] for name in ("outcome", "force", "reason") if name in given}
    receipt = keeper.complete(**options, **aim(given))
    return changed(receipt, **({} if receipt.signal is None else {"signal": receipt.signal}))


_CALLS: dict[str, Callable[[Keeper, Fields], Fields]] = {
    "start": _start,
    "status": _status,
    "resume": _resume,
    "phase": _phase,
    "task": _task,
    "gate": _gate,
    "note": _note,
    "complete": _complete,
}


def folder() -> str:
    """Where the client works: it may start its servers elsewhere, but says where the project is."""
    named = os.environ.get("CLAUDE_PROJECT_DIR", "")
    return named if os.path.isdir(named) else "."
