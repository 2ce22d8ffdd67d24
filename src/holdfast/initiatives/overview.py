"""All that is known of an initiative, for whoever wants to see it."""

from __future__ import annotations

from holdfast.core import milestones
from holdfast.core.initiative import next_command
from holdfast.errors import HoldfastError
from holdfast.initiatives import pages, recovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields
    from holdfast.core.small_shapes import Initiative, Initiatives
    from holdfast.initiatives.places import Places

    T = TypeVar("T")

RECOVER = "holdfast initiative recover"


def of(caller: Caller, places: Places, state: Initiatives, key: str | None) -> Fields:
    """The initiative of this key, its files and workflows; what else there is."""
    one = state["all"].get(key or "")
    fields: Fields = {
        "initiative": None if one is None else view(str(key), one),
        "status_file": None,
        "pages": [],
        "disagreements": [],
        "workflows": [],
        "others": [
            {"key": other, "name": told["name"], "status": told["status"]}
            for other, told in state["all"].items()
            if other != key
        ],
        "recoverable": _tried(caller, lambda: recovery.candidates(places, state)) or [],
    }
    if one is None or key is None:
        return fields
    fields["status_file"] = places.status(key, one)
    known = [each["id"] for each in one["milestones"]]
    read = _tried(caller, lambda: places.read_pages(key, one, known, is_strict=False)) or []
    _, told = pages.merged(read)
    fields["pages"] = [place for place, page in read if page.spots]
    fields["disagreements"] = milestones.disagreements(one, told)
    if fields["disagreements"]:
        caller.engine.note(milestones.in_a_note(fields["disagreements"]))
    fields["workflows"] = workflows(caller, key, one)
    return fields


def _tried(caller: Caller, look: Callable[[], T]) -> T | None:
    """What a look at files gives; where one is broken that is a note, and nothing."""
    try:
        return look()
    except HoldfastError as error:
        caller.engine.note(f"{error.message}: {error.hint}")
        return None


def view(key: str, one: Initiative) -> Fields:
    """An initiative as every command shows it."""
    done = sum(each["status"] == "completed" for each in one["milestones"])
    fields: Fields = {"key": key, **one}
    return {
        **{name: value for name, value in fields.items() if name != "extra"},
        "completed": done,
        "total": len(one["milestones"]),
        "next": next_command(one),
    }


def workflows(caller: Caller, key: str, one: Initiative) -> list[Fields]:
    """A row for each workflow that belongs to it, ended ones too, oldest first."""
    caller.engine.refresh()
    belongs: dict[str, str | None] = {}
    for event in caller.engine.ledger.scan():
        if event["type"] in ("workflow_started", "record_adopted"):
            told = event["data"].get("state", event["data"])
            found = told.get("initiative") if isinstance(told, dict) else None
            if isinstance(found, dict) and found.get("name") in (one["name"], key):
                belongs[event["stream"]] = found.get("milestone")
    if not belongs:
        return []
    rows = caller.reading(caller.rows)
    shown = ("id", "recipe", "title", "status", "phase", "phase_index", "phase_total")
    return [
        {"milestone": belongs[row["id"]], **{name: row[name] for name in shown}}
        for row in rows
        if row["id"] in belongs
    ]
