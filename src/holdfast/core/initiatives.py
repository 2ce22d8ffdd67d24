"""All initiatives of a workspace and which of them is current: one aggregate, one record.

An initiative is a goal that lasts for months, with milestones in order. Its status only moves
forward, except from blocked back to in progress. It is found by its key, which is also the name of
its folder; it is never removed, only archived.
"""

from __future__ import annotations

from zlib import crc32

from holdfast.core import diff
from holdfast.core.next_step import MEANINGS, NextStep, step_of_hint
from holdfast.core.refusal import Refusal, first_bad_text, shell_word
from holdfast.core.selection import ACTIVE, join_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.types import (
        Command,
        Draft,
        Event,
        Fields,
        Initiative,
        InitiativesState,
        Milestone,
        MilestoneTask,
    )

    Decision = list[Draft] | Refusal

STATUSES = {"created": 0, "in_progress": 1, "blocked": 1, "completed": 2, "archived": 3}
"""The order of the statuses: an edit by hand may skip one, never go back."""
_STEPS = {
    "block_initiative": ("in_progress", "blocked"),
    "unblock_initiative": ("blocked", "in_progress"),
    "finish_initiative": ("in_progress", "completed"),
    "archive_initiative": ("completed", "archived"),
}
"""Commands that change the status: from which, to which."""
MILESTONE_STATUSES_WITH = {
    "started_at": ("in_progress", "blocked", "completed"),
    "completed_at": ("completed",),
    "forced": ("completed",),
}
"""Fields of a milestone that only these statuses have."""
MAX_NAME_CHARACTERS = 200
MAX_KEY_CHARACTERS = 48
CREATE = 'holdfast initiative create NAME --milestone "M1: TITLE"'


# One initiative


def decide_initiative(state: Initiative | None, command: Command) -> Decision:
    """Return the events of a command for one initiative, or a refusal."""
    command_type, args = command["type"], command["args"]
    if command_type == "create_initiative":
        return _create_initiative(state, args)
    if state is None:
        tried = command_type.replace("_", " ")
        return Refusal("not_found", f"{tried}: there is no initiative", CREATE)
    if command_type in _STEPS:
        return _change_status(state, args, command_type)
    if command_type == "add_milestone":
        return _add_milestone(state, args)
    verb, decider = _MILESTONE_COMMANDS[command_type]
    milestone = _open_milestone(state, args["milestone"], verb)
    return milestone if isinstance(milestone, Refusal) else decider(state, milestone, args)


def evolve_initiative(state: Initiative | None, event: Event) -> Initiative:
    """Return the initiative after an event; raise ``ValueError`` if it cannot be the first."""
    event_type, data, at = event["type"], event["data"], event["at"]
    if event_type == "initiative_created":
        milestones: list[Milestone] = [
            {"id": planned["id"], "title": planned["title"], "status": "pending", "tasks": []}
            for planned in data["milestones"]
        ]
        created = new_initiative(data["name"], milestones, at)
        return {**created, "files": True} if data.get("files") else created
    if state is None:
        raise ValueError(f"{event_type} cannot be the first event of an initiative")
    return {**EVOLVE_INITIATIVE[event_type](state, data, at), "updated_at": at}


def names_of(key: str, initiative: Initiative) -> list[str]:
    """Return every name that a workflow or a file may have for an initiative."""
    return [initiative["name"], key, *initiative.get("former", ())]


def find_milestone(state: Initiative, milestone_id: str | None) -> Milestone | None:
    return next((m for m in state["milestones"] if m["id"] == milestone_id), None)


