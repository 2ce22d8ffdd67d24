"""An initiative: a goal that lasts for months, and its milestones in order.

Pure. The status only moves forward, except from blocked back to in progress.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal, first_bad_text, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import (
        Command,
        Draft,
        Event,
        Fields,
        Initiative,
        Milestone,
        MilestoneTask,
    )

    Answer = list[Draft] | Refusal

STATUSES = {"created": 0, "in_progress": 1, "blocked": 1, "completed": 2, "archived": 3}
"""The order of the statuses: an edit by hand may skip one, never go back."""
STEPS = {
    "block_initiative": ("in_progress", "blocked"),
    "unblock_initiative": ("blocked", "in_progress"),
    "finish_initiative": ("in_progress", "completed"),
    "archive_initiative": ("completed", "archived"),
}
MAX_NAME_CHARACTERS = 200
CREATE = 'holdfast initiative create NAME --milestone "M1: TITLE"'


def decide(state: Initiative | None, command: Command) -> list[Draft] | Refusal:
    """Return the events of a command, or a refusal."""
    if command["type"] == "create_initiative":
        return create(state, command)
    if state is None:
        tried = command["type"].replace("_", " ")
        return Refusal("not_found", f"{tried}: there is no initiative", CREATE)
    return DECIDE[command["type"]](state, command)


def evolve(state: Initiative | None, event: Event) -> Initiative:
    """Return the initiative after an event; raise ``ValueError`` if it cannot be the first."""
    data, at = event["data"], event["at"]
    if event["type"] == "initiative_created":
        return _created(data, at)
    if state is None:
        raise ValueError(f"{event['type']} cannot be the first event of an initiative")
    return {**EVOLVE[event["type"]](state, data, at), "updated_at": at}


def find_milestone(state: Initiative, milestone_id: str | None) -> Milestone | None:
    return next((m for m in state["milestones"] if m["id"] == milestone_id), None)


def next_command(state: Initiative) -> str:
    """Return the command that continues the initiative."""
    current = find_milestone(state, state["current_milestone"])
    if state["status"] == "blocked":
        return "holdfast initiative unblock"
    if state["status"] in ("completed", "archived"):
        return CREATE
    if current is None or current["status"] == "completed":
        return "holdfast initiative finish"
    verb = "complete" if current["status"] == "in_progress" else "start"
    return f"holdfast initiative {verb} {word(current['id'])}"


def create(state: Initiative | None, command: Command) -> Answer:
    name, milestones = command["args"]["name"], command["args"]["milestones"]
    ids = [milestone["id"] for milestone in milestones]
    bad = first_bad_text(name=name, title=[m["title"] for m in milestones if m["title"]])
    why = bad.message if bad else None
    if state is not None:
        why = f"{state['name']} exists already and is {state['status']}"
    elif not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        why = f"a name is one line of at most {MAX_NAME_CHARACTERS} printable characters"
    elif not ids or not all(own.isprintable() and own.split() == [own] for own in ids):
        why = f"{name} needs milestones, and each of them an id that is one word"
    elif len(set(alike := [own.casefold() for own in ids])) < len(ids):
        twice = ids[alike.index(max(alike, key=alike.count))]
        why = f"{name} has milestone {twice} twice"
    elif (behind := out_of_order(ids)) is not None:
        why = f"milestone {behind[1]} stands behind {behind[0]}: give them in their order"
    if why:
        is_open = state is not None and state["status"] not in ("completed", "archived")
        hint = f"holdfast initiative use {word(state['name'])}" if state and is_open else CREATE
        return Refusal("already" if state else "invalid", f"initiative create: {why}", hint)
    data: Fields = {
        "name": name,
        "milestones": [{"id": m["id"], "title": m["title"]} for m in milestones],
    }
    if command["args"].get("files"):
        data["files"] = True
    return [{"type": "initiative_created", "data": data}]


def out_of_order(ids: list[str]) -> tuple[str, str] | None:
    """Return the first two neighbours whose numbers are in the wrong order."""
    numbered = [name for name in ids if name[:1] in "Mm" and name[1:].isdecimal()]
    for position, following in enumerate(numbered[1:]):
        if int(following[1:]) < int(numbered[position][1:]):
            return numbered[position], following
    return None


def _created(data: Fields, at: str) -> Initiative:
    milestones: list[Milestone] = [
        {"id": planned["id"], "title": planned["title"], "status": "pending", "tasks": []}
        for planned in data["milestones"]
    ]
    created: Initiative = {
        "name": data["name"],
        "status": "created",
        "created_at": at,
        "updated_at": at,
        "current_milestone": milestones[0]["id"],
        "milestones": milestones,
        "extra": {},
    }
    return {**created, "files": True} if data.get("files") else created


def _refused(state: Initiative, code: str, message: str) -> Refusal:
    return Refusal(code, f"initiative {message}", next_command(state))


def _open_milestone(state: Initiative, command: Command, verb: str) -> Milestone | Refusal:
    """Return the milestone that a command names, or a refusal if it cannot be worked on."""
    milestone_id = command["args"]["milestone"]
    milestone = find_milestone(state, milestone_id)
    if state["status"] in ("completed", "archived"):
        return _refused(state, "ended", f"{verb}: {state['name']} is {state['status']} for good")
    if milestone is None:
        known = ", ".join(milestone["id"] for milestone in state["milestones"]) or "none"
        why = f"{state['name']} has no milestone {milestone_id!r}; it has {known}"
        return _refused(state, "not_found", f"{verb}: {why}")
    if milestone["status"] == "completed":
        return _refused(state, "already", f"{verb}: {milestone_id} is completed already")
    if state["status"] == "blocked" and verb != "task":
        return _refused(state, "blocked", f"{verb}: {state['name']} is blocked")
    return milestone


def start(state: Initiative, command: Command) -> Answer:
    milestone = _open_milestone(state, command, "start")
    if isinstance(milestone, Refusal):
        return milestone
    going = milestone["status"] == "in_progress" and "started_at" in milestone
    if going and milestone["id"] == state["current_milestone"]:
        return _refused(state, "already", f"start: {milestone['id']} is in progress already")
    return [{"type": "milestone_started", "data": {"milestone": milestone["id"]}}]


def _started(state: Initiative, data: Fields, at: str) -> Initiative:
    def begin(milestone: Milestone) -> Milestone:
        since = milestone.get("started_at", at)
        return {**milestone, "status": "in_progress", "started_at": since}

    current = data["milestone"]
    moved: Initiative = {**state, "status": "in_progress", "current_milestone": current}
    return _with(moved, current, begin)


def record_task(state: Initiative, command: Command) -> Answer:
    milestone = _open_milestone(state, command, "task")
    if isinstance(milestone, Refusal):
        return milestone
    text, done = command["args"]["text"], command["args"].get("done", False)
    bad = first_bad_text(task=text)
    if bad:
        return _refused(state, bad.code, f"task {milestone['id']}: {bad.message}")
    if any(task["text"] == text and (task["done"] or not done) for task in milestone["tasks"]):
        return _refused(state, "already", f"task {milestone['id']}: {text!r} is there already")
    data = {"milestone": milestone["id"], "text": text, "done": done}
    return [{"type": "milestone_task_recorded", "data": data}]


def _task_recorded(state: Initiative, data: Fields, _at: str) -> Initiative:
    recorded: MilestoneTask = {"text": data["text"], "done": data["done"]}

    def record(milestone: Milestone) -> Milestone:
        known = [task["text"] for task in milestone["tasks"]]
        position = known.index(data["text"]) if data["text"] in known else len(known)
        before, after = milestone["tasks"][:position], milestone["tasks"][position + 1 :]
        return {**milestone, "tasks": [*before, recorded, *after]}

    return _with(state, data["milestone"], record)


def complete(state: Initiative, command: Command) -> Answer:
    milestone = _open_milestone(state, command, "complete")
    if isinstance(milestone, Refusal):
        return milestone
    if state["status"] == "created":
        return _refused(state, "wrong_order", f"complete: {state['name']} is not started")
    data = {"milestone": milestone["id"], "next": _following(state, milestone["id"])}
    return [{"type": "milestone_completed", "data": data}]


def _following(state: Initiative, completed_id: str) -> str | None:
    """Return the next milestone: the current one while it is open, else the next in order."""
    behind = [milestone["id"] for milestone in state["milestones"]].index(completed_id)
    ahead = [*state["milestones"][behind + 1 :], *state["milestones"][:behind]]
    open_ids = [milestone["id"] for milestone in ahead if milestone["status"] != "completed"]
    if state["current_milestone"] in open_ids:
        return state["current_milestone"]
    return open_ids[0] if open_ids else None


def _completed(state: Initiative, data: Fields, at: str) -> Initiative:
    def end(milestone: Milestone) -> Milestone:
        return {**milestone, "status": "completed", "completed_at": at}

    def begin(milestone: Milestone) -> Milestone:
        pending = milestone["status"] == "pending"
        return {**milestone, "status": "in_progress"} if pending else milestone

    moved: Initiative = {**state, "current_milestone": data["next"] or data["milestone"]}
    return _with(_with(moved, data["milestone"], end), data["next"], begin)


def _with(
    state: Initiative, milestone_id: str | None, change: Callable[[Milestone], Milestone]
) -> Initiative:
    milestones = [change(m) if m["id"] == milestone_id else m for m in state["milestones"]]
    return {**state, "milestones": milestones}


def change_status(state: Initiative, command: Command) -> Answer:
    """Block, unblock, finish or archive an initiative."""
    verb, args = command["type"].removesuffix("_initiative"), command["args"]
    needed, status = STEPS[command["type"]]
    data: Fields = {"status": status}
    if state["status"] != needed:
        why = f"{state['name']} is {state['status']}, not {needed}"
        return _refused(state, "wrong_order", f"{verb}: {why}")
    if verb == "block" or args.get("force"):
        bad = first_bad_text(reason=args.get("reason") or "")
        if bad:
            return _refused(state, bad.code, f"{verb}: {bad.message}")
        data["reason"] = args["reason"]
    pending = [m["id"] for m in state["milestones"] if m["status"] != "completed"]
    if verb == "finish" and pending:
        if not args.get("force"):
            why = f"{state['name']} still has pending {', '.join(pending)}"
            return _refused(state, "pending", f"{verb}: {why} (--force --reason TEXT skips them)")
        data["skipped"] = pending
    return [{"type": "initiative_status_changed", "data": data}]


def _status_changed(state: Initiative, data: Fields, at: str) -> Initiative:
    after: Initiative = {**state, "status": data["status"]}
    after.pop("reason", None)
    if data["status"] == "blocked":
        after["reason"] = data["reason"]
    elif data["status"] == "completed":
        after["completed_at"] = at
    elif data["status"] == "archived":
        after["archived_at"] = at
    return after


def merge_milestones(before: Initiative, after: Initiative) -> list[Milestone]:
    """Return all milestones in their order; those that ``after`` omits are kept."""
    changed = {milestone["id"]: milestone for milestone in after["milestones"]}
    known = [changed.pop(milestone["id"], milestone) for milestone in before["milestones"]]
    return [*known, *changed.values()]


def refuse_going_back(state: Initiative | None, status: str) -> Refusal | None:
    """Return a refusal if a status lies behind the one that was reached."""
    if state is None or STATUSES[status] >= STATUSES[state["status"]]:
        return None
    why = f"{state['name']} is {state['status']} and cannot be {status} again"
    return _refused(state, "wrong_order", f"record: {why}")


DECIDE: dict[str, Callable[[Initiative, Command], Answer]] = {
    "start_milestone": start,
    "record_milestone_task": record_task,
    "complete_milestone": complete,
    **dict.fromkeys(STEPS, change_status),
}
EVOLVE: dict[str, Callable[[Initiative, Fields, str], Initiative]] = {
    "milestone_started": _started,
    "milestone_task_recorded": _task_recorded,
    "milestone_completed": _completed,
    "initiative_status_changed": _status_changed,
}
