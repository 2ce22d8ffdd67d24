"""Opening, resuming and ending a workflow, and adopting its record and edits of it.

In folder mode, a workflow works through the features of a folder, one after the other. ``context``
has the position, as scripts read it: ``folder_mode``, ``folder_path``, ``folder_features`` (every
file, in order), ``folder_done`` and ``feature_file``, the current one.
"""

from __future__ import annotations

from holdfast.core import diff
from holdfast.core.refusal import Refusal, bad_reading, bad_text, bad_values, first_bad_text
from holdfast.core.time import duration_s
from holdfast.core.workflow.evidence import with_claims, with_stale_gates
from holdfast.core.workflow.state import (
    awaits_approval,
    blank,
    blocking,
    decides,
    evolves,
    find_phase,
    is_active,
    opens,
    pending_gates,
    remaining_phases,
    unit_mark,
)
from holdfast.core.workflow.tasks import move_phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Draft, Fields, Recipe, Workflow
    from holdfast.core.workflow.state import Decision

_STARTED_WITH = (
    "subject", "title", "branch", "base", "worktree", "record", "ttl", "session", "initiative",
)  # fmt: skip
_PER_FEATURE = ("phase", "step", "cycle", "phases", "tasks", "gates", "tests", "files")
_OF_FOLDER = ("folder_mode", "folder_path", "folder_features", "folder_done")
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
        task=args.get("tasks", []),
        phase=[phase["name"] for phase in recipe["phases"]],
        reminder=args.get("reminders", []),
        reading=reading,
        branch=[] if args.get("branch") is None else args["branch"],
    ) or bad_values(args.get("context", {}))
    if refusal := refusal or next(filter(None, map(bad_reading, reading)), None):
        return refusal
    data = {name: value for name, value in args.items() if name != "tasks"}
    drafts: list[Draft] = [{"type": "workflow_started", "data": {**data, "ttl": ttl}}]
    if recipe["phases"]:
        drafts.append({"type": "phase_started", "data": {"phase": recipe["phases"][0]["name"]}})
    mark = unit_mark(recipe)
    for number, text in enumerate(args.get("tasks", []), 1):
        task = f"{mark}{number}" if mark else number
        drafts.append({"type": "task_added", "data": {"task": task, "description": text}})
    return drafts


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
    return [{"type": "workflow_resumed", "data": data}] if data else []


@evolves("workflow_resumed")
def _resumed(state: Workflow, data: Fields, _at: str) -> Workflow:
    moved = {k: data[k] for k in ("worktree", "branch", "record", "session") if k in data}
    after: Workflow = {**state, **moved}  # type: ignore[typeddict-item]
    if "from" in data:
        current = find_phase(state, state["phase"])
        blocked = current is not None and current["status"] == "blocked"
        after["status"] = "blocked" if blocked else "in_progress"
        for name in ("completed_at", "outcome", "reason", "cleaned_at", "archived_from"):
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


def pending(state: Workflow) -> Fields:
    """Return what has to be done before the workflow can be completed, by kind."""
    items: Fields = {
        "tasks": [t["id"] for t in state["tasks"] if t["status"] != "completed"],
        "phases": remaining_phases(state),
        "gates": pending_gates(state),
    }
    current = find_phase(state, state["phase"])
    if current is None or not current.get("forced"):
        items["violations"] = blocking(state)
    if current is not None and (
        current["status"] == "blocked"
        or (current["status"] == "in_progress" and awaits_approval(state, current))
    ):
        items["phases"] = [current["name"], *items["phases"]]
    return {kind: names for kind, names in items.items() if names}


