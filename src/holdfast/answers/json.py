"""The JSON contract (docs/json.md): the fields of every answer, for ``--json`` and for MCP.

Each function returns the fields of one kind of answer without ``ok``, which the surface puts first.
"""

from __future__ import annotations

from holdfast.core.workflow import unread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper import Receipt
    from holdfast.keeper.audit import Report
    from holdfast.workspace.trust import CommandRequest

_WORKFLOW_FIRST = (
    "id", "recipe", "format", "subject", "title", "status", "phase", "step", "cycle", "phases",
    "tasks", "gates", "violations", "required_reading", "unread", "read", "reminders", "context",
    "branch", "worktree", "record", "session", "ttl", "created_at", "updated_at",
)  # fmt: skip
"""The order in which people look for the fields; the others follow as they are."""
_ROW = (
    "id", "seq", "recipe", "format", "subject", "title", "status", "phase", "phase_status",
    "phase_index", "phase_total", "tasks_done", "tasks_total", "branch", "floating", "worktree",
    "record", "session", "ttl", "created_at", "updated_at",
)  # fmt: skip
"""Columns of a workflow's row that a listing shows; the others are for the ledger."""
_WATCHED = ("unopened", "seq", "mine", "initiative", "layers", "events", "damage")


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


def workflows(rows: list[Fields], notes: list[str]) -> Fields:
    return with_notes({"workflows": [row_view(row) for row in rows]}, notes)


def change(receipt: Receipt) -> Fields:
    """Return the fields of every command that changes a workflow."""
    view = workflow_view(receipt.state, receipt.record)
    return with_notes({"workflow": view, "seqs": list(receipt.seqs)}, receipt.notes)


def gate_list(receipt: Receipt) -> Fields:
    rows = [{"name": name, **gate} for name, gate in receipt.state["gates"].items()]
    return with_notes({"gates": rows, "id": receipt.state["id"]}, receipt.notes)


def run(receipt: Receipt, what: str, result: Fields, *, passed: bool) -> Fields:
    """Return the fields of a command that ran a gate's command or the tests."""
    fields = {"gate" if "name" in result else "tests": result, **change(receipt)}
    return fields if passed else {**fields, "error": failed_run(what, result)}


def failed_run(what: str, result: Fields) -> Fields:
    """Return the ``error`` of a run that was recorded and is no success."""
    how = f"exit code {result['exit_code']}"
    if result.get("cancelled"):
        how = "it was cancelled"
    elif result.get("timed_out"):
        how = "it was ended at its time limit"
    elif result.get("signal"):
        how = f"it died of signal {result['signal']}"
    failing = result.get("failing_tests") or []
    listed = f": {', '.join(failing[:5])}" if failing else ""
    return {
        "code": "failed",
        "message": f"{what} failed ({how}){listed}",
        "hint": "mend it, then run the same command again",
    }


def trust_requests(requests: list[CommandRequest], not_covered: str, notes: list[str]) -> Fields:
    rows = [request.as_fields() for request in requests]
    return with_notes({"commands": rows, "not_covered": not_covered}, notes)


def loops(states: list[Workflow], notes: list[str]) -> Fields:
    views = [workflow_view(state, state["record"]) for state in states]
    return with_notes({"loops": views}, notes)


def loop_run(result: Fields) -> Fields:
    result = dict(result)
    fields = with_notes({"run": result}, result.pop("notes"))
    if not result["finished"]:
        stuck = "; ".join(f"{name} {why}" for name, why in result["stuck"].items())
        message = f"loop run: {result['loop']} is not finished" + (f": {stuck}" if stuck else "")
        fields["error"] = {"code": "failed", "message": message, "hint": result["next"]}
    return fields


def failed_verification(receipt: Receipt, unit: str, why: str, following: str) -> Fields:
    message = f"loop verify: {unit} did not pass: {why[:200]}"
    error = {"code": "failed", "message": message, "hint": following}
    return {**change(receipt), "error": error}


def checks(rows: list[Fields]) -> Fields:
    fields: Fields = {"checks": rows}
    bad = [check for check in rows if check["status"] == "bad"]
    if bad:
        message = "; ".join(f"{check['what']}: {check['found']}" for check in bad)
        fields["error"] = {"code": "unwell", "message": message, "hint": bad[0]["hint"]}
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
        fields["error"] = {"code": "damaged", "message": message, "hint": following}
    return fields


def watched(view: Fields) -> Fields:
    """Return what ``watch`` shows at one moment."""
    states = view["states"].values()
    return {
        "workflows": [workflow_view(state, state["record"]) for state in states],
        **{name: view[name] for name in _WATCHED},
    }
