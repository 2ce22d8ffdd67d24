"""The course of a workflow: opening, phases and steps, ending.

In folder mode, a workflow works through the features of a folder, one after the other. ``context``
has the position, as scripts read it: ``folder_mode``, ``folder_path``, ``folder_features`` (every
file, in order), ``folder_done`` and ``feature_file``, the current one.
"""

from __future__ import annotations

from holdfast.core.refusal import (
    Refusal,
    bad_reading,
    bad_text,
    bad_values,
    first_bad_text,
    shell_word,
)
from holdfast.core.time import duration_s
from holdfast.core.workflow import (
    blank,
    blocking,
    decides,
    declared_phase,
    evolves,
    find_phase,
    is_active,
    is_terminal,
    next_phases,
    opens,
    pending_phase,
    remaining_phases,
    with_phase,
)
from holdfast.core.workflow.needs import (
    ANY_TASK,
    UNTESTED,
    is_untested,
    needs_of,
    pending_gates,
    unmet,
    waived_gates,
    why_stale,
    with_stale_gates,
)
from holdfast.core.workflow.pool import bad_names
from holdfast.core.workflow.questions import blocking_questions
from holdfast.core.workflow.tasks import added_tasks, move_phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Draft, Fields, Phase, Recipe, Workflow
    from holdfast.core.workflow import Decision

_STARTED_WITH = (
    "subject", "title", "branch", "base", "worktree", "record", "ttl", "session", "initiative",
    "labels", "after",
)  # fmt: skip
_OWN_PHASE_FIELDS = (
    "name", "status", "started_at", "completed_at", "approved", "claimed", "steps", "reason",
    "forced",
)  # fmt: skip
_PER_FEATURE = ("phase", "step", "cycle", "phases", "tasks", "gates", "tests", "files")
_PASSING = ("last_task", "removed_tasks")
"""Fields of a feature that the next one begins without."""
OF_FOLDER = ("folder_mode", "folder_path", "folder_features", "folder_done")
"""Fields of the context that have the position in a folder of features."""
_IN_WORDS = {
    "branch": "a branch of its own",
    "failure": "a test that fails",
    "tests": "tests that pass ({})",
    "commit": "a new commit",
    "approval": "a person's approval",
    "questions": "an answer to question {}",
}
"""What a phase can lack, in words; tasks, gates and phases are listed by name."""
_OF_FEATURE = ("feature_file", "feature_title")


@opens("start_workflow")
def start(state: Workflow | None, args: Fields) -> Decision:
    """Open a workflow. An ended one with the same id is replaced."""
    recipe: Recipe = args["recipe"]
    if state is not None and is_active(state):
        why, hint = f"{state['id']} is active already", f"holdfast resume {state['id']}"
        return Refusal("exists", why, hint)
    ttl = args.get("ttl", recipe.get("ttl"))
    if ttl is not None and not duration_s(ttl):
        hint = "write it like 30s, 90m, 24h or 7d"
        return Refusal("invalid", f"{str(ttl)[:40]!r} is not a duration", hint)
    reading = args.get("required_reading", [])
    refusal = first_bad_text(
        subject=args["subject"],
        title=args["title"],
        task=[task["text"] for task in args.get("tasks", [])],
        phase=[phase["name"] for phase in recipe["phases"]],
        reminder=args.get("reminders", []),
        reading=reading,
        branch=[] if args.get("branch") is None else args["branch"],
    ) or bad_values(args.get("context", {}))
    refusal = refusal or bad_names("start", "label", args.get("labels", []))
    refusal = refusal or bad_names("start", "workflow", args.get("after", []))
    if refusal := refusal or next(filter(None, map(bad_reading, reading)), None):
        return refusal
    data = {name: value for name, value in args.items() if name != "tasks"}
    drafts: list[Draft] = [{"type": "workflow_started", "data": {**data, "ttl": ttl}}]
    if recipe["phases"]:
        drafts.append({"type": "phase_started", "data": {"phase": recipe["phases"][0]["name"]}})
    return [*drafts, *added_tasks(recipe, args.get("tasks", []))]


