"""Workflows as the pages show them: plain data, made from states. Pure.

A gate is one of six kinds, so that nobody takes a claim for evidence: ``evidence`` (Holdfast ran it
or looked it up), ``claim`` (somebody said so, and that is enough), ``waived`` (a person decided),
``failed``, ``stale`` (files changed since), ``pending``.
"""

from __future__ import annotations

from holdfast.answers.events import COMMIT_CHARS
from holdfast.core.next_step import STUCK, next_step
from holdfast.core.selection import machine_of
from holdfast.core.time import in_seconds
from holdfast.core.workflow import find_task, is_active
from holdfast.core.workflow.evidence import how_it_ended, settled_at
from holdfast.core.workflow.needs import (
    CHECK,
    CLAIM,
    WAIVED,
    evidence_of,
    failing_tests,
    has_failed,
    is_passed,
)
from holdfast.core.workflow.questions import open_questions
from holdfast.core.workflow.tasks import limit_of, task_at_hand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Phase, Task, Workflow

_MAX_SEGMENTS = 40
"""The number of tasks up to which each has a segment of its own."""
_GATE_WORDS = {
    "evidence": "passed, with evidence",
    "claim": "passed, as somebody claims",
    "waived": "waived by a person",
    "failed": "failed",
    "stale": "stale: files changed since",
    "pending": "not passed yet",
}


def gate_kind(state: Workflow, name: str) -> str:
    """Return which of the six kinds a gate's result is."""
    gate = state["gates"][name]
    status = gate.get("status")
    if status == WAIVED:
        return "waived"
    if has_failed(gate):
        return "failed"
    if status == "stale":
        return "stale"
    if not is_passed(state, name):
        return "pending"
    return "claim" if gate.get("evidence", CLAIM) == CLAIM else "evidence"


def gates(state: Workflow) -> list[Fields]:
    """Return each gate with its kind, and what its result rests on."""
    return [
        {
            "name": name,
            "kind": gate_kind(state, name),
            "words": _GATE_WORDS[gate_kind(state, name)],
            "about": _about_gate(state, name),
            "at": settled_at(gate),
            "command": gate.get("command") or "",
            "tail": str(gate.get("output_tail") or "").rstrip(),
            "machine": gate.get("machine") or "",
        }
        for name, gate in state["gates"].items()
    ]


def _about_gate(state: Workflow, name: str) -> str:
    """Return in a few words what a gate's result rests on, or what it needs."""
    gate, needs = state["gates"][name], evidence_of(state, name)
    if gate.get("status") == WAIVED:
        return str(gate.get("reason") or "")
    evidence = gate.get("evidence")
    if evidence == CLAIM:
        return "claimed" if needs == CLAIM else f"claimed; needs a {needs}"
    if evidence == CHECK:
        return f"looked up: {gate.get('pushed_to') or 'in git'}"
    if evidence is None:
        return {"run": "needs a run", "check": "is looked up", CLAIM: "needs a claim"}[needs]
    facts = [how_it_ended(gate), in_seconds(gate.get("duration_ms"))]
    commit = str(gate.get("commit") or "")[:COMMIT_CHARS]
    return " · ".join([*filter(None, facts), *([f"on {commit}"] if commit else [])])


def waits(state: Workflow) -> list[Fields]:
    """Return what of a workflow waits for a person: approvals, and what is blocked.

    ``key`` tells them apart for as long as they wait.
    """
    rows = _waits(state) if is_active(state) else []
    names = ("question", "phase", "task", "conflict")
    for row in rows:
        about = next(str(row[name]) for name in names if name in row)
        row["key"] = f"{row['kind']}-{about}"
    return rows


def _waits(state: Workflow) -> list[Fields]:
    rows: list[Fields] = [
        {
            "kind": "question",
            "question": question["id"],
            "text": question["text"],
            "choices": question.get("choices") or [],
            "is_blocking": bool(question.get("blocking")),
        }
        for question in open_questions(state)
    ]
    step = next_step(state)
    if step is not None and step.words[:2] == ["phase", "approve"]:
        name = step.words[2]
        rows.append({"kind": "approve", "phase": name, "text": f"phase {name} waits for approval"})
    for phase in state["phases"]:
        if phase["status"] == "blocked":
            text = f"phase {phase['name']} is blocked"
            rows.append(
                {"kind": "unblock_phase", "phase": phase["name"], "text": _why(text, phase)}
            )
    for task in state["tasks"]:
        if task["status"] in STUCK:
            what = "is blocked" if task["status"] == "blocked" else "ran out of iterations"
            kind = "unit" if state["recipe"]["format"] == "loop" else "task"
            text = _why(f"{kind} {task['id']} {what}", task)
            rows.append({"kind": "unblock_task", "task": task["id"], "text": text})
    rows += [
        {
            "kind": "conflict",
            "conflict": conflict["id"],
            "text": f"{conflict['command']}, from {conflict['from']}: {conflict['why']}",
        }
        for conflict in state.get("conflicts", ())
    ]
    return rows


