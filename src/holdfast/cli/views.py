"""Answers as JSON: the contract of ``--json``, one object for every answer.

An answer to ``log --follow`` is the exception: one event a line, as it comes.
"""

from __future__ import annotations

from holdfast import jsontext
from holdfast.cli.text import clean_json
from holdfast.core.workflow.state import unread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TextIO

    from holdfast.cli.shapes import Answer
    from holdfast.core.shapes import Fields, Workflow

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
_INNER = ("stream", "version", "hash")
"""What a row says to the ledger alone."""


def lines(answer: Answer, out: TextIO) -> Iterator[str]:
    """The answer as JSON texts that the stream can take."""
    ascii_only = not (out.encoding or "").lower().startswith("utf")
    if answer["kind"] == "stream":
        for event in answer["data"]:
            yield clean_json(jsontext.dumps(event), ascii_only=ascii_only)
    else:
        yield clean_json(jsontext.dumps(view(answer)), ascii_only=ascii_only)


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
    return {"workflows": [inner_left_out(row) for row in data["rows"]], **_notes(data["notes"])}


def inner_left_out(row: Fields) -> Fields:
    """A row of a workflow as people and scripts are shown it."""
    return {name: row[name] for name in row if name not in _INNER}


def _events(data: Any) -> Fields:
    return {"events": data}


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
    shown = {**data, "workflows": [inner_left_out(row) for row in data["workflows"]]}
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
    "events": _events,
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