def next_step(
    state: Initiative, workflows: Sequence[Fields] | None = None, *, after: str = ""
) -> NextStep | None:
    """Return the step that continues the initiative; ``None`` once it is archived.

    ``workflows`` are the rows of its workflows, oldest first; ``None`` if they are not known.
    ``after`` is the command that was carried out or refused, whose opposite is never the answer.
    """
    name = state["name"]
    if state["status"] == "archived":
        return None
    if state["status"] == "completed":
        return NextStep(f"{name} is completed: put it away", ["initiative", "archive"])
    if state["status"] == "blocked":
        if after == "initiative block":
            return NextStep("tell the user what is blocked; all of it", ["initiative", "show"])
        reason = f" ({state['reason']})" if state.get("reason") else ""
        about = f"{name} is blocked{reason}; when that is resolved"
        return NextStep(about, ["initiative", "unblock"])
    milestone = find_milestone(state, state["current_milestone"])
    if milestone is None or milestone["status"] == "completed":
        open_ids = open_milestones(state)
        milestone = find_milestone(state, next(iter(open_ids), None))
    if milestone is None:
        about = f"every milestone of {name} is completed; when the goal is reached"
        return NextStep(about, ["initiative", "finish"])
    return _milestone_step(milestone, workflows)


def _milestone_step(milestone: Milestone, workflows: Sequence[Fields] | None) -> NextStep:
    """Return the step that continues a milestone: start it, work on it, complete it."""
    own = milestone["id"]
    title = f"{own} ({milestone['title']})" if milestone["title"] else own
    serving = [row for row in workflows or () if row["milestone"] == own]
    is_begun = "started_at" in milestone or any(task["done"] for task in milestone["tasks"])
    if milestone["status"] != "in_progress" or not (is_begun or serving):
        return NextStep(f"begin {title}", ["initiative", "start", own])
    active = [row["id"] for row in serving if row["status"] in ACTIVE]
    if active:
        return NextStep(f"{title}: go on with its workflow", ["resume", active[-1]])
    open_texts = open_tasks(milestone)
    if open_texts:
        about = f"{title}: do this task; when it is done"
        return NextStep(about, _task_words(milestone, open_texts[0]))
    is_served = any(row["status"] == "completed" for row in serving)
    if workflows is not None and not milestone["tasks"] and not is_served:
        return NextStep(
            f"{title}: do its work in a workflow",
            ["start", "RECIPE", "SUBJECT", "--milestone", own],
            RECIPE=MEANINGS["RECIPE"],
            SUBJECT=MEANINGS["SUBJECT"],
        )
    return NextStep(f"when all of {title} is done", ["initiative", "complete", own])


def _task_words(milestone: Milestone, text: str) -> list[str]:
    """Return the command that ticks a task; no text of it is taken for an option."""
    names = [milestone["id"], text]
    if any(name.startswith("-") for name in names):
        return ["initiative", "task", "--done", "--", *names]
    return ["initiative", "task", *names, "--done"]


def open_tasks(milestone: Milestone) -> list[str]:
    """Return the texts of a milestone's tasks that are not done."""
    return [task["text"] for task in milestone["tasks"] if not task["done"]]


def open_milestones(state: Initiative) -> list[str]:
    """Return the ids of the milestones that are not completed."""
    return [m["id"] for m in state["milestones"] if m["status"] != "completed"]


def forced_of(state: Initiative) -> dict[str, Fields]:
    """Return what was completed by force, with ``reason`` and ``open``: milestones, ``finish``."""
    forced = {m["id"]: m["forced"] for m in state["milestones"] if "forced" in m}
    return {**forced, "finish": state["forced"]} if "forced" in state else forced


def _refuse(state: Initiative, code: str, message: str, **details: object) -> Refusal:
    """Return a refusal whose hint is the next step; after the end, that is a new initiative."""
    step = None if state["status"] in ("completed", "archived") else next_step(state)
    return Refusal(code, f"initiative {message}", step.text if step else CREATE, **details)


def refuse_going_back(state: Initiative | None, status: str) -> Refusal | None:
    """Return a refusal if a status comes before the current one."""
    if state is None or STATUSES[status] >= STATUSES[state["status"]]:
        return None
    why = f"{state['name']} is {state['status']} and cannot be {status} again"
    return _refuse(state, "wrong_order", f"record: {why}")


