"""The sources of an initiative: its record, ``WORKFLOW-STATUS.yaml``, milestone pages, a server.

Nothing is written here: a change repairs what a comparison shows, a look only reports it. Every
path is inside the workspace. The embedded graph is computed from the ledger, so it always agrees
with the record; a Memory server need not. An initiative that neither the ledger nor the record
knows is recovered from the other sources.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.core.initiative_sources import (
    Source,
    Verdict,
    disagreements,
    in_a_note,
    initiative_from_pages,
    is_unclear,
    weigh,
)
from holdfast.core.initiatives import CREATE, STATUSES, key_of
from holdfast.core.other_layers import observed_values
from holdfast.core.refusal import shell_word
from holdfast.errors import HoldfastError, Refused
from holdfast.formats import initiatives as record
from holdfast.formats.schema import Invalid
from holdfast.initiatives import BadFile, status_yaml
from holdfast.initiatives.pages import README, MilestonePage, merge_pages, new_page
from holdfast.initiatives.status_yaml import NAME, Status
from holdfast.keeper.logs import (
    milestone_folders,
    names_in,
    natural_key,
    path_inside,
    unknown_folders,
    unreadable,
)
from holdfast.system.disk import FOLDER, ODD
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.types import Fields, Initiative, InitiativesState
    from holdfast.keeper.store import Store

RECORD = "initiative.json"
GRAPH = "memory graph"
FILES = "milestone files"
SYNC_COMMAND = "holdfast initiative sync"
_ENTITY = "initiative-checkpoint"
_SERVER = "mcp:"
_MAX_PAGES = 100
_MAX_FILE_BYTES = 2_000_000


# Files


class InitiativeFiles:
    """The files of the initiatives of one worktree. Places are paths from its root."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._workspace = store.workspace
        configured = settings.load(store.workspace.root)
        self._top = configured.milestones
        self._status_file = configured.workflow_status

    def folder(self, key: str, initiative: Initiative | None = None) -> str:
        """Return the place of the folder with the milestone pages."""
        own = None if initiative is None else initiative.get("folder")
        return f"{self._top}/{own or key}"

    def status_file(self, key: str, initiative: Initiative | None = None) -> str:
        """Return the place of ``WORKFLOW-STATUS.yaml``: as configured, else at the root if there
        is one, else in the folder of the initiative.
        """
        if self._status_file is not None:
            return self._status_file
        if os.path.lexists(os.path.join(self._workspace.root, NAME)):
            return NAME
        return f"{self.folder(key, initiative)}/{NAME}"

    def path(self, place: str) -> str:
        """Return the absolute path; raise ``Refused`` if a link leads it out of the workspace."""
        return path_inside(self._workspace, place)

    def read(self, place: str) -> bytes | None:
        """Return the bytes of a file, ``None`` if there is none.

        Raise ``Refused`` for a folder or a pipe, a ``Fault`` for a file that cannot be read.
        """
        try:
            raw = self._store.disk.read(self.path(place), _MAX_FILE_BYTES)
        except OSError as error:
            raise unreadable(place, error) from error
        if raw in (FOLDER, ODD):
            hint = f"move {place} away, then run it again"
            raise Refused("in_the_way", f"{place} is no file", hint)
        return raw

    def read_status(self, place: str) -> Status | None:
        """Return ``WORKFLOW-STATUS.yaml``, ``None`` without one; raise ``BadFile`` if broken."""
        raw = self.read(place)
        return None if raw is None else Status(raw, place)

    def read_pages(
        self,
        key: str,
        initiative: Initiative | None = None,
        known: Collection[str] = (),
        *,
        is_strict: bool = True,
    ) -> list[tuple[str, MilestonePage]]:
        """Return the pages of an initiative: its README, then the others in and below the folder.

        Raise ``BadFile`` if one is broken; unless ``is_strict``, note it and leave it out.
        """
        if initiative is not None:
            known = [milestone["id"] for milestone in initiative["milestones"]]
        pages = []
        for place in self._pages(self.folder(key, initiative)):
            try:
                pages.append((place, MilestonePage(self.read(place) or b"", place, known)))
            except HoldfastError as error:
                if is_strict:
                    raise
                self._store.note(f"{error.message}: {error.hint}")
        return pages

    def unedited_page(self, key: str, initiative: Initiative) -> str | None:
        """Return the place of the only page, if it is as Holdfast would write it now.

        Such a page says what the record says, and needs no parser.
        """
        places = self._pages(self.folder(key, initiative))
        is_unedited = len(places) == 1 and self.read(places[0]) == new_page(initiative)
        return places[0] if is_unedited else None

    def _pages(self, folder: str) -> list[str]:
        names = names_in(self._workspace, folder)
        root = os.path.join(self._workspace.root, folder)
        folders = [name for name in names if os.path.isdir(os.path.join(root, name))]
        places = [name for name in names if name.endswith(".md") and name not in [*folders, README]]
        below = [f"{name}/{README}" for name in folders]
        places += [name for name in below if os.path.isfile(os.path.join(root, name))]
        first = [README] if README in names else []
        pages = [f"{folder}/{name}" for name in [*first, *sorted(places, key=natural_key)]]
        if len(pages) > _MAX_PAGES:
            why = f"{folder} has {len(pages)} pages; {_MAX_PAGES} are the most"
            raise Refused("too_many", f"initiative: {why}", "move what is no milestone elsewhere")
        return pages


