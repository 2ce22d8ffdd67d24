"""Evidence: gates, violations, test runs and the files that were touched."""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.core.workflow.texts import first_bad_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Command, Draft, Fields, Workflow

SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")


def record_gate(_state: Workflow, command: Command) -> list[Draft] | Refusal:
    """A gate's result, run or claimed; a gate nobody declared begins with its first result."""
    args = command["args"]
    refusal = first_bad_text(gate=args["gate"])
    if refusal is not None:
        return refusal
    data = {"gate": args["gate"], "passed": bool(args["passed"]), "fields": args.get("fields", {})}
    return [{"type": "gate_recorded", "data": data}]


def add_violation(_state: Workflow, command: Command) -> list[Draft] | Refusal:
    args = command["args"]
    refusal = first_bad_text(code=args["code"], details=args["details"])
    if refusal is not None:
        return refusal
    if args["severity"] not in SEVERITIES:
        return Refusal(
            "invalid",
            f"violation: {str(args['severity'])[:40]!r} is no severity",
            f"one of {', '.join(SEVERITIES)}",
        )
    data = {key: args[key] for key in ("code", "severity", "details")}
    return [{"type": "violation_found", "data": data}]


def clear_violation(state: Workflow, command: Command) -> list[Draft] | Refusal:
    code = command["args"]["code"]
    if all(found["code"] != code for found in state["violations"]):
        return Refusal(
            "not_found", f"violation: {state['id']} has no {code}", f"holdfast show {state['id']}"
        )
    return [{"type": "violation_cleared", "data": {"code": code}}]


def record_tests(_state: Workflow, command: Command) -> list[Draft]:
    return [{"type": "tests_recorded", "data": {"tests": command["args"]["tests"]}}]


def record_files(_state: Workflow, command: Command) -> list[Draft] | Refusal:
    files = command["args"]["files"]
    refusal = first_bad_text(path=[file["path"] for file in files])
    if refusal is not None:
        return refusal
    return [{"type": "files_recorded", "data": {"files": files}}] if files else []


def _gate_recorded(state: Workflow, data: Fields, at: str) -> Workflow:
    result = {**data["fields"], "status": "completed", "last_run": at, "passed": data["passed"]}
    gate = {**state["gates"].get(data["gate"], {}), **result}
    return {**state, "gates": {**state["gates"], data["gate"]: gate}}


def _violation_found(state: Workflow, data: Fields, _at: str) -> Workflow:
    others = [found for found in state["violations"] if found["code"] != data["code"]]
    return {**state, "violations": [*others, dict(data)]}  # type: ignore[list-item]


def _violation_cleared(state: Workflow, data: Fields, _at: str) -> Workflow:
    left = [found for found in state["violations"] if found["code"] != data["code"]]
    return {**state, "violations": left}


def _tests_recorded(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "tests": {**state["tests"], **data["tests"]}}


def _files_recorded(state: Workflow, data: Fields, _at: str) -> Workflow:
    named = {file["path"] for file in data["files"]}
    kept = [file for file in state["files"] if file["path"] not in named]
    return {**state, "files": [*kept, *data["files"]]}


DECIDE = {
    "record_gate": record_gate,
    "add_violation": add_violation,
    "clear_violation": clear_violation,
    "record_tests": record_tests,
    "record_files": record_files,
}
EVOLVE = {
    "gate_recorded": _gate_recorded,
    "violation_found": _violation_found,
    "violation_cleared": _violation_cleared,
    "tests_recorded": _tests_recorded,
    "files_recorded": _files_recorded,
}