def _open_milestone(state: Initiative, milestone_id: str, verb: str) -> Milestone | Refusal:
    """Return the milestone that a command names, or a refusal if it cannot be worked on."""
    milestone = find_milestone(state, milestone_id)
    if state["status"] in ("completed", "archived"):
        return _refuse(state, "ended", f"{verb}: {state['name']} is {state['status']} for good")
    if milestone is None:
        ids = ", ".join(milestone["id"] for milestone in state["milestones"]) or "none"
        why = f"{state['name']} has no milestone {milestone_id!r}; it has {ids}"
        return _refuse(state, "not_found", f"{verb}: {why}")
    if milestone["status"] == "completed":
        return _refuse(state, "already", f"{verb}: {milestone_id} is completed already")
    if state["status"] == "blocked" and verb != "task":
        return _refuse(state, "blocked", f"{verb}: {state['name']} is blocked")
    return milestone


def _with_milestone(state: Initiative, milestone_id: str, fields: Fields) -> Initiative:
    milestones = [
        {**milestone, **fields} if milestone["id"] == milestone_id else milestone
        for milestone in state["milestones"]
    ]
    return {**state, "milestones": milestones}  # type: ignore[typeddict-item]


def _create_initiative(state: Initiative | None, args: Fields) -> Decision:
    name, milestones = args["name"], args["milestones"]
    ids = [milestone["id"] for milestone in milestones]
    bad = first_bad_text(name=name, title=[m["title"] for m in milestones if m["title"]])
    why = bad.message if bad else None
    if state is not None:
        why = _taken(state, name)
    elif not _is_name(name):
        why = _NAMES
    elif not ids or not all(_is_word(own) for own in ids):
        why = f"{name} needs milestones, and each of them an id that is one word"
    elif len(set(alike := [own.casefold() for own in ids])) < len(ids):
        twice = ids[alike.index(max(alike, key=alike.count))]
        why = f"{name} has milestone {twice} twice"
    elif (behind := out_of_order(ids)) is not None:
        why = f"milestone {behind[1]} stands behind {behind[0]}: give them in their order"
    if why:
        is_open = state is not None and state["status"] not in ("completed", "archived")
        hint = (
            f"holdfast initiative use {shell_word(state['name'])}" if state and is_open else CREATE
        )
        return Refusal("already" if state else "invalid", f"initiative create: {why}", hint)
    planned = [{"id": m["id"], "title": m["title"]} for m in milestones]
    files = {"files": True} if args.get("files") else {}
    data = {"name": name, "milestones": planned, **files}
    return [{"type": "initiative_created", "data": data}]


_NAMES = f"a name is one line of at most {MAX_NAME_CHARACTERS} printable characters"


def _is_name(name: str) -> bool:
    return name.isprintable() and len(name) <= MAX_NAME_CHARACTERS


def _is_word(milestone_id: str) -> bool:
    return milestone_id.isprintable() and milestone_id.split() == [milestone_id]


def _taken(state: Initiative, name: str) -> str:
    """Return why a name cannot be used: this initiative has it, or had it."""
    was = f", once called {name}," if name in state.get("former", ()) else ""
    return f"{state['name']}{was} exists already and is {state['status']}"


def out_of_order(ids: list[str]) -> tuple[str, str] | None:
    """Return the first two neighbours whose numbers are in the wrong order."""
    numbered = [name for name in ids if _is_numbered(name)]
    for position, following in enumerate(numbered[1:]):
        if int(following[1:]) < int(numbered[position][1:]):
            return numbered[position], following
    return None


def _is_numbered(milestone_id: str) -> bool:
    return milestone_id[:1] in "Mm" and milestone_id[1:].isdecimal()


def new_initiative(name: str, milestones: list[Milestone], at: str) -> Initiative:
    return {
        "name": name,
        "status": "created",
        "created_at": at,
        "updated_at": at,
        "current_milestone": milestones[0]["id"] if milestones else None,
        "milestones": milestones,
        "extra": {},
    }


def _add_milestone(state: Initiative, args: Fields) -> Decision:
    """Add a milestone: M2 before M3, and one without a number behind all others."""
    own, title = args["milestone"], args["title"]
    ids = [milestone["id"] for milestone in state["milestones"]]
    bad = first_bad_text(title=[title] if title else [])
    if state["status"] in ("completed", "archived"):
        why = f"{state['name']} is {state['status']} for good"
        return _refuse(state, "ended", f"milestone add: {why}")
    if bad or not _is_word(own):
        why = bad.message if bad else f"{own[:40]!r} is not an id: that is one word, such as M3"
        hint = "holdfast initiative milestone add 'M3: TITLE'"
        return Refusal("invalid", f"initiative milestone add: {why}", hint)
    if own.casefold() in [known.casefold() for known in ids]:
        why = f"{state['name']} has milestone {own} already"
        return _refuse(state, "already", f"milestone add: {why}")
    later = [known for known in ids if out_of_order([known, own])]
    data = {"milestone": own, "title": title, "before": next(iter(later), None)}
    return [{"type": "milestone_added", "data": data}]


