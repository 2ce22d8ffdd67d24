"""Recover an initiative that neither the ledger nor the record knows.

Milestone pages say the most. ``WORKFLOW-STATUS.yaml`` adds what boxes cannot say. Without either,
a Memory server may still have the checkpoint.
"""

from __future__ import annotations

from holdfast.core.initiative_sources import initiative_from_pages
from holdfast.core.initiatives import CREATE, STATUSES, key_of
from holdfast.core.refusal import word
from holdfast.errors import Refused
from holdfast.initiatives import pages, sources
from holdfast.initiatives.paths import InitiativePaths
from holdfast.initiatives.status_yaml import NAME, BadStatus
from holdfast.keeper.initiative_link import milestone_folders, unknown_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.initiative_sources import Source
    from holdfast.core.types import Fields, Initiative, Initiatives
    from holdfast.keeper.store import Store


def recovered(store: Store, state: Initiatives, name: str | None) -> Fields:
    """Return the arguments of the command that records a recovered initiative.

    Raise ``Refused`` if there is nothing to recover, or several initiatives and no name.
    """
    folder = _select_folder(store, state, name)
    if folder is None:
        return _from_server(store, state, name)
    paths = InitiativePaths(store)
    status_file = paths.status_file(folder)
    status = paths.read_status(status_file)
    read = paths.read_pages(folder, known=status.progress if status else ())
    title, milestones = pages.merge_pages(read)
    title = title or (status.initiative if status else None) or folder
    initiative = initiative_from_pages(title, milestones, store.now())
    used = [place for place, page in read if page.milestones]
    if status is not None and status.initiative in (None, title, folder):
        initiative = _with_status(store, initiative, status.source(NAME, status_file))
        used.append(status_file)
    if not initiative["milestones"]:
        where = paths.folder(folder)
        raise Refused(
            "not_found",
            f"initiative recover: {where} tells of no milestone",
            f"write headings such as '## M1: title' with boxes in {where}/README.md, or {CREATE}",
        )
    key = folder if key_of(folder) == folder else key_of(title)
    if key != folder:
        initiative["folder"] = folder
    return {"initiative": key, "state": initiative, "sources": used}


def _select_folder(store: Store, state: Initiatives, name: str | None) -> str | None:
    if name is not None:
        folders = milestone_folders(store.workspace)
        return next((folder for folder in (name, key_of(name)) if folder in folders), None)
    unknown = unknown_folders(store.workspace, state)
    if len(unknown) > 1:
        raise Refused(
            "ambiguous",
            f"initiative recover: there are several folders: {', '.join(unknown[:10])}",
            f"holdfast initiative recover {word(unknown[0])}",
            candidates=unknown,
        )
    return unknown[0] if unknown else None


def _with_status(store: Store, initiative: Initiative, source: Source) -> Initiative:
    """Return the initiative with what boxes cannot say: blocked, ended, the current milestone."""
    milestones = initiative["milestones"]
    completed = [each["id"] for each in milestones if each["status"] == "completed"]
    open_ids = [each["id"] for each in milestones if each["id"] not in completed]
    source.progress = {
        key: status
        for key, status in source.progress.items()
        if key not in completed and (key not in open_ids or status in ("in_progress", "blocked"))
    }
    if source.milestone not in (*open_ids, *source.progress):
        source.milestone = None
    status = source.status
    if status is not None and STATUSES.get(status, 0) < STATUSES[initiative["status"]]:
        source.status = None
    try:
        return sources.apply_source(initiative, source, store)
    except BadStatus as bad:
        store.note(f"{source.place} is left out: {bad.why}")
        return initiative


def _from_server(store: Store, state: Initiatives, name: str | None) -> Fields:
    checkpoint = sources.read_server(store)
    title = str((checkpoint or {}).get("initiative", ""))
    is_known = title in [initiative["name"] for initiative in state["all"].values()]
    if checkpoint is None or is_known or name not in (None, title, key_of(title)):
        what = f"folder for {name[:80]!r}" if name else "folder with milestones"
        hint = "holdfast initiative show" if state["all"] else CREATE
        raise Refused("not_found", f"initiative recover: there is no {what} to recover from", hint)
    source = sources.checkpoint_source(checkpoint)
    initiative = sources.apply_source(initiative_from_pages(title, [], store.now()), source, store)
    store.note(f"rebuilt from the memory graph as of {source.at}; tasks and titles are lost")
    return {"initiative": key_of(title), "state": initiative, "sources": [sources.GRAPH]}