@decides("complete_workflow", after_end=True)
def complete(state: Workflow, args: Fields) -> Decision:
    """End the workflow, or one feature of its folder, if nothing is pending or by force."""
    if not is_active(state):
        return Refusal(
            "already",
            f"complete: {state['id']} has ended already ({state['status']})",
            f"holdfast show {state['id']}",
        )
    seen = with_stale_gates(state, args.get("tree"))
    items = pending(seen)
    if items and not args.get("force"):
        stale = [name for name, gate in seen["gates"].items() if gate.get("status") == "stale"]
        why = f" (stale, files changed since: {', '.join(stale)})" if stale else ""
        return Refusal(
            "pending",
            f"complete: {state['id']} still has pending {listed(items)}{why}",
            "finish them, or: holdfast complete --force --reason TEXT",
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
    if current is not None and current["status"] == "in_progress" and not items.get("phases"):
        drafts.append({"type": "phase_completed", "data": {"phase": current["name"]}})
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
    return drafts


def listed(items: Fields) -> str:
    """Return pending items in words: ``tasks 1, 2; phases verify``."""
    return "; ".join(f"{kind} {', '.join(map(str, names))}" for kind, names in items.items())


@evolves("workflow_completed")
def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    words = {k: data[k] for k in ("outcome", "reason") if k in data}
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
def archive(state: Workflow, args: Fields) -> list[Draft]:
    """Archive a loop's folder; a loop that is active ends."""
    open_ids = [str(task["id"]) for task in state["tasks"] if task["status"] != "completed"]
    drafts: list[Draft] = []
    if is_active(state) and (open_ids or not state["tasks"]):
        reason = "archived unplanned"
        if open_ids:
            reason = f"archived unfinished: {', '.join(open_ids)}"[:1_000]
        drafts = [{"type": "workflow_abandoned", "data": {"reason": reason}}]
    elif is_active(state):
        drafts = [*move_phase(state, "complete"), {"type": "workflow_completed", "data": {}}]
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


@decides("adopt_edit", after_end=True)
def adopt_edit(state: Workflow, args: Fields) -> list[Draft]:
    """Adopt an edit of the record; evidence that it brings becomes a claim."""
    edited: Workflow = diff.apply(state, args["changes"])  # type: ignore[arg-type, assignment]
    claims = diff.diff(edited, with_claims(state, edited))  # type: ignore[arg-type]
    data = {**args, "changes": [*args["changes"], *claims]}
    return [{"type": "record_edited", "data": data}]


@evolves("record_edited")
def _edited(state: Workflow, data: Fields, _at: str) -> Workflow:
    return diff.apply(state, data["changes"])  # type: ignore[arg-type, return-value]


@opens("adopt_record")
def adopt_record(_state: Workflow | None, args: Fields) -> list[Draft]:
    return [{"type": "record_adopted", "data": {**args, "state": with_claims(None, args["state"])}}]


def next_feature(state: Workflow) -> str | None:
    """Return the feature after the current one; ``None`` after the last."""
    context = state["context"]
    if context.get("folder_mode") is not True:
        return None
    done = [*_context_paths(context, "folder_done"), context.get("feature_file")]
    return next(
        (path for path in _context_paths(context, "folder_features") if path not in done), None
    )


def feature_position(state: Workflow) -> tuple[int, int]:
    """Return the current feature's number, and how many there are; 0, 0 without a folder."""
    if state["context"].get("folder_mode") is not True:
        return 0, 0
    total = len(_context_paths(state["context"], "folder_features"))
    return min(len(_context_paths(state["context"], "folder_done")) + 1, total), total


def other_context(state: Workflow) -> Fields:
    """Return the context without what names and the folder position already show."""
    names = (state["subject"], state["title"])
    in_folder = state["context"].get("folder_mode") is True
    return {
        key: value
        for key, value in state["context"].items()
        if key not in _OF_FOLDER and not (key in _OF_FEATURE and (in_folder or value in names))
    }


def _context_paths(context: Fields, key: str) -> list[str]:
    paths = context.get(key)
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def completion_signal(state: Workflow) -> str:
    """Return the line that scripts wait for: ``DEV_COMPLETE: event infrastructure``."""
    context, subject = state["context"], state["subject"]
    path = (
        context.get("feature_file")
        if next_feature(state) or feature_position(state)[1]
        else subject
    )
    stem = str(path).rstrip("/").rpartition("/")[2].removesuffix(".md")
    name = state["title"] if state["title"] and state["title"] != subject else stem or subject
    word = state["recipe"]["name"].upper().replace("-", "_")
    return f"{word}_COMPLETE: {' '.join(name.split())}"


@evolves("feature_completed")
def _feature_completed(state: Workflow, data: Fields, _at: str) -> Workflow:
    fresh = blank(state["id"], state["recipe"], state["created_at"])
    context = {
        **state["context"],
        "feature_file": data["next"],
        "folder_done": [*_context_paths(state["context"], "folder_done"), data["feature"]],
    }
    begun = {name: fresh[name] for name in _PER_FEATURE}  # type: ignore[literal-required]
    return {**state, **begun, "title": data["title"], "context": context, "current_task": None}  # type: ignore[typeddict-item]