def _milestone_added(state: Initiative, data: Fields, _at: str) -> Initiative:
    added: Milestone = {
        "id": data["milestone"], "title": data["title"], "status": "pending", "tasks": [],
    }  # fmt: skip
    milestones = list(state["milestones"])
    ids = [milestone["id"] for milestone in milestones]
    position = ids.index(data["before"]) if data["before"] in ids else len(ids)
    milestones.insert(position, added)
    # When all the others are completed, the work goes on with this one.
    current = state["current_milestone"] if open_milestones(state) else added["id"]
    return {**state, "milestones": milestones, "current_milestone": current}


def _start(state: Initiative, milestone: Milestone, _args: Fields) -> Decision:
    going = milestone["status"] == "in_progress" and "started_at" in milestone
    if going and milestone["id"] == state["current_milestone"]:
        return _refuse(state, "already", f"start: {milestone['id']} is in progress already")
    return [{"type": "milestone_started", "data": {"milestone": milestone["id"]}}]


def _started(state: Initiative, data: Fields, at: str) -> Initiative:
    current = data["milestone"]
    milestone = find_milestone(state, current)
    since = at if milestone is None else milestone.get("started_at", at)
    moved: Initiative = {**state, "status": "in_progress", "current_milestone": current}
    return _with_milestone(moved, current, {"status": "in_progress", "started_at": since})


def _record_task(state: Initiative, milestone: Milestone, args: Fields) -> Decision:
    text, done = args["text"], args.get("done", False)
    if bad := first_bad_text(task=text):
        return _refuse(state, bad.code, f"task {milestone['id']}: {bad.message}")
    if any(task["text"] == text and (task["done"] or not done) for task in milestone["tasks"]):
        return _refuse(state, "already", f"task {milestone['id']}: {text!r} is there already")
    data = {"milestone": milestone["id"], "text": text, "done": done}
    return [{"type": "milestone_task_recorded", "data": data}]


def _task_recorded(state: Initiative, data: Fields, _at: str) -> Initiative:
    milestone = find_milestone(state, data["milestone"])
    if milestone is None:
        return state
    recorded: MilestoneTask = {"text": data["text"], "done": data["done"]}
    tasks = list(milestone["tasks"])
    texts = [task["text"] for task in tasks]
    position = texts.index(data["text"]) if data["text"] in texts else len(texts)
    tasks[position : position + 1] = [recorded]
    return _with_milestone(state, data["milestone"], {"tasks": tasks})


def _complete(state: Initiative, milestone: Milestone, args: Fields) -> Decision:
    """Complete a milestone. One with open tasks takes ``force`` and a reason."""
    own, open_texts = milestone["id"], open_tasks(milestone)
    if state["status"] == "created":
        return _refuse(state, "wrong_order", f"complete: {state['name']} is not started")
    if open_texts and not args.get("force"):
        why = f"{own} has open tasks: {join_names([repr(text) for text in open_texts])}"
        return Refusal(
            "pending",
            f"initiative complete: {why} (--force --reason TEXT completes it without them)",
            NextStep("", _task_words(milestone, open_texts[0])).text,
            pending={"tasks": open_texts},
        )
    data: Fields = {"milestone": own}
    if open_texts:
        if bad := first_bad_text(reason=args.get("reason") or ""):
            return _refuse(state, bad.code, f"complete: {bad.message}")
        data["forced"] = {"reason": args["reason"], "open": open_texts}
    # The current milestone stays current while it is open; else the next open one in order is.
    behind = state["milestones"].index(milestone)
    ahead = [*state["milestones"][behind + 1 :], *state["milestones"][:behind]]
    open_ids = [other["id"] for other in ahead if other["status"] != "completed"]
    current = state["current_milestone"]
    following = current if current in open_ids else next(iter(open_ids), None)
    return [{"type": "milestone_completed", "data": {**data, "next": following}}]


