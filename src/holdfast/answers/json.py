"""Answers as JSON: the contract of ``--json``, one object for every answer.

An answer to ``log --follow`` is the exception: one event a line, as it comes. The one object of
``log`` is printed while the ledger is read, so its ``ok`` comes last.
"""

from __future__ import annotations

from holdfast.cli.terminal_text import clean_json
from holdfast.core import json_text
from holdfast.core.workflow.state import unread
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TextIO

    from holdfast.cli.shapes import Answer
    from holdfast.core.types import Fields, Workflow

_FIRST = (
    "id",
    "recipe",
    "format",
    "subject",
    "title",
    "status",
    "phase",
    "step",
    "cycle",
    "phases",
    "tasks",
    "gates",
    "violations",
    "required_reading",
    "unread",
    "read",
    "reminders",
    "context",
    "branch",
    "worktree",
    "record",
    "session",
    "ttl",
    "created_at",
    "updated_at",
)
"""The order in which people look for the fields; the others follow as they are."""
_ROW = (
    "id", "seq", "recipe", "format", "subject", "title", "status", "phase", "phase_status",
    "phase_index", "phase_total", "tasks_done", "tasks_total", "branch", "floating", "worktree",
    "record", "session", "ttl", "created_at", "updated_at",
)  # fmt: skip
"""What a listing shows of a workflow's row; the other columns are for the ledger."""


def texts(answer: Answer, out: TextIO) -> Iterator[str]:
    """Yield the answer as pieces of JSON that the stream can take, ends of lines included."""
    ascii_only = not (out.encoding or "").lower().startswith("utf")

    def json(value: Any) -> str:
        return clean_json(json_text.dumps(value), ascii_only=ascii_only)

    if answer["kind"] == "lines":
        for line in answer["data"]:
            yield f"{clean_json(line, ascii_only=ascii_only)}\n"
    elif answer["kind"] == "stream":
        for event in answer["data"]:
            yield f"{json(event)}\n"
    elif answer["kind"] == "events":
        yield from _event_texts(answer, json)
    else:
        yield f"{json(view(answer))}\n"


def _event_texts(answer: Answer, json: Callable[[Any], str]) -> Iterator[str]:
    """Yield the object of ``log`` event by event. A fault on the way ends it as a failed answer."""
    yield '{"events":['
    separator = ""
    end: Fields = {"ok": True}
    try:
        for event in answer["data"]:
            yield f"{separator}{json(event)}"
            separator = ","
    except HoldfastError as error:
        from holdfast.answers.failure import failure

        failed = failure(error)
        answer["code"] = failed.get("code", 0)
        end = {"ok": False, "error": failed["data"]}
    yield f"],{json(end)[1:]}\n"


def view(answer: Answer) -> Fields:
    """The one object of an answer."""
    return {"ok": not answer.get("code"), **_VIEWS[answer["kind"]](answer["data"])}


def workflow_view(state: Workflow, record: str | None) -> Fields:
    """A workflow as every command shows it; ``record`` is where its record stands now."""
    recipe = state["recipe"]
    fields: Fields = {
        **state,
        "recipe": recipe["name"],
        "format": recipe["format"],
        "unread": unread(state),
        "record": record,
    }
    return {**{name: fields[name] for name in _FIRST}, **fields}


def _change(data: Any) -> Fields:
    receipt = data["receipt"]
    view = workflow_view(receipt.state, receipt.record)
    fields = {"workflow": view, "seqs": list(receipt.seqs)}
    return {**fields, **_notes(receipt.notes)}


def _run(data: Any) -> Fields:
    kind = "gate" if "name" in data["result"] else "tests"
    fields = {kind: data["result"], **_change(data)}
    if not data["passed"]:
        fields["error"] = failed_run(data)
    return fields


def failed_run(data: Any) -> Fields:
    """Why a run that was recorded is no success."""
    result = data["result"]
    how = f"exit code {result['exit_code']}"
    if result.get("cancelled"):
        how = "it was cancelled"
    elif result.get("timed_out"):
        how = "it was ended at its time limit"
    elif result.get("signal"):
        how = f"it died of signal {result['signal']}"
    named = result.get("failing_tests") or []
    listed = f": {', '.join(named[:5])}" if named else ""
    return {
        "code": "failed",
        "message": f"{data['what']} failed ({how}){listed}",
        "hint": "mend it, then run the same command again",
    }


def _gates(data: Any) -> Fields:
    receipt = data["receipt"]
    rows = [{"name": name, **gate} for name, gate in receipt.state["gates"].items()]
    return {"gates": rows, "id": receipt.state["id"], **_notes(receipt.notes)}


def _wishes(data: Any) -> Fields:
    rows = [wish.as_fields() for wish in data["wishes"]]
    return {"commands": rows, "not_covered": data["not_covered"], **_notes(data["notes"])}