# What the sources say


def status_values(initiative: Initiative) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values of ``WORKFLOW-STATUS.yaml`` without the time, and its progress."""
    values = {"initiative": initiative["name"], "milestone": initiative["current_milestone"] or ""}
    values = {key: value for key, value in values.items() if value}
    progress = {milestone["id"]: str(milestone["status"]) for milestone in initiative["milestones"]}
    return {**values, "status": initiative["status"]}, progress


def record_source(initiative: Initiative) -> Source:
    """Return what the record says."""
    _, progress = status_values(initiative)
    milestone, status = initiative["current_milestone"], initiative["status"]
    return Source(RECORD, initiative["updated_at"], milestone, status, progress)


def _checkpoint_source(checkpoint: Fields) -> Source:
    """Return what the checkpoint of a Memory server says."""
    try:
        progress = json_text.loads(str(checkpoint.get("progress", "{}")))
    except json_text.BadJson:
        progress = {}
    pairs = progress.items() if isinstance(progress, dict) else ()
    statuses = {str(key): value for key, value in pairs if isinstance(value, str)}
    milestone, status = checkpoint.get("milestone"), checkpoint.get("status")
    return Source(GRAPH, checkpoint.get("updated"), milestone, status, statuses)


def _read_server(store: Store) -> Fields | None:
    """Return the checkpoint that a Memory server has; ``None`` without a server or a checkpoint.

    A server that failed recently is not asked. An error becomes a note.
    """
    try:
        graph = settings.load(store.workspace.root).graph()
        if not graph.startswith(_SERVER):
            return None
        from holdfast.layers.graph import mcp_delivery

        entities = mcp_delivery.call(
            store,
            graph.removeprefix(_SERVER),
            lambda server: server.open_nodes([_ENTITY])["entities"],
        )
    except HoldfastError as error:
        store.note(error.message)
        return None
    observations = [entity["observations"] for entity in entities if entity["name"] == _ENTITY]
    return observed_values(observations[0]) if observations else None


def apply_source(
    initiative: Initiative, source: Source, store: Store, status: Status | None = None
) -> Initiative:
    """Return the initiative as a source has it, checked like an edit of the record.

    Raise ``BadFile`` if a value of the source is invalid, with its line in ``status``.
    """
    document, rest = record.render_initiative(initiative)
    document["status"] = source.status or document["status"]
    document["progress"] = {**document["progress"], **source.progress}
    document["currentMilestone"] = source.milestone or document["currentMilestone"]
    try:
        return record.parse_initiative(document, rest, store.origin(NAME, store.workspace.name))
    except Invalid as invalid:
        keys = [str(key).replace("currentMilestone", "milestone") for key in invalid.path]
        line = status.line_of(*keys[:2]) if status is not None and keys else 1
        raise BadFile(source.place, line, f"{'.'.join(keys)} {invalid.why}") from None


def disagreements_of(
    store: Store, initiative: Initiative, pages: list[tuple[str, MilestonePage]]
) -> list[str]:
    """Return and note where the milestone pages differ from the record."""
    differences = disagreements(initiative, merge_pages(pages)[1])
    if differences:
        store.note(in_a_note(differences))
    return differences


class Comparison:
    """``WORKFLOW-STATUS.yaml`` compared with the record."""

    __slots__ = ("place", "raw", "status", "verdict")

    def __init__(self, place: str, raw: bytes | None) -> None:
        self.place = place
        """The path of the file, from the root of the worktree."""
        self.raw = raw
        self.status: Status | None = None
        """The parsed file; ``None`` if it is missing or as Holdfast wrote it."""
        self.verdict: Verdict | None = None
        """Which source is right; ``None`` if they agree."""

    def describe(self) -> str:
        """Return a sentence on what the file says."""
        if self.status is None:
            return f"{self.place} is missing"
        stale = [] if self.verdict is None else self.verdict.stale
        if any(source.initiative for source in stale):
            return f"{self.place} speaks of {self.status.initiative}"
        when = f"as of {self.status.updated}" if self.status.updated else None
        words = [word for word in (self.status.milestone, self.status.status, when) if word]
        return f"{self.place} says {' '.join(words) or 'something else'}"

    def notes(self) -> list[str]:
        """Return the notes of a look that shows a disagreement."""
        warning = self.verdict.warning if self.verdict is not None else None
        remedy = f"{self.describe()}; {RECORD} does not: {SYNC_COMMAND} mends that"
        return [warning, remedy] if warning else [remedy]


def compare(
    store: Store, files: InitiativeFiles, key: str, initiative: Initiative, *, ask_server: bool
) -> Comparison:
    """Compare the file with the record; raise ``BadFile`` if the file is broken.

    With ``ask_server``, a Memory server decides where the times of the two do not.
    """
    place = files.status_file(key, initiative)
    comparison = Comparison(place, files.read(place))
    raw = comparison.raw
    if raw is None or status_yaml.is_as_written(raw, *status_values(initiative)):
        return comparison
    own, file = record_source(initiative), Status(raw, place)
    comparison.status = file
    if file.initiative not in (None, initiative["name"]):
        # A file about another initiative is stale, whatever its time.
        stale = file.source(file.initiative)
        comparison.verdict = Verdict(own, [stale], None, [own, stale])
        return comparison
    both, now, server = [own, file.source()], store.now(), None
    if ask_server and is_unclear(both, now):
        checkpoint = _read_server(store)
        if checkpoint is not None and checkpoint.get("initiative") == initiative["name"]:
            server = _checkpoint_source(checkpoint)
    comparison.verdict = weigh(both, server, now)
    return comparison


# Recovery


def recovered(store: Store, state: InitiativesState, name: str | None) -> Fields:
    """Return the arguments of the command that records a recovered initiative.

    Milestone pages say the most. ``WORKFLOW-STATUS.yaml`` adds what boxes cannot say. Without
    either, a Memory server may still have the checkpoint. Raise ``Refused`` if there is nothing to
    recover, or several initiatives and no name.
    """
    folder = _select_folder(store, state, name)
    if folder is None:
        return _recovered_from_server(store, state, name)
    files = InitiativeFiles(store)
    status_file = files.status_file(folder)
    status = files.read_status(status_file)
    read = files.read_pages(folder, known=status.progress if status else ())
    title, milestones = merge_pages(read)
    title = title or (status.initiative if status else None) or folder
    initiative = initiative_from_pages(title, milestones, store.now())
    used = [place for place, page in read if page.milestones]
    if status is not None and status.initiative in (None, title, folder):
        initiative = _with_status(store, initiative, status.source())
        used.append(status_file)
    if not initiative["milestones"]:
        where = files.folder(folder)
        raise Refused(
            "not_found",
            f"initiative recover: {where} tells of no milestone",
            f"write headings such as '## M1: title' with boxes in {where}/README.md, or {CREATE}",
        )
    key = folder if key_of(folder) == folder else key_of(title)
    if key != folder:
        initiative["folder"] = folder
    return {"initiative": key, "state": initiative, "sources": used}


def _select_folder(store: Store, state: InitiativesState, name: str | None) -> str | None:
    if name is not None:
        folders = milestone_folders(store.workspace)
        return next((folder for folder in (name, key_of(name)) if folder in folders), None)
    unknown = unknown_folders(store.workspace, state)
    if len(unknown) > 1:
        raise Refused(
            "ambiguous",
            f"initiative recover: there are several folders: {', '.join(unknown[:10])}",
            f"holdfast initiative recover {shell_word(unknown[0])}",
            candidates=unknown,
        )
    return unknown[0] if unknown else None


def _with_status(store: Store, initiative: Initiative, source: Source) -> Initiative:
    """Return the initiative with what boxes cannot say: blocked, ended, the current milestone."""
    is_open = {m["id"]: m["status"] != "completed" for m in initiative["milestones"]}
    source.progress = {
        key: status
        for key, status in source.progress.items()
        if key not in is_open or (is_open[key] and status in ("in_progress", "blocked"))
    }
    if source.milestone not in source.progress and not is_open.get(source.milestone or ""):
        source.milestone = None
    status = source.status
    if status is not None and STATUSES.get(status, 0) < STATUSES[initiative["status"]]:
        source.status = None
    try:
        return apply_source(initiative, source, store)
    except BadFile as bad:
        store.note(f"{source.place} is left out: {bad.why}")
        return initiative


def _recovered_from_server(store: Store, state: InitiativesState, name: str | None) -> Fields:
    checkpoint = _read_server(store)
    title = str((checkpoint or {}).get("initiative", ""))
    is_known = title in [initiative["name"] for initiative in state["all"].values()]
    if checkpoint is None or is_known or name not in (None, title, key_of(title)):
        what = f"folder for {name[:80]!r}" if name else "folder with milestones"
        hint = "holdfast initiative show" if state["all"] else CREATE
        raise Refused("not_found", f"initiative recover: there is no {what} to recover from", hint)
    source = _checkpoint_source(checkpoint)
    blank = initiative_from_pages(title, [], store.now())
    try:
        initiative = apply_source(blank, source, store)
    except BadFile as bad:
        why = f"initiative recover: the {GRAPH} cannot be used: {bad.why}"
        raise Refused("invalid", why, CREATE) from None
    store.note(f"rebuilt from the memory graph as of {source.at}; tasks and titles are lost")
    return {"initiative": key_of(title), "state": initiative, "sources": [GRAPH]}
