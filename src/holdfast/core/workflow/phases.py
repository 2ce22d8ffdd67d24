"""Phases and steps: the position of a workflow, and how it moves forward or back."""

from __future__ import annotations

from holdfast.core.refusal import Refusal, bad_text, bad_values, shell_word
from holdfast.core.workflow.state import (
    awaits_approval,
    blocking,
    decides,
    declared_phase,
    evolves,
    find_phase,
    is_terminal,
    next_phases,
    pending_phase,
    with_phase,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Draft, Fields, Phase, Workflow
    from holdfast.core.workflow.state import Decision

_OWN_FIELDS = (
    "name", "status", "started_at", "completed_at", "approved", "steps", "reason", "forced",
)  # fmt: skip


def _comes_before(state: Workflow, name: str, other: str) -> bool:
    names = [phase["name"] for phase in state["phases"]]
    return names.index(name) < names.index(other)


def _blocked_refusal(state: Workflow, tried: str, phase: Phase) -> Refusal:
    reason = f" ({phase['reason']})" if phase.get("reason") else ""
    return Refusal(
        "blocked",
        f"{tried}: {phase['name']} of {state['id']} is blocked{reason}",
        f"holdfast phase unblock {shell_word(phase['name'])}",
    )


def _needs_approval(state: Workflow, phase: Phase, tried: str) -> Refusal | None:
    if not awaits_approval(state, phase):
        return None
    return Refusal(
        "needs_approval",
        f"{tried}: {phase['name']} of {state['id']} is not approved",
        f"holdfast phase approve {shell_word(phase['name'])}",
    )


def _held_back(state: Workflow, name: str, args: Fields, tried: str) -> Refusal | None:
    """Return a refusal if a blocking violation prevents a phase that hands over the work."""
    codes = blocking(state) if is_terminal(name) else []
    if codes and not args.get("force"):
        return Refusal(
            "blocking",
            f"{tried}: {name} of {state['id']} waits for violations: {', '.join(codes)}",
            f"mend it, then: holdfast violation clear {shell_word(codes[0])}; "
            "or go on all the same: --force --reason TEXT",
            violations=codes,
        )
    if codes and not args.get("reason"):
        return Refusal("invalid", f"{tried}: force needs a reason", "--force --reason TEXT")
    return bad_text("reason", args["reason"]) if args.get("reason") else None


def _bad_fields(fields: Fields) -> Refusal | None:
    taken = [key for key in fields if key in _OWN_FIELDS]
    if not taken:
        return bad_values(fields)
    return Refusal(
        "invalid",
        f"phase: {taken[0]} is kept by Holdfast and cannot be set",
        "give it another name: key=value",
    )


def _field_events(name: str, fields: Fields) -> list[Draft]:
    """Return the events of fields of a phase: test_written, failure_confirmed, phase_noted."""
    drafts: list[Draft] = []
    rest = dict(fields)

    def split(event_type: str, *keys: str) -> None:
        own = {key: rest.pop(key) for key in keys if key in rest}
        drafts.append({"type": event_type, "data": {"phase": name, "fields": own}})

    if "test_file" in rest:
        split("test_written", "test_file", "test_name")
    if rest.get("failure_confirmed") is True:
        split("failure_confirmed", "failure_confirmed", "failure_reason")
    if rest:
        split("phase_noted", *rest)
    return drafts


def _event_with_fields(event_type: str, data: Fields, fields: Fields) -> Decision:
    """Return an event of a phase and those of its new fields, or a refusal of the fields."""
    drafts: list[Draft] = [{"type": event_type, "data": data}]
    return _bad_fields(fields) or [*drafts, *_field_events(data["phase"], fields)]


@evolves("phase_noted", "test_written", "failure_confirmed")
def _with_fields(state: Workflow, data: Fields, _at: str) -> Workflow:
    return with_phase(state, data["phase"], data["fields"])


@decides("start_phase", "phase start")
def start(state: Workflow, phase: Phase, args: Fields) -> Decision:
    """Start the next phase or an earlier one, or add fields to the current one."""
    name, fields = args["phase"], args.get("fields", {})
    if refusal := _bad_fields(fields):
        return refusal
    current = find_phase(state, state["phase"])
    if current is phase and phase["status"] == "in_progress":
        return _field_events(name, fields) or Refusal(
            "already",
            f"phase start: {name} is in progress already",
            f"holdfast phase complete {shell_word(name)}",
        )
    if refusal := _held_back(state, name, args, "phase start"):
        return refusal
    if current is None:
        return _begun(state, name, fields, args)
    if current["status"] == "blocked":
        return _blocked_refusal(state, "phase start", current)
    following = next_phases(state, current["name"])
    if name in following:
        drafts: list[Draft] = []
        if current["status"] == "in_progress":
            if refusal := _needs_approval(state, current, "phase start"):
                return refusal
            drafts.append(_completion(state, current["name"], {}, args))
        return [*drafts, *_begun(state, name, fields, args)]
    if _comes_before(state, name, current["name"]) or current is phase:
        return _begun(state, name, fields, args)
    return Refusal(
        "wrong_order",
        f"phase start: {name} does not follow {current['name']}, where {state['id']} stands; "
        f"{' or '.join(following) or 'nothing'} does",
        "holdfast advance" if following else "holdfast complete",
        next=following,
    )


def _begun(state: Workflow, name: str, fields: Fields, args: Fields) -> list[Draft]:
    data: Fields = {"phase": name}
    if is_terminal(name) and blocking(state):
        data["forced"] = args["reason"]
    if state["phase"] is not None and _comes_before(state, name, state["phase"]):
        # The approved work is done again, so its approval is void.
        approved = [phase["name"] for phase in state["phases"] if phase.get("approved")]
        void = [other for other in approved if not _comes_before(state, other, name)]
        data |= {"unapproved": void} if void else {}
    return [{"type": "phase_started", "data": data}, *_field_events(name, fields)]


@evolves("phase_started")
def _started(state: Workflow, data: Fields, at: str) -> Workflow:
    name = data["phase"]
    after: Workflow = {**state, "phase": name, "step": None}
    target = find_phase(state, name)
    revisited = target is not None and target["status"] == "completed"
    if revisited and state["recipe"].get("cycles_at") == name:
        after["cycle"] = state["cycle"] + 1
        after["phases"] = [pending_phase(phase) for phase in state["recipe"]["phases"]]
    elif state["phase"] is not None and name not in next_phases(state, state["phase"]):
        # This phase and all later ones are pending again.
        cleared = dict.fromkeys(("started_at", "completed_at", "approved", "reason", "forced"))
        for phase in state["phases"]:
            if not _comes_before(state, phase["name"], name):
                after = with_phase(after, phase["name"], {**cleared, "status": "pending"})
    begun: Fields = {"status": "in_progress", "started_at": at}
    begun |= {"completed_at": None, "reason": None, "forced": data.get("forced")}
    after = with_phase(after, name, begun)
    for other in data.get("unapproved", ()):
        after = with_phase(after, other, {"approved": None})
    return after


@decides("advance")
def advance(state: Workflow, args: Fields) -> Decision:
    """Complete the current phase and start the next."""
    if state["phase"] is None:
        return Refusal("no_phase", f"advance: {state['id']} has no phases", "holdfast complete")
    return _complete_current(state, args, "advance")


@decides("complete_phase", "phase complete")
def complete(state: Workflow, phase: Phase, args: Fields) -> Decision:
    """Complete the current phase by name, and start the next."""
    name = args["phase"]
    if name != state["phase"]:
        return Refusal(
            "already" if phase["status"] == "completed" else "wrong_order",
            f"phase complete: {name} is {phase['status']}; "
            f"{state['id']} stands in {state['phase']}",
            f"holdfast phase complete {shell_word(state['phase'])}",
        )
    return _complete_current(state, args, "phase complete")


def _complete_current(state: Workflow, args: Fields, tried: str) -> Decision:
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
    fields = args.get("fields", {})
    if refusal := _bad_fields(fields) or _needs_approval(state, current, tried):
        return refusal
    following = next_phases(state, current["name"])
    drafts = [_completion(state, current["name"], fields, args)]
    if following:
        if refusal := _held_back(state, following[0], args, tried):
            return refusal
        drafts += _begun(state, following[0], {}, args)
    return drafts


def _completion(state: Workflow, name: str, fields: Fields, args: Fields) -> Draft:
    data: Fields = {"phase": name}
    if fields:
        data["fields"] = fields
    declared, branch = declared_phase(state, name), args.get("branch")
    settles = declared is not None and declared.get("sets_branch", False)
    if settles and branch is not None and branch != state["branch"]:
        data["branch"] = branch
    return {"type": "phase_completed", "data": data}


@evolves("phase_completed")
def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    fields = {**data.get("fields", {}), "status": "completed", "completed_at": at}
    after: Workflow = {**with_phase(state, data["phase"], fields), "step": None}
    if "branch" in data:
        after["branch"] = data["branch"]
    return after


@decides("block_phase", "phase block")
def block(state: Workflow, phase: Phase, args: Fields) -> Decision:
    if phase["name"] != state["phase"] or phase["status"] != "in_progress":
        return Refusal(
            "wrong_order",
            f"phase block: {phase['name']} of {state['id']} is {phase['status']}, not in progress",
            f"holdfast show {state['id']}",
        )
    fields = dict(args.get("fields", {}))
    reason = fields.pop("reason", None)
    data: Fields = {"phase": phase["name"]}
    if reason is not None:
        data["reason"] = str(reason)
        if refusal := _bad_fields(fields) or bad_text("reason", data["reason"]):
            return refusal
    return _event_with_fields("phase_blocked", data, fields)


@evolves("phase_blocked")
def _blocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"status": "blocked", "reason": data.get("reason")}
    return {**with_phase(state, data["phase"], changed), "status": "blocked"}