def _completed(state: Initiative, data: Fields, at: str) -> Initiative:
    moved: Initiative = {**state, "current_milestone": data["next"] or data["milestone"]}
    fields: Fields = {"status": "completed", "completed_at": at}
    fields |= {"forced": data["forced"]} if "forced" in data else {}
    after = _with_milestone(moved, data["milestone"], fields)
    following = find_milestone(after, data["next"])
    if following is not None and following["status"] == "pending":
        after = _with_milestone(after, data["next"], {"status": "in_progress"})
    return after


def _change_status(state: Initiative, args: Fields, command_type: str) -> Decision:
    """Block, unblock, finish or archive an initiative."""
    verb = command_type.removesuffix("_initiative")
    needed, status = _STEPS[command_type]
    data: Fields = {"status": status}
    if state["status"] != needed:
        why = f"{state['name']} is {state['status']}, not {needed}"
        return _refuse(state, "wrong_order", f"{verb}: {why}")
    if verb == "block" or args.get("force"):
        if bad := first_bad_text(reason=args.get("reason") or ""):
            return _refuse(state, bad.code, f"{verb}: {bad.message}")
        data["reason"] = args["reason"]
    pending = open_milestones(state)
    if verb == "finish" and pending:
        if not args.get("force"):
            why = f"{state['name']} still has open milestones: {join_names(pending)}"
            message = f"{verb}: {why} (--force --reason TEXT leaves them open)"
            return _refuse(state, "pending", message, pending={"milestones": pending})
        data["forced"] = {"reason": data.pop("reason"), "open": pending}
    return [{"type": "initiative_status_changed", "data": data}]


def _status_changed(state: Initiative, data: Fields, at: str) -> Initiative:
    after: Initiative = {**state, "status": data["status"]}
    after.pop("reason", None)
    if data["status"] == "blocked":
        after["reason"] = data["reason"]
    elif data["status"] == "completed":
        after["completed_at"] = at
        if "forced" in data:
            after["forced"] = data["forced"]
    elif data["status"] == "archived":
        after["archived_at"] = at
    return after


_MILESTONE_COMMANDS: dict[str, tuple[str, Callable[[Initiative, Milestone, Fields], Decision]]] = {
    "start_milestone": ("start", _start),
    "record_milestone_task": ("task", _record_task),
    "complete_milestone": ("complete", _complete),
}
EVOLVE_INITIATIVE: dict[str, Callable[[Initiative, Fields, str], Initiative]] = {
    "milestone_added": _milestone_added,
    "milestone_started": _started,
    "milestone_task_recorded": _task_recorded,
    "milestone_completed": _completed,
    "initiative_status_changed": _status_changed,
}


# All initiatives


def blank() -> InitiativesState:
    return {"current": None, "all": {}}


def key_of(name: str) -> str:
    """Return the key and folder name of an initiative; two different names never share one."""
    plain = "".join([c if c.isascii() and c.isalnum() else "-" for c in name.lower()])
    joined = "-".join([part for part in plain.split("-") if part])
    is_whole = bool(joined) and all(c.isascii() for c in name if c.isalnum())
    if is_whole and len(joined) <= MAX_KEY_CHARACTERS:
        return joined
    prefix = joined[: MAX_KEY_CHARACTERS - 9].rstrip("-") or "initiative"
    return f"{prefix}-{crc32(name.encode(errors='replace')):08x}"


def current_of(state: InitiativesState) -> Initiative | None:
    return state["all"].get(state["current"] or "")


def find_key(state: InitiativesState, name: str) -> str | None:
    """Return the key of the initiative with this name or key, or that once had this name."""
    for key, initiative in state["all"].items():
        if initiative["name"] == name:
            return key
    if name in state["all"]:
        return name
    with_former_name = (key for key, it in state["all"].items() if name in it.get("former", ()))
    return next(with_former_name, None)


