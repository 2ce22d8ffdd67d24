"""Phases and steps: the position of a workflow, and how it moves forward or back."""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, bad_values, word
from holdfast.core.workflow.state import (
    awaits_approval,
    blocking,
    declared_phase,
    find_phase,
    is_terminal,
    next_phases,
    pending_phase,
    with_phase,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Command, Draft, Fields, Phase, Workflow

_OWN_FIELDS = (
    "name", "status", "started_at", "completed_at", "approved", "steps", "reason", "forced",
)  # fmt: skip


def advance(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Complete the current phase and start the next."""
    if state["phase"] is None:
        return Refusal("no_phase", f"advance: {state['id']} has no phases", "holdfast complete")
    return _complete_current(state, command, "advance")


def start(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Start the next phase or an earlier one, or add fields to the current one."""
    name, fields = command["args"]["phase"], command["args"].get("fields", {})
    phase = find_phase(state, name)
    if phase is None:
        return _no_such_phase(state, "start", name)
    refusal = _bad_fields(fields)
    if refusal is not None:
        return refusal
    current = find_phase(state, state["phase"])
    if current is phase and phase["status"] == "in_progress":
        return _noted(name, fields)
    refusal = _held_back(state, name, command, "phase start")
    if refusal is not None:
        return refusal
    if current is None:
        return _begun(state, name, fields, command)
    if current["status"] == "blocked":
        return _blocked_refusal(state, "phase start", current)
    following = next_phases(state, current["name"])
    if name in following:
        drafts: list[Draft] = []
        if current["status"] == "in_progress":
            refusal = _needs_approval(state, current, "phase start")
            if refusal is not None:
                return refusal
            drafts.append(_completion(state, current["name"], {}, command))
        return [*drafts, *_begun(state, name, fields, command)]
    if _comes_before(state, name, current["name"]) or current is phase:
        return _begun(state, name, fields, command)
    return Refusal(
        "wrong_order",
        f"phase start: {name} does not follow {current['name']}, where {state['id']} stands; "
        f"{' or '.join(following) or 'nothing'} does",
        "holdfast advance" if following else "holdfast complete",
        next=following,
    )


def complete(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Complete the current phase by name, and start the next."""
    name = command["args"]["phase"]
    phase = find_phase(state, name)
    if phase is None:
        return _no_such_phase(state, "complete", name)
    if name != state["phase"]:
        done = phase["status"] == "completed"
        return Refusal(
            "already" if done else "wrong_order",
            f"phase complete: {name} is {phase['status']}; "
            f"{state['id']} stands in {state['phase']}",
            f"holdfast phase complete {word(state['phase'])}",
        )
    return _complete_current(state, command, "phase complete")


def _complete_current(state: Workflow, command: Command, tried: str) -> list[Draft] | Refusal:
    current = find_phase(state, state["phase"])
    if current is None:
        return Refusal("no_phase", f"{tried}: {state['id']} is in no phase", "holdfast show")
    if current["status"] == "blocked":
        return _blocked_refusal(state, tried, current)
    if current["status"] == "completed":
        return Refusal(
            "already",
            f"{tried}: {current['name']}, the last phase of {state['id']}, is completed",
            "holdfast complete",
        )
    fields = command["args"].get("fields", {})
    refusal = _bad_fields(fields) or _needs_approval(state, current, tried)
    if refusal is not None:
        return refusal
    following = next_phases(state, current["name"])
    drafts = [_completion(state, current["name"], fields, command)]
    if following:
        refusal = _held_back(state, following[0], command, tried)
        if refusal is not None:
            return refusal
        drafts += _begun(state, following[0], {}, command)
    return drafts


def _held_back(state: Workflow, name: str, command: Command, tried: str) -> Refusal | None:
    """Return a refusal if a blocking violation prevents a phase that hands over the work."""
    args = command["args"]
    codes = blocking(state) if is_terminal(name) else []
    if not codes:
        return bad_text("reason", args["reason"]) if args.get("reason") else None
    if not args.get("force"):
        return Refusal(
            "blocking",
            f"{tried}: {name} of {state['id']} waits for violations: {', '.join(codes)}",
            f"mend it, then: holdfast violation clear {word(codes[0])}; or go on all the same: "
            "--force --reason TEXT",
            violations=codes,
        )
    if not args.get("reason"):
        return Refusal("invalid", f"{tried}: force needs a reason", "--force --reason TEXT")
    return bad_text("reason", args["reason"])


def _completion(state: Workflow, name: str, fields: Fields, command: Command) -> Draft:
    data: Fields = {"phase": name}
    if fields:
        data["fields"] = fields
    declared = declared_phase(state, name)
    branch = command["args"].get("branch")
    settles = declared is not None and declared.get("sets_branch", False)
    if settles and branch is not None and branch != state["branch"]:
        data["branch"] = branch
    return {"type": "phase_completed", "data": data}


def _begun(state: Workflow, name: str, fields: Fields, command: Command) -> list[Draft]:
    data: Fields = {"phase": name}
    if is_terminal(name) and blocking(state):
        data["forced"] = command["args"]["reason"]
    if state["phase"] is not None and _comes_before(state, name, state["phase"]):
        # The approved work is done again, so its approval is void.
        approved = [phase["name"] for phase in state["phases"] if phase.get("approved")]
        void = [other for other in approved if not _comes_before(state, other, name)]
        data |= {"unapproved": void} if void else {}
    return [{"type": "phase_started", "data": data}, *_field_events(name, fields)]


def _noted(name: str, fields: Fields) -> list[Draft] | Refusal:
    if not fields:
        return Refusal(
            "already",
            f"phase start: {name} is in progress already",
            f"holdfast phase complete {word(name)}",
        )
    return _field_events(name, fields)


def _field_events(name: str, fields: Fields) -> list[Draft]:
    """Return the events of fields of a phase: test_written, failure_confirmed, phase_noted."""
    drafts: list[Draft] = []
    rest = dict(fields)
    if "test_file" in rest:
        drafts.append(_split_event("test_written", name, rest, ("test_file", "test_name")))
    if rest.get("failure_confirmed") is True:
        keys = ("failure_confirmed", "failure_reason")
        drafts.append(_split_event("failure_confirmed", name, rest, keys))
    if rest:
        drafts.append({"type": "phase_noted", "data": {"phase": name, "fields": rest}})
    return drafts


def _split_event(kind: str, name: str, rest: Fields, keys: tuple[str, ...]) -> Draft:
    fields = {key: rest.pop(key) for key in keys if key in rest}
    return {"type": kind, "data": {"phase": name, "fields": fields}}


def _comes_before(state: Workflow, name: str, other: str) -> bool:
    names = [phase["name"] for phase in state["phases"]]
    return names.index(name) < names.index(other)


def block(state: Workflow, command: Command) -> list[Draft] | Refusal:
    args = command["args"]
    phase = find_phase(state, args["phase"])
    if phase is None:
        return _no_such_phase(state, "block", args["phase"])
    if phase["name"] != state["phase"] or phase["status"] != "in_progress":
        return Refusal(
            "wrong_order",
            f"phase block: {phase['name']} of {state['id']} is {phase['status']}, not in progress",
            f"holdfast show {state['id']}",
        )
    fields = dict(args.get("fields", {}))
    reason = fields.pop("reason", None)
    data: Fields = {"phase": phase["name"]}
    refusal = _bad_fields(fields)
    if reason is not None:
        data["reason"] = str(reason)
        refusal = refusal or bad_text("reason", data["reason"])
    if refusal is not None:
        return refusal
    return [{"type": "phase_blocked", "data": data}, *_field_events(phase["name"], fields)]


def unblock(state: Workflow, command: Command) -> list[Draft] | Refusal:
    name = command["args"]["phase"]
    phase = find_phase(state, name)
    if phase is None:
        return _no_such_phase(state, "unblock", name)
    if phase["status"] != "blocked":
        return Refusal(
            "not_blocked",
            f"phase unblock: {name} of {state['id']} is {phase['status']}, not blocked",
            f"holdfast show {state['id']}",
        )
    fields = command["args"].get("fields", {})
    drafts: list[Draft] = [{"type": "phase_unblocked", "data": {"phase": name}}]
    return _bad_fields(fields) or [*drafts, *_field_events(name, fields)]


def approve(state: Workflow, command: Command) -> list[Draft] | Refusal:
    name = command["args"]["phase"]
    phase = find_phase(state, name)
    if phase is None:
        return _no_such_phase(state, "approve", name)
    if phase.get("approved"):
        return Refusal(
            "already", f"phase approve: {name} of {state['id']} is approved", "holdfast advance"
        )
    fields = command["args"].get("fields", {})
    drafts: list[Draft] = [{"type": "phase_approved", "data": {"phase": name}}]
    return _bad_fields(fields) or [*drafts, *_field_events(name, fields)]


def step(state: Workflow, command: Command) -> list[Draft] | Refusal:
    name = command["args"]["step"]
    refusal = bad_text("step", name)
    if refusal is not None:
        return refusal
    current = find_phase(state, state["phase"])
    if current is None or current["status"] != "in_progress":
        return Refusal(
            "no_phase", f"step: {state['id']} has no phase in progress", "holdfast advance"
        )
    steps = current.get("steps", [])
    if steps and name not in steps:
        return Refusal(
            "not_found",
            f"step: {current['name']} has no step {name[:40]!r}; it has {', '.join(steps)}",
            f"holdfast step {word(steps[0])}",
        )
    return [{"type": "step_started", "data": {"step": name, "phase": current["name"]}}]


def _no_such_phase(state: Workflow, tried: str, name: str) -> Refusal:
    known = ", ".join(phase["name"] for phase in state["phases"][:20]) or "none"
    return Refusal(
        "not_found",
        f"phase {tried}: {state['id']} has no phase {name[:40]!r}; it has {known}",
        f"holdfast show {state['id']}",
    )


def _blocked_refusal(state: Workflow, tried: str, phase: Phase) -> Refusal:
    reason = f" ({phase['reason']})" if phase.get("reason") else ""
    return Refusal(
        "blocked",
        f"{tried}: {phase['name']} of {state['id']} is blocked{reason}",
        f"holdfast phase unblock {word(phase['name'])}",
    )


def _bad_fields(fields: Fields) -> Refusal | None:
    taken = [key for key in fields if key in _OWN_FIELDS]
    if not taken:
        return bad_values(fields)
    return Refusal(
        "invalid",
        f"phase: {taken[0]} is kept by Holdfast and cannot be set",
        "give it another name: key=value",
    )


def _needs_approval(state: Workflow, phase: Phase, tried: str) -> Refusal | None:
    if not awaits_approval(state, phase):
        return None
    return Refusal(
        "needs_approval",
        f"{tried}: {phase['name']} of {state['id']} is not approved",
        f"holdfast phase approve {word(phase['name'])}",
    )


def _started(state: Workflow, data: Fields, at: str) -> Workflow:
    name = data["phase"]
    after: Workflow = {**state, "phase": name, "step": None}
    target = find_phase(state, name)
    revisited = target is not None and target["status"] == "completed"
    if revisited and state["recipe"].get("cycles_at") == name:
        after["cycle"] = state["cycle"] + 1
        after["phases"] = [pending_phase(phase) for phase in state["recipe"]["phases"]]
    elif state["phase"] is not None and name not in next_phases(state, state["phase"]):
        after["phases"] = _reopened(state, name)
    begun: Fields = {"status": "in_progress", "started_at": at}
    begun |= {"completed_at": None, "reason": None, "forced": data.get("forced")}
    after["phases"] = with_phase(after, name, begun)
    for other in data.get("unapproved", ()):
        after["phases"] = with_phase(after, other, {"approved": None})
    return after


def _reopened(state: Workflow, name: str) -> list[Phase]:
    """Return the phases with this one and all later ones pending again."""
    cleared = dict.fromkeys(("started_at", "completed_at", "approved", "reason", "forced"))
    after: Workflow = state
    for phase in state["phases"]:
        if not _comes_before(state, phase["name"], name):
            again = with_phase(after, phase["name"], {**cleared, "status": "pending"})
            after = {**after, "phases": again}
    return after["phases"]


def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    fields = {**data.get("fields", {}), "status": "completed", "completed_at": at}
    after: Workflow = {**state, "step": None, "phases": with_phase(state, data["phase"], fields)}
    if "branch" in data:
        after["branch"] = data["branch"]
    return after


def _with_fields(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "phases": with_phase(state, data["phase"], data["fields"])}


def _blocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"status": "blocked", "reason": data.get("reason")}
    phases = with_phase(state, data["phase"], changed)
    return {**state, "status": "blocked", "phases": phases}


def _unblocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    phases = with_phase(state, data["phase"], {"status": "in_progress", "reason": None})
    return {**state, "status": "in_progress", "phases": phases}


def _approved(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "phases": with_phase(state, data["phase"], {"approved": True})}


def _step_started(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "step": data["step"]}


DECIDE = {
    "advance": advance,
    "start_phase": start,
    "complete_phase": complete,
    "block_phase": block,
    "unblock_phase": unblock,
    "approve_phase": approve,
    "start_step": step,
}
EVOLVE = {
    "phase_started": _started,
    "phase_completed": _completed,
    "phase_noted": _with_fields,
    "test_written": _with_fields,
    "failure_confirmed": _with_fields,
    "phase_blocked": _blocked,
    "phase_unblocked": _unblocked,
    "phase_approved": _approved,
    "step_started": _step_started,
}
