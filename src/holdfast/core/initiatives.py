"""All initiatives of a workspace and which of them is current: one aggregate, one record.

An initiative is a goal that lasts for months, with milestones in order. Its status only moves
forward, except from blocked back to in progress. It is found by its key, which is also the name of
its folder; it is never removed, only archived.
"""

from __future__ import annotations

from zlib import crc32

from holdfast.core import diff
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
    from holdfast.core.types import Draft, Initiatives

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


def decide_initiative(state: Initiative | None, command: Command) -> list[Draft] | Refusal:
    """Return the events of a command, or a refusal."""
    if command["type"] == "create_initiative":
        return create(state, command)
    if state is None:
        tried = command["type"].replace("_", " ")
        return Refusal("not_found", f"{tried}: there is no initiative", CREATE)
    return DECIDE_INITIATIVE[command["type"]](state, command)


def evolve_initiative(state: Initiative | None, event: Event) -> Initiative:
    """Return the initiative after an event; raise ``ValueError`` if it cannot be the first."""
    data, at = event["data"], event["at"]
    if event["type"] == "initiative_created":
        return _created(data, at)
    if state is None:
        raise ValueError(f"{event['type']} cannot be the first event of an initiative")
    return {**EVOLVE_INITIATIVE[event["type"]](state, data, at), "updated_at": at}


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


DECIDE_INITIATIVE: dict[str, Callable[[Initiative, Command], Answer]] = {
    "start_milestone": start,
    "record_milestone_task": record_task,
    "complete_milestone": complete,
    **dict.fromkeys(STEPS, change_status),
}
EVOLVE_INITIATIVE: dict[str, Callable[[Initiative, Fields, str], Initiative]] = {
    "milestone_started": _started,
    "milestone_task_recorded": _task_recorded,
    "milestone_completed": _completed,
    "initiative_status_changed": _status_changed,
}


MAX_KEY_CHARACTERS = 48
_NAMELESS = "initiative"


def blank() -> Initiatives:
    return {"current": None, "all": {}}


def key_of(name: str) -> str:
    """Return the key and folder name of an initiative; two different names never share one."""
    plain = "".join([c if c.isascii() and c.isalnum() else "-" for c in name.lower()])
    joined = "-".join([part for part in plain.split("-") if part])
    is_whole = bool(joined) and all(c.isascii() for c in name if c.isalnum())
    if is_whole and len(joined) <= MAX_KEY_CHARACTERS:
        return joined
    kept = joined[: MAX_KEY_CHARACTERS - 9].rstrip("-") or _NAMELESS
    return f"{kept}-{crc32(name.encode(errors='replace')):08x}"


def current_of(state: Initiatives) -> Initiative | None:
    return state["all"].get(state["current"] or "")


def find_key(state: Initiatives, name: str) -> str | None:
    """Return the key of the initiative with this name or key."""
    named = [key for key, one in state["all"].items() if one["name"] == name]
    return named[0] if named else (name if name in state["all"] else None)


def decide(state: Initiatives | None, command: Command) -> list[Draft] | Refusal:
    """Return the events of a command, or a refusal. Without a name it is for the current one."""
    return DECIDE.get(command["type"], _of_one)(state or blank(), command)


def evolve(state: Initiatives | None, event: Event) -> Initiatives:
    """Return all initiatives after an event."""
    return EVOLVE.get(event["type"], _one_evolved)(state or blank(), event)


def _of_one(state: Initiatives, command: Command) -> Answer:
    key = command["args"].get("initiative") or state["current"] or ""
    return _keyed(key, decide_initiative(state["all"].get(key), command))


def _keyed(key: str, answer: Answer) -> Answer:
    if isinstance(answer, Refusal):
        return answer
    return [{**draft, "data": {"initiative": key, **draft["data"]}} for draft in answer]


def _one_evolved(state: Initiatives, event: Event) -> Initiatives:
    key = event["data"]["initiative"]
    one = evolve_initiative(state["all"].get(key), event)
    return {**state, "all": {**state["all"], key: one}}


def _create(state: Initiatives, command: Command) -> Answer:
    key = key_of(command["args"]["name"])
    return _keyed(key, decide_initiative(state["all"].get(key), command))


def _opened(state: Initiatives, event: Event) -> Initiatives:
    return {**_one_evolved(state, event), "current": event["data"]["initiative"]}


def _use(state: Initiatives, command: Command) -> Answer:
    name = command["args"]["name"]
    key = find_key(state, name)
    if key is None:
        return no_such(state, "use", name)
    if key == state["current"]:
        return []
    return [{"type": "initiative_used", "data": {"initiative": key}}]


def no_such(state: Initiatives, tried: str, name: str) -> Refusal:
    known = ", ".join([word(one["name"]) for one in state["all"].values()][:10])
    hint = f"holdfast initiative use {known.partition(', ')[0]}" if known else CREATE
    why = f"there is no {name[:80]!r}; there is {known or 'none'}"
    return Refusal("not_found", f"initiative {tried}: {why}", hint)


