"""Opening, resuming and ending a workflow, and adopting its record and edits of it.

In folder mode, a workflow works through the features of a folder, one after the other. ``context``
has the position, as scripts read it: ``folder_mode``, ``folder_path``, ``folder_features`` (every
file, in order), ``folder_done`` and ``feature_file``, the current one.
"""

from __future__ import annotations

from holdfast.core import diff
from holdfast.core.refusal import Refusal, bad_reading, bad_values, first_bad_text
from holdfast.core.time import duration_s
from holdfast.core.workflow.evidence import with_claims, with_stale_gates
from holdfast.core.workflow.state import (
    awaits_approval,
    blank,
    blocking,
    find_phase,
    is_active,
    pending_gates,
    remaining_phases,
    unit_mark,
)
from holdfast.core.workflow.tasks import move_phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Command, Draft, Event, Fields, Recipe, Session, Workflow

ALWAYS = (
    "resume_workflow",
    "adopt_edit",
    "complete_workflow",
    "expire_workflow",
    "clean_record",
    "archive_loop",
    "note_rebuild",
)
"""Commands that are allowed, or refused on their own terms, in any status."""


def start(state: Workflow | None, command: Command) -> list[Draft] | Refusal:
    """Open a workflow. An ended one with the same id is replaced."""
    args = command["args"]
    recipe: Recipe = args["recipe"]
    if state is not None and is_active(state):
        return Refusal(
            "exists",
            f"{state['id']} is active already",
            f"holdfast resume {state['id']}",
        )
    ttl = args.get("ttl", recipe.get("ttl"))
    if ttl is not None and not duration_s(ttl):
        hint = "write it like 30s, 90m, 24h or 7d"
        return Refusal("invalid", f"{str(ttl)[:40]!r} is not a duration", hint)
    wrong = first_bad_text(
        subject=args["subject"],
        title=args["title"],
        task=args.get("tasks", []),
        phase=[phase["name"] for phase in recipe["phases"]],
        reminder=args.get("reminders", []),
        reading=args.get("required_reading", []),
        branch=[] if args.get("branch") is None else args["branch"],
    )
    if wrong is not None:
        return wrong
    wrong = bad_values(args.get("context", {}))
    if wrong is not None:
        return wrong
    unnamed = [wrong for path in args.get("required_reading", []) if (wrong := bad_reading(path))]
    if unnamed:
        return unnamed[0]
    data = {name: value for name, value in args.items() if name != "tasks"}
    drafts: list[Draft] = [{"type": "workflow_started", "data": {**data, "ttl": ttl}}]
    if recipe["phases"]:
        drafts.append({"type": "phase_started", "data": {"phase": recipe["phases"][0]["name"]}})
    mark = unit_mark(recipe)
    for number, text in enumerate(args.get("tasks", []), 1):
        task = f"{mark}{number}" if mark else number
        drafts.append({"type": "task_added", "data": {"task": task, "description": text}})
    return drafts


def opened(event: Event) -> Workflow:
    """Return the first state of an opening event."""
    data = event["data"]
    if event["type"] == "record_adopted":
        adopted: Workflow = data["state"]
        return {**adopted, "updated_at": event["at"]}
    return blank(event["stream"], data["recipe"], event["at"])


def _started(state: Workflow, data: Fields, _at: str) -> Workflow:
    names = (
        *("subject", "title", "branch", "base", "worktree", "record", "ttl", "session"),
        "initiative",
    )
    after: Workflow = {**state, **{name: data[name] for name in names if name in data}}  # type: ignore[typeddict-item]
    after["required_reading"] = list(data.get("required_reading", []))
    after["reminders"] = list(data.get("reminders", []))
    after["context"] = {**state["context"], **data.get("context", {})}
    return after


def ended(state: Workflow, command: Command) -> Refusal:
    """Return the refusal of a command for an ended workflow."""
    how = {"expired": "has expired", "abandoned": "was abandoned"}
    return Refusal(
        "ended",
        f"{command['type'].replace('_', ' ')}: {state['id']} "
        f"{how.get(state['status'], 'is completed')}",
        f"holdfast resume {state['id']}",
    )


