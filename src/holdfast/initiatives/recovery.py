"""An initiative from what is left when neither the ledger nor the record knows it.

Milestone pages tell the most; ``WORKFLOW-STATUS.yaml`` beside them what boxes cannot say; where
there is neither, a Memory server may still have the checkpoint.
"""

from __future__ import annotations

from holdfast.core.initiative import CREATE, STATUSES
from holdfast.core.initiatives import key_of
from holdfast.core.milestones import initiative_from_pages
from holdfast.core.refusal import word
from holdfast.errors import Refused
from holdfast.initiatives import pages, sources
from holdfast.initiatives.paths import Places
from holdfast.initiatives.status_yaml import NAME, BadStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.source_of_truth import Source
    from holdfast.core.types import Fields, Initiative, Initiatives
    from holdfast.keeper.store import Store


def candidates(places: Places, state: Initiatives) -> list[str]:
    """Return the folders of initiatives that the record does not know."""
    known = {one.get("folder") or key for key, one in state["all"].items()}
    return [folder for folder in places.folders() if folder not in known]


def rebuild(store: Store, state: Initiatives, name: str | None) -> Fields:
    """Return the arguments of the command that records what is left of an initiative."""
    places = Places(store)
    folder = _folder(places, state, name)
    if folder is None:
        return _from_server(store, state, name)
    place = places.status(folder)
    yaml = places.read_status(place)
    read = places.read_pages(folder, known=yaml.progress if yaml else ())
    title, milestones = pages.merged(read)
    called = title or (yaml.initiative if yaml else None) or folder
    one = initiative_from_pages(called, milestones, store.now())
    used = [each for each, page in read if page.spots]
    if yaml is not None and yaml.initiative in (None, called, folder):
        one = _with_status(store, one, yaml.source(NAME, place))
        used.append(place)
    if not one["milestones"]:
        where = places.folder(folder)
        raise Refused(
            "not_found",
            f"initiative recover: {where} tells of no milestone",
            f"write headings such as '## M1: title' with boxes in {where}/README.md, or {CREATE}",
        )
    key = folder if key_of(folder) == folder else key_of(called)
    if key != folder:
        one["folder"] = folder
    return {"initiative": key, "state": one, "sources": used}


def _folder(places: Places, state: Initiatives, name: str | None) -> str | None:
    listed = places.folders()
    if name is not None:
        if name in listed:
            return name
        key = key_of(name)
        return key if key in listed else None
    unknown = candidates(places, state)
    if len(unknown) > 1:
        raise Refused(
            "ambiguous",
            f"initiative recover: there are several folders: {', '.join(unknown[:10])}",
            f"holdfast initiative recover {word(unknown[0])}",
            candidates=unknown,
        )
    return unknown[0] if unknown else None


def _with_status(store: Store, one: Initiative, source: Source) -> Initiative:
    """Add what boxes cannot say: that it is blocked or has ended, and where it stands."""
    open_ids = [each["id"] for each in one["milestones"] if each["status"] != "completed"]
    completed = [each["id"] for each in one["milestones"] if each["id"] not in open_ids]
    source.progress = {
        key: status
        for key, status in source.progress.items()
        if key not in completed and (key not in open_ids or status in ("in_progress", "blocked"))
    }
    if source.milestone not in (*open_ids, *source.progress):
        source.milestone = None
    if source.status is not None and STATUSES.get(source.status, 0) < STATUSES[one["status"]]:
        source.status = None
    try:
        return sources.apply(one, source, store)
    except BadStatus as bad:
        store.note(f"{source.place} is left out: {bad.why}")
        return one


def _from_server(store: Store, state: Initiatives, name: str | None) -> Fields:
    checkpoint = sources.read_server(store)
    called = str((checkpoint or {}).get("initiative", ""))
    is_known = called in [one["name"] for one in state["all"].values()]
    if checkpoint is None or is_known or name not in (None, called, key_of(called)):
        what = f"folder for {name[:80]!r}" if name else "folder with milestones"
        hint = "holdfast initiative show" if state["all"] else CREATE
        raise Refused("not_found", f"initiative recover: there is no {what} to recover from", hint)
    source = sources.of_checkpoint(checkpoint)
    one = sources.apply(initiative_from_pages(called, [], store.now()), source, store)
    store.note(f"rebuilt from the memory graph as of {source.at}; tasks and titles are lost")
    return {"initiative": key_of(called), "state": one, "sources": [sources.GRAPH]}