@decides("unblock_phase", "phase unblock")
def unblock(state: Workflow, phase: Phase, args: Fields) -> Decision:
    name, fields = args["phase"], args.get("fields", {})
    if phase["status"] != "blocked":
        return Refusal(
            "not_blocked",
            f"phase unblock: {name} of {state['id']} is {phase['status']}, not blocked",
            f"holdfast show {state['id']}",
        )
    return _event_with_fields("phase_unblocked", {"phase": name}, fields)


@evolves("phase_unblocked")
def _unblocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"status": "in_progress", "reason": None}
    return {**with_phase(state, data["phase"], changed), "status": "in_progress"}


@decides("approve_phase", "phase approve")
def approve(state: Workflow, phase: Phase, args: Fields) -> Decision:
    name, fields = args["phase"], args.get("fields", {})
    if phase.get("approved"):
        return Refusal(
            "already", f"phase approve: {name} of {state['id']} is approved", "holdfast advance"
        )
    return _event_with_fields("phase_approved", {"phase": name}, fields)


@evolves("phase_approved")
def _approved(state: Workflow, data: Fields, _at: str) -> Workflow:
    return with_phase(state, data["phase"], {"approved": True})


@decides("start_step")
def start_step(state: Workflow, args: Fields) -> Decision:
    name = args["step"]
    if refusal := bad_text("step", name):
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
            f"holdfast step {shell_word(steps[0])}",
        )
    return [{"type": "step_started", "data": {"step": name, "phase": current["name"]}}]


@evolves("step_started")
def _step_started(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "step": data["step"]}