def _used(state: Initiatives, event: Event) -> Initiatives:
    return {**state, "current": event["data"]["initiative"]}


def _adopt_record(state: Initiatives, command: Command) -> Answer:
    adopted: Initiatives = command["args"]["state"]
    for key, one in adopted["all"].items():
        back = refuse_going_back(state["all"].get(key), one["status"])
        if back is not None:
            return back
    kept = {"state": {**adopted, "all": _kept(state["all"], adopted["all"])}}
    return [{"type": "record_adopted", "data": {**command["args"], **kept}}]


def _adopted(state: Initiatives, event: Event) -> Initiatives:
    # Each keeps its own time, which decides which of several sources is the newest.
    adopted: Initiatives = event["data"]["state"]
    return {"current": adopted["current"], "all": {**state["all"], **adopted["all"]}}


def _adopt_edit(state: Initiatives, command: Command) -> Answer:
    kept = [change for change in command["args"]["changes"] if not _is_removal(change)]
    after: Initiatives = diff.apply(dict(state), kept)  # type: ignore[assignment]
    for key, one in after["all"].items():
        back = refuse_going_back(state["all"].get(key), one["status"])
        if back is not None:
            return back
    after = {**after, "all": _kept(state["all"], after["all"])}
    changes = diff.diff(dict(state), dict(after))
    data = {**command["args"], "changes": changes}
    return [{"type": "record_edited", "data": data}] if changes else []


def _kept(before: dict[str, Initiative], after: dict[str, Initiative]) -> dict[str, Initiative]:
    """Add the milestones that a record omits: many tools list only those that were begun."""
    return {
        key: {**one, "milestones": merge_milestones(before[key], one)} if key in before else one
        for key, one in after.items()
    }


def _is_removal(change: list[object]) -> bool:
    """Return whether a change removes an initiative, which a record cannot do."""
    path, _, now = change
    is_one = isinstance(path, list) and len(path) == 2 and path[0] == "all"
    return is_one and now == diff.ABSENT


def _edited(state: Initiatives, event: Event) -> Initiatives:
    changes = event["data"]["changes"]
    after: Initiatives = diff.apply(dict(state), changes)  # type: ignore[assignment]
    paths = [change[0] for change in changes]
    timed = {path[1] for path in paths if path[0] == "all" and path[2:] in ([], ["updated_at"])}
    changed = {path[1] for path in paths if path[0] == "all"} - timed
    # An edit without a time of its own is as new as the moment in which it was read.
    stamped: dict[str, Initiative] = {key: after["all"][key] for key in after["all"]}
    for key in changed:
        stamped[key] = {**stamped[key], "updated_at": event["at"]}
    return {**after, "all": stamped}


def _correct(state: Initiatives, command: Command) -> Answer:
    """Make stale sources follow the right one; the event keeps what they said."""
    args = dict(command["args"])
    one = state["all"].get(args["initiative"])
    if one is None or args.pop("seen") != one["updated_at"]:
        # Another process changed it since: the next check compares the sources again.
        return []
    if "state" in args:
        back = refuse_going_back(one, args["state"]["status"])
        if back is not None:
            return back
    return [{"type": "initiative_sync_corrected", "data": args}]


def _corrected(state: Initiatives, event: Event) -> Initiatives:
    data = event["data"]
    one: Initiative = data.get("state") or state["all"][data["initiative"]]
    return {
        **state,
        "all": {**state["all"], data["initiative"]: {**one, "updated_at": event["at"]}},
    }


def _recover(state: Initiatives, command: Command) -> Answer:
    args = command["args"]
    known = state["all"].get(args["initiative"])
    if known is not None:
        why = f"{known['name']} is known and needs no recovery"
        hint = "holdfast initiative sync --from files"
        return Refusal("already", f"initiative recover: {why}", hint)
    return [{"type": "initiative_recovered", "data": args}]


def _recovered(state: Initiatives, event: Event) -> Initiatives:
    data = event["data"]
    recovered: Initiative = data["state"]
    one: Initiative = {**recovered, "updated_at": event["at"]}
    return {"current": data["initiative"], "all": {**state["all"], data["initiative"]: one}}


DECIDE: dict[str, Callable[[Initiatives, Command], Answer]] = {
    "create_initiative": _create,
    "use_initiative": _use,
    "correct_initiative": _correct,
    "recover_initiative": _recover,
    "adopt_record": _adopt_record,
    "adopt_edit": _adopt_edit,
}
EVOLVE: dict[str, Callable[[Initiatives, Event], Initiatives]] = {
    "initiative_created": _opened,
    "initiative_used": _used,
    "initiative_sync_corrected": _corrected,
    "initiative_recovered": _recovered,
    "record_adopted": _adopted,
    "record_edited": _edited,
}