def next_step_of(
    state: InitiativesState, workflows: Sequence[Fields], *, after: str = ""
) -> NextStep | None:
    """Return the next step of the current initiative; without one, that is to create one."""
    initiative = current_of(state)
    if initiative is None:
        return step_of_hint(CREATE)
    return next_step(initiative, workflows, after=after)


def decide(state: InitiativesState | None, command: Command) -> Decision:
    """Return the events of a command, or a refusal. By default it is for the current initiative."""
    state, args = state or blank(), command["args"]
    if command["type"] in _DECIDE:
        return _DECIDE[command["type"]](state, args)
    key = args.get("initiative") or state["current"] or ""
    if command["type"] == "create_initiative":
        key = find_key(state, args["name"]) or key_of(args["name"])
    decision = decide_initiative(state["all"].get(key), command)
    if isinstance(decision, Refusal):
        return decision
    return [{**draft, "data": {"initiative": key, **draft["data"]}} for draft in decision]


def evolve(state: InitiativesState | None, event: Event) -> InitiativesState:
    """Return all initiatives after an event."""
    state = state or blank()
    if event["type"] in diff.SHARING:
        shared: InitiativesState = diff.merged(state, event["data"])
        return shared
    if event["type"] in EVOLVE:
        return EVOLVE[event["type"]](state, event)
    key = event["data"]["initiative"]
    initiative = evolve_initiative(state["all"].get(key), event)
    current = key if event["type"] == "initiative_created" else state["current"]
    return {"current": current, "all": {**state["all"], key: initiative}}


def _use(state: InitiativesState, args: Fields) -> Decision:
    key = find_key(state, args["name"])
    if key is None:
        return no_such(state, "use", args["name"])
    if key == state["current"]:
        return []
    return [{"type": "initiative_used", "data": {"initiative": key}}]


def _rename(state: InitiativesState, args: Fields) -> Decision:
    """Give the current initiative another name. Its key and its folder stay."""
    name, initiative = args["name"], current_of(state)
    if initiative is None:
        return Refusal("not_found", "initiative rename: there is no initiative", CREATE)
    if initiative["status"] in ("completed", "archived"):
        why = f"{initiative['name']} is {initiative['status']} for good"
        return _refuse(initiative, "ended", f"rename: {why}")
    bad = first_bad_text(name=name)
    why = bad.message if bad else "" if _is_name(name) else _NAMES
    if why:
        hint = "holdfast initiative rename NAME"
        return Refusal("invalid", f"initiative rename: {why}", hint)
    taken = find_key(state, name) or (key_of(name) if key_of(name) in state["all"] else None)
    if name == initiative["name"]:
        return _refuse(initiative, "already", f"rename: it is called {name} already")
    if taken not in (None, state["current"]):
        return _refuse(initiative, "already", f"rename: {_taken(state['all'][taken], name)}")
    return [{"type": "initiative_renamed", "data": {"initiative": state["current"], "name": name}}]


def _renamed(state: InitiativesState, event: Event) -> InitiativesState:
    key, name = event["data"]["initiative"], event["data"]["name"]
    initiative = state["all"][key]
    former = [initiative["name"], *initiative.get("former", ())]
    after: Initiative = {
        **initiative,
        "name": name,
        "former": [other for other in former if other != name],
        "updated_at": event["at"],
    }
    return {**state, "all": {**state["all"], key: after}}


def no_such(state: InitiativesState, tried: str, name: str) -> Refusal:
    names = ", ".join([shell_word(initiative["name"]) for initiative in state["all"].values()][:10])
    hint = f"holdfast initiative use {names.partition(', ')[0]}" if names else CREATE
    why = f"there is no {name[:80]!r}; there is {names or 'none'}"
    return Refusal("not_found", f"initiative {tried}: {why}", hint)


def _used(state: InitiativesState, event: Event) -> InitiativesState:
    return {**state, "current": event["data"]["initiative"]}


def _adopt_record(state: InitiativesState, args: Fields) -> Decision:
    adopted = _merge_adopted(state, args["state"])
    if isinstance(adopted, Refusal):
        return adopted
    return [{"type": "record_adopted", "data": {**args, "state": adopted}}]