def resume(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """Bind the session, and reopen a workflow that ended."""
    args = command["args"]
    data: Fields = {}
    if not is_active(state):
        data["from"] = state["status"]
    for name in ("worktree", "branch", "record"):
        if name in args and args[name] != state[name]:
            data[name] = args[name]
    if "worktree" in data:
        data.setdefault("record", state["record"])
    session = args.get("session")
    if session is not None and (args.get("rebind") or not _holds(session, state["session"])):
        data["session"] = session
    if not data:
        return []
    return [{"type": "workflow_resumed", "data": data}]


def _holds(session: Session, held: Session | None) -> bool:
    return held is not None and all(
        held.get(key) == session.get(key) for key in ("id", "pid", "born")
    )


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


def complete(state: Workflow, command: Command) -> list[Draft] | Refusal:
    """End the workflow, or one feature of its folder, if nothing is pending or by force."""
    args = command["args"]
    if not is_active(state):
        return Refusal(
            "already",
            f"complete: {state['id']} has ended already ({state['status']})",
            f"holdfast show {state['id']}",
        )
    seen = with_stale_gates(state, args.get("tree"))
    items = pending(seen)
    if items and not args.get("force"):
        return Refusal(
            "pending",
            f"complete: {state['id']} still has pending {listed(items)}{_why_stale(seen)}",
            "finish them, or: holdfast complete --force --reason TEXT",
            pending=items,
        )
    wrong = _bad_words(args)
    if wrong is not None:
        return wrong
    if args.get("force") and not args.get("reason"):
        return Refusal(
            "invalid",
            "complete: force needs a reason",
            "holdfast complete --force --reason TEXT",
        )
    drafts: list[Draft] = []
    current = find_phase(state, state["phase"])
    if current is not None and current["status"] == "in_progress" and not items.get("phases"):
        drafts.append({"type": "phase_completed", "data": {"phase": current["name"]}})
    data: Fields = {k: args[k] for k in ("outcome", "reason") if args.get(k) is not None}
    if items:
        data["skipped"] = items
    path = next_feature(state)
    if path is not None:
        return [*drafts, *go_on(state, path, args.get("next_title") or path, data)]
    return [*drafts, {"type": "workflow_completed", "data": data}]


def listed(items: Fields) -> str:
    """Return pending items in words: ``tasks 1, 2; phases verify``."""
    return "; ".join(f"{kind} {', '.join(map(str, names))}" for kind, names in items.items())


def _why_stale(seen: Workflow) -> str:
    stale = [name for name, gate in seen["gates"].items() if gate.get("status") == "stale"]
    return f" (stale, files changed since: {', '.join(stale)})" if stale else ""


def _completed(state: Workflow, data: Fields, at: str) -> Workflow:
    words = {k: data[k] for k in ("outcome", "reason") if k in data}
    return {**state, "status": "completed", "completed_at": at, **words}  # type: ignore[typeddict-item]


def _bad_words(args: Fields) -> Refusal | None:
    words = {name: args[name] for name in ("outcome", "reason") if args.get(name) is not None}
    return first_bad_text(**words)


def abandon(_state: Workflow, command: Command) -> list[Draft] | Refusal:
    wrong = _bad_words(command["args"])
    if wrong is not None:
        return wrong
    reason = command["args"].get("reason")
    return [{"type": "workflow_abandoned", "data": {"reason": reason} if reason else {}}]


def _abandoned(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "status": "abandoned", **data}  # type: ignore[typeddict-item]


def archive(state: Workflow, command: Command) -> list[Draft]:
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
    return [
        *drafts,
        {"type": "workflow_archived", "data": {"record": command["args"]["record"]}},
    ]


def _archived(state: Workflow, data: Fields, _at: str) -> Workflow:
    return {**state, "record": data["record"], "archived_from": state["record"]}


def note_rebuild(_state: Workflow, command: Command) -> list[Draft]:
    """Record that a loop was rebuilt from its pages, and what did not agree."""
    return [{"type": "loop_rebuilt", "data": {"found": list(command["args"]["found"])}}]


def _rebuilt(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return state


def expire(state: Workflow, _command: Command) -> list[Draft]:
    return [{"type": "workflow_expired", "data": {"ttl": state["ttl"]}}] if is_active(state) else []


def _expired(state: Workflow, _data: Fields, _at: str) -> Workflow:
    return {**state, "status": "expired"}


def clean_record(state: Workflow, _command: Command) -> list[Draft]:
    """Record that the record of an ended workflow was removed."""
    return [] if is_active(state) else [{"type": "record_cleaned", "data": {}}]


def _cleaned(state: Workflow, _data: Fields, at: str) -> Workflow:
    return {**state, "cleaned_at": at}


def adopt_edit(state: Workflow, command: Command) -> list[Draft]:
    """Adopt an edit of the record; evidence that it brings becomes a claim."""
    args = command["args"]
    edited: Workflow = diff.apply(state, args["changes"])  # type: ignore[arg-type, assignment]
    claims = diff.diff(edited, with_claims(state, edited))  # type: ignore[arg-type]
    data = {**args, "changes": [*args["changes"], *claims]}
    return [{"type": "record_edited", "data": data}]


def _edited(state: Workflow, data: Fields, _at: str) -> Workflow:
    return diff.apply(state, data["changes"])  # type: ignore[arg-type, return-value]


def adopt_record(_state: Workflow | None, command: Command) -> list[Draft]:
    args = command["args"]
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
    listed = _context_paths(state["context"], "folder_features")
    return min(len(_context_paths(state["context"], "folder_done")) + 1, len(listed)), len(listed)


def other_context(state: Workflow) -> Fields:
    """Return the context without what names and the folder position already show."""
    names = (state["subject"], state["title"])
    in_folder = state["context"].get("folder_mode") is True
    return {
        key: value
        for key, value in state["context"].items()
        if key not in _OF_FOLDER and not (key in _OF_FEATURE and (in_folder or value in names))
    }


_OF_FOLDER = ("folder_mode", "folder_path", "folder_features", "folder_done")
_OF_FEATURE = ("feature_file", "feature_title")


def _context_paths(context: Fields, key: str) -> list[str]:
    paths = context.get(key)
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def go_on(state: Workflow, path: str, title: str, data: Fields) -> list[Draft]:
    """Complete the current feature and begin the next."""
    data = {**data, "feature": state["context"].get("feature_file"), "next": path, "title": title}
    drafts: list[Draft] = [{"type": "feature_completed", "data": data}]
    declared = state["recipe"]["phases"]
    if declared:
        drafts.append({"type": "phase_started", "data": {"phase": declared[0]["name"]}})
    return drafts


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


def _feature_completed(state: Workflow, data: Fields, _at: str) -> Workflow:
    fresh = blank(state["id"], state["recipe"], state["created_at"])
    context = {
        **state["context"],
        "feature_file": data["next"],
        "folder_done": [*_context_paths(state["context"], "folder_done"), data["feature"]],
    }
    begun = {name: fresh[name] for name in _PER_FEATURE}  # type: ignore[literal-required]
    return {**state, **begun, "title": data["title"], "context": context, "current_task": None}  # type: ignore[typeddict-item]


_PER_FEATURE = ("phase", "step", "cycle", "phases", "tasks", "gates", "tests", "files")


DECIDE = {
    "resume_workflow": resume,
    "complete_workflow": complete,
    "abandon_workflow": abandon,
    "expire_workflow": expire,
    "clean_record": clean_record,
    "adopt_edit": adopt_edit,
    "archive_loop": archive,
    "note_rebuild": note_rebuild,
}
OPEN = {"start_workflow": start, "adopt_record": adopt_record}
EVOLVE = {
    "workflow_started": _started,
    "workflow_resumed": _resumed,
    "workflow_completed": _completed,
    "workflow_abandoned": _abandoned,
    "workflow_expired": _expired,
    "record_cleaned": _cleaned,
    "record_edited": _edited,
    "workflow_archived": _archived,
    "loop_rebuilt": _rebuilt,
    "feature_completed": _feature_completed,
}