def _asks_to_run(state: Workflow) -> bool:
    """Return whether a workflow has commands of others, which a person may have to approve."""
    declared = state["recipe"].get("gates", {}).values()
    return (
        any("command" in gate for gate in declared)
        or any("verify" in task for task in state["tasks"])
        or any(result.get("machine") for result in [state["tests"], *state["gates"].values()])
    )


def _why(text: str, item: Phase | Task) -> str:
    return f"{text}: {item['reason']}" if item.get("reason") else text


def tasks(state: Workflow) -> list[Fields]:
    """Return the tasks, each with what is known of it in a few words."""
    current = state.get("current_task")
    rows = []
    for task in state["tasks"]:
        phases = task.get("phases", {})
        facts = [
            *[name for name, status in phases.items() if status == "in_progress"],
            task["status"] if task["status"] in ("confirming", "verifying", *STUCK) else "",
            str(task.get("reason") or ""),
            f"after {', '.join(map(str, task.get('depends') or []))}"
            if task.get("depends")
            else "",
            "claimed" if task.get("claimed") else "",
        ]
        rows.append({
            "id": task["id"],
            "text": task["description"],
            "status": task["status"],
            "facts": [fact for fact in facts if fact],
            "commit": str(task.get("commit") or "")[:COMMIT_CHARS],
            "used": task.get("iterations_used", 0),
            "limit": limit_of(task) if state["recipe"]["format"] == "loop" else 0,
            "confirmations": task.get("confirmations_used", 0),
            "criteria": task.get("criteria") or "",
            "is_current": task["id"] == current,
        })  # fmt: skip
    return rows


def progress(state: Workflow) -> Fields:
    """Return how many tasks are done, and the status of each if they are not too many."""
    statuses = [task["status"] for task in state["tasks"]]
    segments = statuses if len(statuses) <= _MAX_SEGMENTS else []
    return {"done": statuses.count("completed"), "total": len(statuses), "segments": segments}


def phases(state: Workflow) -> list[Fields]:
    """Return the phases, each with its status, and whether it is the current one."""
    return [
        {
            "name": phase["name"],
            "status": phase["status"],
            "is_current": phase["name"] == state["phase"],
            "is_approved": bool(phase.get("approved")),
            "is_claimed": bool(phase.get("claimed")),
            "reason": phase.get("reason") or phase.get("forced") or "",
            "started_at": phase.get("started_at") or "",
            "completed_at": phase.get("completed_at") or "",
        }
        for phase in state["phases"]
    ]


def card(state: Workflow) -> Fields:
    """Return a workflow as the board shows it, but for what changes without it."""
    task = task_at_hand(state) if state["tasks"] else None
    current = find_task(state, state.get("current_task"))
    is_loop = state["recipe"]["format"] == "loop"
    return {
        "id": state["id"],
        "recipe": state["recipe"]["name"],
        "title": state["title"] or state["subject"] or state["id"],
        "status": state["status"],
        "is_loop": is_loop,
        "is_active": is_active(state),
        "phase": state["phase"],
        "phases": phases(state),
        "cycle": state["cycle"],
        "task": None if task is None else {"id": task["id"], "text": task["description"]},
        "has_begun": current is not None,
        "progress": progress(state),
        "units": tasks(state) if is_loop else [],
        "gates": gates(state),
        "failing": len(failing_tests(state["tests"])),
        "violations": len(state["violations"]),
        "waits": waits(state),
        "asks_to_run": _asks_to_run(state),
        "branch": state["branch"] or "",
        "machine": machine_of(state["worktree"]) or "",
        "worktree": "" if machine_of(state["worktree"]) else state["worktree"],
        "holder": state["session"]["id"] if state["session"] else "",
        "labels": state.get("labels") or [],
        "updated_at": state["updated_at"],
    }
