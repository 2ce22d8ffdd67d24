"""All initiatives of a workspace and which of them is current: one aggregate, one record.

``core.initiative`` decides and evolves a single initiative; this module finds it by its key, which
is also the name of its folder. An initiative is never removed, only archived.
"""

from __future__ import annotations

from zlib import crc32

from holdfast.core import diff, initiative
from holdfast.core.refusal import Refusal, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Command, Draft, Event, Initiative, Initiatives

    Answer = list[Draft] | Refusal

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
    return _keyed(key, initiative.decide(state["all"].get(key), command))


def _keyed(key: str, answer: Answer) -> Answer:
    if isinstance(answer, Refusal):
        return answer
    return [{**draft, "data": {"initiative": key, **draft["data"]}} for draft in answer]


def _one_evolved(state: Initiatives, event: Event) -> Initiatives:
    key = event["data"]["initiative"]
    one = initiative.evolve(state["all"].get(key), event)
    return {**state, "all": {**state["all"], key: one}}


def _create(state: Initiatives, command: Command) -> Answer:
    key = key_of(command["args"]["name"])
    return _keyed(key, initiative.decide(state["all"].get(key), command))


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
    hint = f"holdfast initiative use {known.partition(', ')[0]}" if known else initiative.CREATE
    why = f"there is no {name[:80]!r}; there is {known or 'none'}"
    return Refusal("not_found", f"initiative {tried}: {why}", hint)


def _used(state: Initiatives, event: Event) -> Initiatives:
    return {**state, "current": event["data"]["initiative"]}


def _adopt_record(state: Initiatives, command: Command) -> Answer:
    adopted: Initiatives = command["args"]["state"]
    for key, one in adopted["all"].items():
        back = initiative.refuse_going_back(state["all"].get(key), one["status"])
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
        back = initiative.refuse_going_back(state["all"].get(key), one["status"])
        if back is not None:
            return back
    after = {**after, "all": _kept(state["all"], after["all"])}
    changes = diff.diff(dict(state), dict(after))
    data = {**command["args"], "changes": changes}
    return [{"type": "record_edited", "data": data}] if changes else []


def _kept(before: dict[str, Initiative], after: dict[str, Initiative]) -> dict[str, Initiative]:
    """Add the milestones that a record omits: many tools list only those that were begun."""
    return {
        key: {**one, "milestones": initiative.merge_milestones(before[key], one)}
        if key in before
        else one
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
        back = initiative.refuse_going_back(one, args["state"]["status"])
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
