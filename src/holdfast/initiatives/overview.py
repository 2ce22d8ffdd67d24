"""All that is known of an initiative, for whoever wants to see it."""

from __future__ import annotations

from holdfast.core.initiative import next_command
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.types import Fields, Initiative, Initiatives
    from holdfast.initiatives.paths import Places
    from holdfast.keeper.store import Store

    T = TypeVar("T")

_SHOWN = ("milestone", "id", "recipe", "title", "status", "phase", "phase_index", "phase_total")


def of(store: Store, places: Places, state: Initiatives, key: str | None) -> Fields:
    """Return the initiative of this key, its files and workflows, and what else there is."""
    from holdfast.core import milestones
    from holdfast.initiatives import pages, recovery

    one = state["all"].get(key or "")
    fields: Fields = {
        "initiative": None if one is None else view(str(key), one),
        "status_file": None,
        "pages": [],
        "disagreements": [],
        "workflows": [],
        "others": [
            {"key": other, "name": each["name"], "status": each["status"]}
            for other, each in state["all"].items()
            if other != key
        ],
        "recoverable": _try(store, lambda: recovery.candidates(places, state)) or [],
    }
    if one is None or key is None:
        return fields
    fields["status_file"] = places.status(key, one)
    own_page = _try(store, lambda: places.own_page(key, one))
    if own_page is not None:
        fields["pages"] = [own_page]
    else:
        known = [each["id"] for each in one["milestones"]]
        read = _try(store, lambda: places.read_pages(key, one, known, is_strict=False)) or []
        fields["pages"] = [place for place, page in read if page.spots]
        fields["disagreements"] = milestones.disagreements(one, pages.merged(read)[1])
        if fields["disagreements"]:
            store.note(milestones.in_a_note(fields["disagreements"]))
    fields["workflows"] = workflows(store, key, one)
    return fields


def _try(store: Store, look: Callable[[], T]) -> T | None:
    """Return what a look at files gives; note it if one is broken."""
    try:
        return look()
    except HoldfastError as error:
        store.note(f"{error.message}: {error.hint}")
        return None


def view(key: str, one: Initiative) -> Fields:
    """Return an initiative as every command shows it."""
    done = sum(each["status"] == "completed" for each in one["milestones"])
    fields: Fields = {"key": key, **one}
    return {
        **{name: value for name, value in fields.items() if name != "extra"},
        "completed": done,
        "total": len(one["milestones"]),
        "next": next_command(one),
    }


def workflows(store: Store, key: str, one: Initiative) -> list[Fields]:
    """Return a row for each workflow that belongs to it, ended ones too, oldest first."""
    rows = store.ledger.rows("initiative IN (?, ?) ORDER BY created_at, stream", one["name"], key)
    return [{name: row[name] for name in _SHOWN} for row in rows]