def _adopted(state: InitiativesState, event: Event) -> InitiativesState:
    # Each initiative keeps its own time, by which sources are compared.
    adopted: InitiativesState = event["data"]["state"]
    return {"current": adopted["current"], "all": {**state["all"], **adopted["all"]}}


def _adopt_edit(state: InitiativesState, args: Fields) -> Decision:
    # A record cannot remove an initiative.
    allowed = [
        change
        for change in args["changes"]
        if change[2] != diff.ABSENT or change[0][:1] != ["all"] or len(change[0]) != 2
    ]
    adopted = _merge_adopted(state, diff.apply(dict(state), allowed))  # type: ignore[arg-type]
    if isinstance(adopted, Refusal):
        return adopted
    changes = diff.diff(dict(state), dict(adopted))
    data = {**args, "changes": changes}
    return [{"type": "record_edited", "data": data}] if changes else []


def _merge_adopted(before: InitiativesState, after: InitiativesState) -> InitiativesState | Refusal:
    """Add the milestones that a record omits: many tools list only those that were begun.

    Return a refusal if an initiative would go back.
    """
    merged = dict(after["all"])
    for key, initiative in after["all"].items():
        was = before["all"].get(key)
        if refusal := refuse_going_back(was, initiative["status"]):
            return refusal
        if was is not None:
            changed = {milestone["id"]: milestone for milestone in initiative["milestones"]}
            milestones = [
                changed.pop(milestone["id"], milestone) for milestone in was["milestones"]
            ]
            merged[key] = {**initiative, "milestones": [*milestones, *changed.values()]}
    return {**after, "all": merged}


def _edited(state: InitiativesState, event: Event) -> InitiativesState:
    changes = event["data"]["changes"]
    after: InitiativesState = diff.apply(dict(state), changes)  # type: ignore[assignment]
    paths = [change[0] for change in changes if change[0][0] == "all"]
    timed = {path[1] for path in paths if path[2:] in ([], ["updated_at"])}
    # An edit without a time of its own gets the time at which it was read.
    stamped: dict[str, Initiative] = dict(after["all"])
    for key in {path[1] for path in paths} - timed:
        stamped[key] = {**stamped[key], "updated_at": event["at"]}
    return {**after, "all": stamped}


def _correct(state: InitiativesState, args: Fields) -> Decision:
    """Make stale sources follow the right one; the event keeps their values."""
    data = {name: value for name, value in args.items() if name != "seen"}
    initiative = state["all"].get(args["initiative"])
    if initiative is None or args["seen"] != initiative["updated_at"]:
        # Another process changed it since: the next check compares the sources again.
        return []
    if "state" in data and (back := refuse_going_back(initiative, data["state"]["status"])):
        return back
    return [{"type": "initiative_sync_corrected", "data": data}]


def _recover(state: InitiativesState, args: Fields) -> Decision:
    initiative = state["all"].get(args["initiative"])
    if initiative is not None:
        why = f"{initiative['name']} is known and needs no recovery"
        hint = "holdfast initiative sync --from files"
        return Refusal("already", f"initiative recover: {why}", hint)
    return [{"type": "initiative_recovered", "data": args}]


def _replaced(state: InitiativesState, event: Event) -> InitiativesState:
    key = event["data"]["initiative"]
    initiative: Initiative = event["data"].get("state") or state["all"][key]
    current = key if event["type"] == "initiative_recovered" else state["current"]
    after: Initiative = {**initiative, "updated_at": event["at"]}
    return {"current": current, "all": {**state["all"], key: after}}


_DECIDE: dict[str, Callable[[InitiativesState, Fields], Decision]] = {
    "use_initiative": _use,
    "rename_initiative": _rename,
    "correct_initiative": _correct,
    "recover_initiative": _recover,
    "adopt_record": _adopt_record,
    "adopt_edit": _adopt_edit,
}
EVOLVE: dict[str, Callable[[InitiativesState, Event], InitiativesState]] = {
    "initiative_used": _used,
    "initiative_renamed": _renamed,
    "initiative_sync_corrected": _replaced,
    "initiative_recovered": _replaced,
    "record_adopted": _adopted,
    "record_edited": _edited,
}