def _cleaned(data: Any) -> Fields:
    return {"cleaned": data["gone"], "dry_run": data["dry_run"], **_notes(data["notes"])}


def _turn(data: Any) -> Fields:
    return {"next": data["next"], **_notes(data["notes"])}


def _loops(data: Any) -> Fields:
    views = [workflow_view(state, state["record"]) for state in data["states"]]
    return {"loops": views, **_notes(data["notes"])}


def _driven(data: Any) -> Fields:
    run = {key: value for key, value in data.items() if key != "notes"}
    fields: Fields = {"run": run, **_notes(data["notes"])}
    if not data["finished"]:
        stuck = "; ".join(f"{name} {why}" for name, why in data["stuck"].items())
        message = f"loop run: {data['loop']} is not finished" + (f": {stuck}" if stuck else "")
        fields["error"] = {"code": "failed", "message": message, "hint": data["next"]}
    return fields


def _unverified(data: Any) -> Fields:
    message = f"loop verify: {data['unit']} did not pass: {data['found'][:200]}"
    error = {"code": "failed", "message": message, "hint": data["next"]}
    return {**_change(data), "error": error}


def _check(data: Any) -> Fields:
    fields: Fields = {"checks": data["checks"]}
    wrong = [check for check in data["checks"] if check["status"] == "bad"]
    if wrong:
        message = "; ".join(f"{check['what']}: {check['found']}" for check in wrong)
        fields["error"] = {"code": "unwell", "message": message, "hint": wrong[0]["hint"]}
    return fields


def _layers(data: Any) -> Fields:
    fields: Fields = {"layers": data["layers"], **_notes(data["notes"])}
    failed = [row for row in data["layers"] if "error" in row]
    if failed:
        fields["error"] = {**failed[0]["error"], "code": "undelivered"}
    return fields


def _settings(data: Any) -> Fields:
    return {**{name: data[name] for name in data if name != "notes"}, **_notes(data["notes"])}


def _page(data: Any) -> Fields:
    return {**data["fields"], **_notes(data["notes"])}


def _ended(data: Any) -> Fields:
    return {**_change(data), "signal": data["signal"]}


def _started(data: Any) -> Fields:
    return {**_change(data), "resumed": bool(data["receipt"].resumed)}


def _workflow(data: Any) -> Fields:
    receipt = data["receipt"]
    return {"workflow": workflow_view(receipt.state, receipt.record), **_notes(receipt.notes)}


def _briefing(data: Any) -> Fields:
    return {"briefing": data["briefing"], **_change(data)}


def _workflows(data: Any) -> Fields:
    return {"workflows": [row_view(row) for row in data["rows"]], **_notes(data["notes"])}


def row_view(row: Fields) -> Fields:
    """Return a workflow's row as scripts are shown it."""
    return {name: row[name] for name in _ROW}


def _report(data: Any) -> Fields:
    report = data["report"]
    fields: Fields = {"lines": report.lines, "counts": report.counts}
    if not report.ok:
        wrong = [line for line in report.lines if line["level"] == "error"]
        message = "; ".join([f"{line['what']}: {line['message']}" for line in wrong[:3]])
        hint = "holdfast repair" if data["command"] == "verify" else "holdfast verify"
        fields["error"] = {"code": "damaged", "message": message, "hint": hint}
    return fields


def _text(data: Any) -> Fields:
    return dict(data)


def _candidates(data: Any) -> Fields:
    return {"candidates": data["candidates"]}


def _failure(data: Any) -> Fields:
    return {"error": data}


def _notes(notes: list[str]) -> Fields:
    return {"notes": list(notes)} if notes else {}


def _here(data: Any) -> Fields:
    shown = {**data, "workflows": [row_view(row) for row in data["workflows"]]}
    return {**{name: shown[name] for name in shown if name != "notes"}, **_notes(data["notes"])}


def watch_view(data: Any) -> Fields:
    """What ``watch`` shows, once."""
    states = data["states"].values()
    shown = ("unopened", "seq", "mine", "initiative", "layers", "events", "damage")
    return {
        "workflows": [workflow_view(state, state["record"]) for state in states],
        **{name: data[name] for name in shown},
    }


_VIEWS: dict[str, Callable[[Any], Fields]] = {
    "here": _here,
    "watch": watch_view,
    "change": _change,
    "started": _started,
    "workflow": _workflow,
    "briefing": _briefing,
    "workflows": _workflows,
    "report": _report,
    "run": _run,
    "gates": _gates,
    "wishes": _wishes,
    "cleaned": _cleaned,
    "ended": _ended,
    "plan": _text,
    "silence": _text,
    "check": _check,
    "turn": _turn,
    "loops": _loops,
    "driven": _driven,
    "unverified": _unverified,
    "settings": _settings,
    "layers": _layers,
    "recipes": _text,
    "recipe": _text,
    "script": _text,
    "candidates": _candidates,
    "text": _text,
    "demo": _text,
    "page": _page,
    "failure": _failure,
}