@evolves("workflow_started")
def _started(state: Workflow, data: Fields, _at: str) -> Workflow:
    after: Workflow = {**state, **{k: data[k] for k in _STARTED_WITH if k in data}}  # type: ignore[typeddict-item]
    after["required_reading"] = list(data.get("required_reading", []))
    after["reminders"] = list(data.get("reminders", []))
    after["context"] = {**state["context"], **data.get("context", {})}
    return after


@decides("resume_workflow", after_end=True)
def resume(state: Workflow, args: Fields) -> Decision:
    """Bind the session, and reopen a workflow that ended."""
    data: Fields = {}
    if not is_active(state):
        data["from"] = state["status"]
    for name in ("worktree", "branch", "record"):
        if name in args and args[name] != state[name]:
            data[name] = args[name]
    if "worktree" in data:
        data.setdefault("record", state["record"])
    session, holder = args.get("session"), state["session"]
    holds = (
        holder
        and session
        and all(holder.get(key) == session.get(key) for key in ("id", "pid", "born"))
    )
    if session is not None and (args.get("rebind") or not holds):
        data["session"] = session
    if args.get("new_context") and state["read"]:
        data["new_context"] = True
    return [{"type": "workflow_resumed", "data": data}] if data else []


@evolves("workflow_resumed")
def _resumed(state: Workflow, data: Fields, _at: str) -> Workflow:
    moved = {k: data[k] for k in ("worktree", "branch", "record", "session") if k in data}
    after: Workflow = {**state, **moved}  # type: ignore[typeddict-item]
    if data.get("new_context"):
        after["read"] = {}
    if "from" in data:
        current = find_phase(state, state["phase"])
        blocked = current is not None and current["status"] == "blocked"
        after["status"] = "blocked" if blocked else "in_progress"
        for name in (
            "completed_at", "outcome", "reason", "skipped", "cleaned_at", "archived_from",
        ):  # fmt: skip
            after.pop(name, None)  # type: ignore[misc]
    return after


@decides("end_session")
def end_session(state: Workflow, args: Fields) -> list[Draft]:
    """Release the workflow if the ending session holds it."""
    session, holder = args["session"], state["session"]
    if not session or holder is None or holder["id"] != session:
        return []
    return [{"type": "session_ended", "data": dict(args)}]


@evolves("session_ended")
def _session_ended(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return {**state, "session": None}


# Phases and steps: the position of a workflow, and how it moves forward or back


def _comes_before(state: Workflow, name: str, other: str) -> bool:
    names = [phase["name"] for phase in state["phases"]]
    return names.index(name) < names.index(other)


def _blocked_refusal(state: Workflow, tried: str, phase: Phase) -> Refusal:
    reason = f" ({phase['reason']})" if phase.get("reason") else ""
    why = f"{tried}: {phase['name']} of {state['id']} is blocked{reason}"
    return Refusal("blocked", why, f"holdfast phase unblock {shell_word(phase['name'])}")


def _leave(state: Workflow, name: str, fields: Fields, args: Fields, tried: str) -> Decision:
    """Return the event that leaves the current phase, or a refusal that lists what it needs.

    A phase that lacks something is left by force alone, and is skipped, not completed.
    """
    missing = unmet(state, args.get("facts"))
    if not missing:
        return [_completion(state, name, fields, args)]
    if args.get("force"):
        if not args.get("reason"):
            return Refusal(
                "invalid", f"{tried}: force needs a reason", f"{tried} --force --reason TEXT"
            )
        return bad_text("reason", args["reason"]) or [_skipped(state, name, args, missing)]
    why = f"{tried}: {name} of {state['id']} needs {describe_pending(missing)}"
    return Refusal(
        "needs_approval" if list(missing) == ["approval"] else "pending",
        why,
        f"holdfast show {state['id']}",
        pending=missing,
    )


def _held_back(state: Workflow, name: str, args: Fields, tried: str) -> Refusal | None:
    """Return a refusal if a blocking violation prevents a phase that hands over the work."""
    codes = blocking(state) if is_terminal(name) else []
    if codes and not args.get("force"):
        return Refusal(
            "blocking",
            f"{tried}: {name} of {state['id']} waits for violations: {', '.join(codes)}",
            f"fix it, then: holdfast violation clear {shell_word(codes[0])}; "
            "or go on all the same: --force --reason TEXT",
            violations=codes,
        )
    if codes and not args.get("reason"):
        return Refusal("invalid", f"{tried}: force needs a reason", "--force --reason TEXT")
    return bad_text("reason", args["reason"]) if args.get("reason") else None


def _bad_fields(fields: Fields) -> Refusal | None:
    taken = [key for key in fields if key in _OWN_PHASE_FIELDS]
    if not taken:
        return bad_values(fields)
    why = f"phase: {taken[0]} is kept by Holdfast and cannot be set"
    return Refusal("invalid", why, "give it another name: key=value")


def _field_events(name: str, fields: Fields) -> list[Draft]:
    """Return the events of fields of a phase: test_written, failure_confirmed, phase_noted."""
    drafts: list[Draft] = []
    remaining = dict(fields)

    def split(event_type: str, *keys: str) -> None:
        own = {key: remaining.pop(key) for key in keys if key in remaining}
        drafts.append({"type": event_type, "data": {"phase": name, "fields": own}})

    if "test_file" in remaining:
        split("test_written", "test_file", "test_name")
    if remaining.get("failure_confirmed") is True:
        split("failure_confirmed", "failure_confirmed", "failure_reason")
    if remaining:
        split("phase_noted", *remaining)
    return drafts


def _event_with_fields(event_type: str, data: Fields, fields: Fields) -> Decision:
    """Return an event of a phase and those of its new fields, or a refusal of the fields."""
    drafts: list[Draft] = [{"type": event_type, "data": data}]
    return _bad_fields(fields) or [*drafts, *_field_events(data["phase"], fields)]


@evolves("phase_noted", "test_written", "failure_confirmed")
def _with_fields(state: Workflow, data: Fields, _at: str) -> Workflow:
    return with_phase(state, data["phase"], data["fields"])


@decides("start_phase", "phase start")
def start_phase(state: Workflow, phase: Phase, args: Fields) -> Decision:
    """Start the next phase or an earlier one, or add fields to the current one.

    ``step`` is the command that leads to the phase, if it is red, green or refactor.
    """
    name, fields, tried = args["phase"], args.get("fields", {}), args.get("step", "phase start")
    if refusal := _bad_fields(fields):
        return refusal
    current = find_phase(state, state["phase"])
    if current is phase and phase["status"] == "in_progress":
        return _field_events(name, fields) or Refusal(
            "already",
            f"{tried}: {name} is in progress already",
            f"holdfast phase complete {shell_word(name)}",
        )
    if refusal := _held_back(state, name, args, tried):
        return refusal
    if current is None:
        return _begun(state, name, fields, args)
    if current["status"] == "blocked":
        return _blocked_refusal(state, tried, current)
    following = next_phases(state, current["name"])
    if name in following:
        drafts: list[Draft] = []
        if current["status"] == "in_progress":
            leaving = _leave(state, current["name"], {}, args, tried)
            if isinstance(leaving, Refusal):
                return leaving
            drafts += leaving
        return [*drafts, *_begun(state, name, fields, args)]
    if _comes_before(state, name, current["name"]) or current is phase:
        return _begun(state, name, fields, args)
    return Refusal(
        "wrong_order",
        f"{tried}: {name} does not follow {current['name']}, where {state['id']} stands; "
        f"{' or '.join(following) or 'nothing'} does",
        f"holdfast show {state['id']}",
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
def _phase_started(state: Workflow, data: Fields, at: str) -> Workflow:
    name = data["phase"]
    after: Workflow = {**state, "phase": name, "step": None}
    target = find_phase(state, name)
    revisited = target is not None and target["status"] in ("completed", "skipped")
    if revisited and state["recipe"].get("cycles_at") == name:
        after["cycle"] = state["cycle"] + 1
        after["phases"] = [pending_phase(phase) for phase in state["recipe"]["phases"]]
    elif state["phase"] is not None and name not in next_phases(state, state["phase"]):
        # This phase and all later ones are pending again.
        cleared = dict.fromkeys(
            ("started_at", "completed_at", "approved", "claimed", "reason", "forced")
        )
        for phase in state["phases"]:
            if not _comes_before(state, phase["name"], name):
                after = with_phase(after, phase["name"], {**cleared, "status": "pending"})
    begun: Fields = {"status": "in_progress", "started_at": at}
    begun |= {"completed_at": None, "claimed": None, "reason": None}
    begun["forced"] = data.get("forced")
    after = with_phase(after, name, begun)
    for other in data.get("unapproved", ()):
        after = with_phase(after, other, {"approved": None})
    return after


@decides("advance")
def advance(state: Workflow, args: Fields) -> Decision:
    """Complete the current phase and start the next; ``step`` is as in ``start_phase``."""
    current = find_phase(state, state["phase"])
    if current is None:
        return Refusal("no_phase", f"advance: {state['id']} has no phases", "holdfast complete")
    return _complete_current(state, current, args, args.get("step", "advance"))


@decides("complete_phase", "phase complete")
def complete_phase(state: Workflow, phase: Phase, args: Fields) -> Decision:
    """Complete the current phase by name, and start the next."""
    name = args["phase"]
    if name != state["phase"]:
        return Refusal(
            "already" if phase["status"] == "completed" else "wrong_order",
            f"phase complete: {name} is {phase['status']}; "
            f"{state['id']} stands in {state['phase']}",
            f"holdfast phase complete {shell_word(state['phase'])}",
        )
    return _complete_current(state, phase, args, "phase complete")


def _complete_current(state: Workflow, current: Phase, args: Fields, tried: str) -> Decision:
    if current["status"] == "blocked":
        return _blocked_refusal(state, tried, current)
    if current["status"] in ("completed", "skipped"):
        why = f"{tried}: {current['name']}, the last phase of {state['id']}, is {current['status']}"
        return Refusal("already", why, "holdfast complete")
    fields = args.get("fields", {})
    if refusal := _bad_fields(fields):
        return refusal
    drafts = _leave(state, current["name"], fields, args, tried)
    if isinstance(drafts, Refusal):
        return drafts
    following = next_phases(state, current["name"])
    if following:
        if refusal := _held_back(state, following[0], args, tried):
            return refusal
        drafts += _begun(state, following[0], {}, args)
    return drafts


def _completion(state: Workflow, name: str, fields: Fields, args: Fields) -> Draft:
    data: Fields = {"phase": name, **_settled_branch(state, name, args)}
    if fields:
        data["fields"] = fields
    if "commit" in needs_of(state, name) and args.get("facts", {}).get("head"):
        data["commit"] = args["facts"]["head"]
        data["subject"] = args["facts"].get("subject") or name
    return {"type": "phase_completed", "data": data}


def _skipped(state: Workflow, name: str, args: Fields, missing: Fields) -> Draft:
    data: Fields = {"phase": name, "reason": args["reason"], **_settled_branch(state, name, args)}
    if missing:
        data["missing"] = missing
    return {"type": "phase_skipped", "data": data}


def _settled_branch(state: Workflow, name: str, args: Fields) -> Fields:
    """Return the branch that leaving this phase sets for the workflow, if it is another one."""
    declared, branch = declared_phase(state, name), args.get("facts", {}).get("branch")
    settles = declared is not None and declared.get("sets_branch", False)
    return {"branch": branch} if settles and branch not in (None, state["branch"]) else {}


@evolves("phase_completed")
def _phase_completed(state: Workflow, data: Fields, at: str) -> Workflow:
    fields = {**data.get("fields", {}), "status": "completed", "completed_at": at}
    if "commit" in data:
        fields["commit_sha"] = data["commit"]
    after: Workflow = {**with_phase(state, data["phase"], fields), "step": None}
    if "commit" in data:
        line = f"{data['commit']}: {data['subject']}"
        after["commits"] = [*state["commits"], line]
    if "branch" in data:
        after["branch"] = data["branch"]
    return after


@decides("skip_phase", "phase skip")
def skip_phase(state: Workflow, phase: Phase, args: Fields) -> Decision:
    """Leave the current phase without completing it, for a reason that stays on record."""
    name = phase["name"]
    if name != state["phase"] or phase["status"] not in ("in_progress", "blocked"):
        why = f"phase skip: {name} of {state['id']} is {phase['status'].replace('_', ' ')}"
        where = f"; the current phase is {state['phase']}" if name != state["phase"] else ""
        is_next = phase["status"] == "pending" and not unmet(state, args.get("facts"))
        hint = "holdfast advance" if is_next else f"holdfast show {state['id']}"
        return Refusal("wrong_order", why + where, hint)
    if refusal := bad_text("reason", args["reason"]):
        return refusal
    missing = unmet(state, args.get("facts"))
    drafts = [_skipped(state, name, args, missing)]
    following = next_phases(state, name)
    if following:
        if refusal := _held_back(state, following[0], {}, "phase skip"):
            return refusal
        drafts += _begun(state, following[0], {}, args)
    return drafts


@evolves("phase_skipped")
def _phase_skipped(state: Workflow, data: Fields, _at: str) -> Workflow:
    fields = {"status": "skipped", "completed_at": None, "reason": data["reason"]}
    after: Workflow = {**with_phase(state, data["phase"], fields), "step": None}
    after["status"] = "in_progress"
    if "branch" in data:
        after["branch"] = data["branch"]
    return after


@decides("block_phase", "phase block")
def block_phase(state: Workflow, phase: Phase, args: Fields) -> Decision:
    if phase["name"] != state["phase"] or phase["status"] != "in_progress":
        why = f"phase block: {phase['name']} of {state['id']} is {phase['status']}, not in progress"
        return Refusal("wrong_order", why, f"holdfast show {state['id']}")
    fields = dict(args.get("fields", {}))
    reason = fields.pop("reason", None)
    data: Fields = {"phase": phase["name"]}
    if reason is not None:
        data["reason"] = str(reason)
        if refusal := _bad_fields(fields) or bad_text("reason", data["reason"]):
            return refusal
    return _event_with_fields("phase_blocked", data, fields)


@evolves("phase_blocked")
def _phase_blocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"status": "blocked", "reason": data.get("reason")}
    return {**with_phase(state, data["phase"], changed), "status": "blocked"}


@decides("unblock_phase", "phase unblock")
def unblock_phase(state: Workflow, phase: Phase, args: Fields) -> Decision:
    name, fields = args["phase"], args.get("fields", {})
    if phase["status"] != "blocked":
        why = f"phase unblock: {name} of {state['id']} is {phase['status']}, not blocked"
        return Refusal("not_blocked", why, f"holdfast show {state['id']}")
    return _event_with_fields("phase_unblocked", {"phase": name}, fields)


@evolves("phase_unblocked")
def _phase_unblocked(state: Workflow, data: Fields, _at: str) -> Workflow:
    changed = {"status": "in_progress", "reason": None}
    return {**with_phase(state, data["phase"], changed), "status": "in_progress"}


@decides("approve_phase", "phase approve")
def approve_phase(state: Workflow, phase: Phase, args: Fields) -> Decision:
    name, fields = args["phase"], args.get("fields", {})
    if phase.get("approved"):
        why = f"phase approve: {name} of {state['id']} is approved"
        return Refusal("already", why, "holdfast advance")
    return _event_with_fields("phase_approved", {"phase": name}, fields)


@evolves("phase_approved")
def _phase_approved(state: Workflow, data: Fields, _at: str) -> Workflow:
    return with_phase(state, data["phase"], {"approved": True})


@decides("start_step")
def start_step(state: Workflow, args: Fields) -> Decision:
    name = args["step"]
    if refusal := bad_text("step", name):
        return refusal
    current = find_phase(state, state["phase"])
    if current is None or current["status"] != "in_progress":
        why = f"step: {state['id']} has no phase in progress"
        return Refusal("no_phase", why, "holdfast advance")
    steps = current.get("steps", [])
    if steps and name not in steps:
        why = f"step: {current['name']} has no step {name[:40]!r}; it has {', '.join(steps)}"
        return Refusal("not_found", why, f"holdfast step {shell_word(steps[0])}")
    return [{"type": "step_started", "data": {"step": name, "phase": current["name"]}}]


@evolves("step_started")
def _step_started(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "step": data["step"]}


# The end


def pending(state: Workflow, facts: Fields | None = None) -> Fields:
    """Return what has to be done before the workflow can be completed, by kind.

    Without ``facts``, what the current phase needs of git is left out.
    """
    state = with_stale_gates(state, facts)
    missing = unmet(state, facts)
    open_ids = [task["id"] for task in state["tasks"] if task["status"] != "completed"]
    items: Fields = {
        "tasks": open_ids or missing.get("tasks"),
        "phases": remaining_phases(state),
        "gates": pending_gates(state),
    }
    current = find_phase(state, state["phase"])
    if current is None or not current.get("forced"):
        items["violations"] = blocking(state)
    if current is not None and (current["status"] == "blocked" or "approval" in missing):
        items["phases"] = [current["name"], *items["phases"]]
    items |= {kind: missing.get(kind) for kind in ("branch", "failure", "tests", "commit")}
    items["questions"] = [question["id"] for question in blocking_questions(state)]
    return {kind: names for kind, names in items.items() if names}


@decides("complete_workflow", after_end=True)
def complete(state: Workflow, args: Fields) -> Decision:
    """End the workflow, or one feature of its folder, if nothing is pending or by force."""
    if not is_active(state):
        why = f"complete: {state['id']} has ended already ({state['status']})"
        return Refusal("already", why, f"holdfast show {state['id']}")
    facts = args.get("facts")
    items = pending(state, facts)
    if items and not args.get("force"):
        gates = with_stale_gates(state, facts)["gates"]
        stale = [name for name, gate in gates.items() if gate.get("status") == "stale"]
        why = f" (stale, {why_stale(facts)}: {', '.join(stale)})" if stale else ""
        return Refusal(
            "pending",
            f"complete: {state['id']} still needs {describe_pending(items)}{why}",
            f"holdfast show {state['id']}",
            pending=items,
        )
    words: Fields = {k: args[k] for k in ("outcome", "reason") if args.get(k) is not None}
    if refusal := first_bad_text(**words):
        return refusal
    if args.get("force") and not args.get("reason"):
        hint = "holdfast complete --force --reason TEXT"
        return Refusal("invalid", "complete: force needs a reason", hint)
    drafts: list[Draft] = []
    current = find_phase(state, state["phase"])
    if current is not None and current["status"] == "in_progress" and not items:
        drafts.append(_completion(state, current["name"], {}, args))
    data = {**words, "skipped": items} if items else words
    path = next_feature(state)
    if path is None:
        return [*drafts, {"type": "workflow_completed", "data": data}]
    feature, title = state["context"].get("feature_file"), args.get("next_title") or path
    data = {**data, "feature": feature, "next": path, "title": title}
    drafts.append({"type": "feature_completed", "data": data})
    declared = state["recipe"]["phases"]
    if declared:
        drafts.append({"type": "phase_started", "data": {"phase": declared[0]["name"]}})
    return [*drafts, *added_tasks(state["recipe"], args.get("next_tasks", []))]


def describe_pending(items: Fields) -> str:
    """Return pending items in words: ``tasks 1, 2; phase verify; a new commit``."""
    return "; ".join([_in_words(kind, names) for kind, names in items.items()])


def _in_words(kind: str, names: list[object]) -> str:
    listed = ", ".join(map(str, names))
    if names == [UNTESTED]:
        return "tests that pass on what was committed"
    if kind in _IN_WORDS:
        return _IN_WORDS[kind].format(listed)
    if names == [ANY_TASK]:
        return f"{ANY_TASK} task"
    return f"{kind.removesuffix('s') if len(names) == 1 else kind} {listed}"


@evolves("workflow_completed")
def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    words = {k: data[k] for k in ("outcome", "reason", "skipped") if k in data}
    return {**state, "status": "completed", "completed_at": at, **words}  # type: ignore[typeddict-item]


@decides("abandon_workflow")
def abandon(_state: Workflow, args: Fields) -> Decision:
    reason = args.get("reason")
    if reason is not None and (refusal := bad_text("reason", reason)):
        return refusal
    return [{"type": "workflow_abandoned", "data": {"reason": reason} if reason else {}}]


@evolves("workflow_abandoned")
def _abandoned(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "status": "abandoned", **data}  # type: ignore[typeddict-item]


@decides("archive_loop", after_end=True)
def archive(state: Workflow, args: Fields) -> Decision:
    """Archive a loop's folder; a loop that is active ends. ``record`` is None if it was removed."""
    if args.get("outcome") and (refusal := bad_text("outcome", args["outcome"])):
        return refusal
    open_ids = [str(task["id"]) for task in state["tasks"] if task["status"] != "completed"]
    drafts: list[Draft] = []
    if is_active(state) and (open_ids or not state["tasks"]):
        reason = "archived unplanned"
        if open_ids:
            reason = f"archived unfinished: {', '.join(open_ids)}"[:1_000]
        drafts = [{"type": "workflow_abandoned", "data": {"reason": reason}}]
    elif is_active(state):
        words: Fields = {"outcome": args["outcome"]} if args.get("outcome") else {}
        if waiting := [question["id"] for question in blocking_questions(state)]:
            words["skipped"] = {"questions": waiting}
        drafts = [*move_phase(state, "complete"), {"type": "workflow_completed", "data": words}]
    if args["record"] is None:
        return [*drafts, {"type": "record_cleaned", "data": {}}]
    return [*drafts, {"type": "workflow_archived", "data": {"record": args["record"]}}]


@evolves("workflow_archived")
def _archived(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "record": data["record"], "archived_from": state["record"]}


@decides("expire_workflow", after_end=True)
def expire(state: Workflow, _args: Fields) -> list[Draft]:
    return [{"type": "workflow_expired", "data": {"ttl": state["ttl"]}}] if is_active(state) else []


@evolves("workflow_expired")
def _expired(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return {**state, "status": "expired"}


@decides("clean_record", after_end=True)
def clean_record(state: Workflow, _args: Fields) -> list[Draft]:
    """Record that the record of an ended workflow was removed."""
    return [] if is_active(state) else [{"type": "record_cleaned", "data": {}}]


@evolves("record_cleaned")
def _cleaned(state: Workflow, _data: Fields, at: str) -> Workflow:
    return {**state, "cleaned_at": at}


def next_feature(state: Workflow) -> str | None:
    """Return the feature after the current one; ``None`` after the last."""
    context = state["context"]
    if not _is_in_folder(state):
        return None
    done = [*_context_paths(context, "folder_done"), context.get("feature_file")]
    return next(
        (path for path in _context_paths(context, "folder_features") if path not in done), None
    )


def _is_in_folder(state: Workflow) -> bool:
    """Return whether the workflow goes through a folder of features, as its recipe allows."""
    allows = "folder_mode" in state["recipe"].get("context", {})
    return allows and state["context"].get("folder_mode") is True


def feature_position(state: Workflow) -> tuple[int, int]:
    """Return the current feature's number, and how many there are; 0, 0 without a folder."""
    if not _is_in_folder(state):
        return 0, 0
    total = len(_context_paths(state["context"], "folder_features"))
    return min(len(_context_paths(state["context"], "folder_done")) + 1, total), total


def open_features(state: Workflow) -> list[str]:
    """Return the feature files that the workflow works on, the current one first."""
    if not _is_in_folder(state):
        return [state["subject"]]
    context = state["context"]
    done = _context_paths(context, "folder_done")
    paths = [context.get("feature_file"), *_context_paths(context, "folder_features")]
    return [path for path in dict.fromkeys(paths) if isinstance(path, str) and path not in done]


def other_context(state: Workflow) -> Fields:
    """Return the context without what names and the folder position already show."""
    names = (state["subject"], state["title"])
    in_folder = _is_in_folder(state)
    return {
        key: value
        for key, value in state["context"].items()
        if key not in OF_FOLDER and not (key in _OF_FEATURE and (in_folder or value in names))
    }


def _context_paths(context: Fields, key: str) -> list[str]:
    paths = context.get(key)
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def short_names(items: Fields) -> list[str]:
    """Return pending items by name: gates as they are called, others with their kind."""
    plain = ("gates", "violations")
    short: list[str] = []
    for kind, names in items.items():
        if kind in _IN_WORDS:
            short.append(_in_words(kind, names))
        else:
            mark = "" if kind in plain else f"{kind.removesuffix('s')} "
            short += [f"{mark}{name}" for name in names]
    return short


def overruled(state: Workflow, skipped: Fields) -> str:
    """Return what was not shown to be done, in brackets; empty if everything was.

    ``skipped`` is what was pending when it was completed by force.
    """
    lists = overruled_by_kind(state, skipped)
    parts = [f"{how}: {', '.join(names)}" for how, names in lists.items()]
    return f" ({'; '.join(parts)})" if parts else ""


def overruled_by_kind(state: Workflow, skipped: Fields) -> dict[str, list[str]]:
    """Return what was not shown to be done, by kind: ``forced``, ``skipped``, ``waived``, ..."""
    phases = state["phases"]
    lists = {
        "forced": short_names(skipped),
        "skipped": [phase["name"] for phase in phases if _is_passed_over(state, phase)],
        "claimed": [phase["name"] for phase in phases if phase.get("claimed")],
        "untested": [f"task {task['id']}" for task in state["tasks"] if is_untested(state, task)],
        "removed": [f"task {name}" for name in state.get("removed_tasks", ())],
        "waived": waived_gates(state),
        "replaced": [
            f"{name} ran {gate.get('command')}, not {gate['instead_of']}"
            for name, gate in state["gates"].items()
            if gate.get("instead_of")
        ],
    }
    if "differs" in state["recipe"]:
        lists["recipe"] = [state["recipe"]["differs"]]
    return {how: names for how, names in lists.items() if names}


def _is_passed_over(state: Workflow, phase: Phase) -> bool:
    """Return whether a phase was skipped, or an edit went past it although it has needs."""
    if phase["status"] in ("skipped", "completed") or phase["name"] == state["phase"]:
        return phase["status"] == "skipped"
    is_before = state["phase"] is not None and _comes_before(state, phase["name"], state["phase"])
    if not is_before or not needs_of(state, phase["name"]):
        return False
    # Where a recipe leaves a choice, one of the phases is enough.
    choices = [declared.get("next", []) for declared in state["recipe"]["phases"]]
    others = [name for names in choices if phase["name"] in names for name in names]
    return all(other["status"] == "pending" for other in state["phases"] if other["name"] in others)


def completion_signal(state: Workflow, skipped: Fields | None = None) -> str:
    """Return the line that scripts wait for: ``DEV_COMPLETE: event infrastructure``.

    It ends with what was not done as the recipe asks, if anything was. ``skipped`` is what was
    pending when it was forced; by default, what a completed workflow has kept of that.
    """
    if skipped is None:
        skipped = state.get("skipped", {})
    context, subject = state["context"], state["subject"]
    path = (
        context.get("feature_file")
        if next_feature(state) or feature_position(state)[1]
        else subject
    )
    stem = str(path).rstrip("/").rpartition("/")[2].removesuffix(".md")
    name = state["title"] if state["title"] and state["title"] != subject else stem or subject
    word = state["recipe"]["name"].upper().replace("-", "_")
    return f"{word}_COMPLETE: {' '.join(name.split())}{overruled(state, skipped)}"


@evolves("feature_completed")
def _feature_completed(state: Workflow, data: Fields, _at: str) -> Workflow:
    fresh = blank(state["id"], state["recipe"], state["created_at"])
    context = {
        **state["context"],
        "feature_file": data["next"],
        "folder_done": [*_context_paths(state["context"], "folder_done"), data["feature"]],
    }
    begun = {name: fresh[name] for name in _PER_FEATURE}  # type: ignore[literal-required]
    after: Workflow = {**state, **begun, "title": data["title"], "context": context}  # type: ignore[typeddict-item]
    after["current_task"] = None
    for name in _PASSING:
        after.pop(name, None)  # type: ignore[misc]
    return after
