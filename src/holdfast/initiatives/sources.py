"""The sources of an initiative: its record, ``WORKFLOW-STATUS.yaml``, milestone pages, a server.

Nothing is written here: a change repairs what a comparison shows, a look only reports it. Every
path is inside the workspace. The embedded graph is computed from the ledger, so it always agrees
with the record; a Memory server need not. An initiative that neither the ledger nor the record
knows is recovered from the other sources.
"""

from __future__ import annotations

import os
import re

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
from holdfast.core.initiatives import CREATE, STATUSES, find_key, forced_of, key_of, names_of
from holdfast.core.refusal import shell_word
from holdfast.errors import HoldfastError, Refused
from holdfast.formats import initiatives as record
from holdfast.formats.schema import Invalid
from holdfast.initiatives import ALWAYS, IF_UNCLEAR, BadFile
from holdfast.initiatives.pages import README, MilestonePage, merge_pages, new_page
from holdfast.keeper.checkpoints import GRAPH, read_checkpoints
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
    from holdfast.initiatives.status_yaml import Status
    from holdfast.keeper.store import Store

NAME = "WORKFLOW-STATUS.yaml"
PROGRESS = "progress"
FORCED = "forced"
"""The key for what was completed by force."""
RECORD = "initiative.json"
FILES = "milestone files"
SYNC_COMMAND = "holdfast initiative sync"
_MAX_PAGES = 100
_MAX_ROWS = 3
"""Milestones that a sentence on a conflict names."""
_MAX_FILE_BYTES = 2_000_000
_HEADER = (
    "# Where this initiative stands. Holdfast keeps it in step with .claude/initiative.json.\n"
)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?: [A-Za-z0-9_-]+)*|[0-9]{4}-[0-9T:.-]*Z")
_AMBIGUOUS_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


# Files


class InitiativeFiles:
    """The files of one initiative. Its paths are relative to the worktree's root.

    The constructor raises ``Refused`` if the settings are broken.
    """

    def __init__(self, store: Store, key: str, initiative: Initiative) -> None:
        root = store.workspace.root
        configured = settings.load(root)
        self.store = store
        self.key = key
        self.initiative = initiative
        self.milestone_ids = [milestone["id"] for milestone in initiative["milestones"]]
        self.folder = f"{configured.milestones}/{initiative.get('folder') or key}"
        """The folder with the milestone pages."""
        path = configured.workflow_status
        if path is None:
            is_at_root = os.path.lexists(os.path.join(root, NAME))
            path = NAME if is_at_root else f"{self.folder}/{NAME}"
        self.status_file = path
        """The path of ``WORKFLOW-STATUS.yaml``."""
        self.checkpoint: Source | None = None
        """The answer of a Memory server about the initiative, once it was asked."""

    def path(self, name: str) -> str:
        """Return the absolute path; raise ``Refused`` if a link leads it out of the workspace."""
        return path_inside(self.store.workspace, name)

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, ``None`` if there is none.

        Raise ``Refused`` for a folder or a pipe, a ``Fault`` for a file that cannot be read.
        """
        try:
            raw = self.store.disk.read(self.path(path), _MAX_FILE_BYTES)
        except OSError as error:
            raise unreadable(path, error) from error
        if raw in (FOLDER, ODD):
            hint = f"move {path} away, then run it again"
            raise Refused("in_the_way", f"{path} is not a file", hint)
        return raw

    def read_status(self) -> Status | None:
        """Return ``WORKFLOW-STATUS.yaml``, ``None`` without one; raise ``BadFile`` if broken."""
        raw = self.read(self.status_file)
        return None if raw is None else self.parse_status(raw)

    def parse_changed(self, raw: bytes | None) -> Status | None:
        """Return the parsed status file; ``None`` without one, or if it is as Holdfast wrote it.

        Raise ``BadFile`` if it is broken.
        """
        if raw is None or is_as_written(raw, *status_values(self.initiative)):
            return None
        return self.parse_status(raw)

    def parse_status(self, raw: bytes) -> Status:
        """Return the parsed content of ``WORKFLOW-STATUS.yaml``; raise ``BadFile`` if broken."""
        # Imported here alone, because the YAML parser takes longer than everything else.
        from holdfast.initiatives.status_yaml import Status

        return Status(raw, self.status_file)

    def read_pages(
        self, new_ids: Collection[str] = (), *, is_strict: bool = True
    ) -> list[MilestonePage]:
        """Return the pages: the README, then the others in and below the folder.

        ``new_ids`` are ids of milestones that the initiative does not have yet. Raise ``BadFile``
        if a page is broken; unless ``is_strict``, note it and leave it out.
        """
        pages = []
        for path in self._pages():
            try:
                raw = self.read(path) or b""
                pages.append(MilestonePage(raw, path, [*self.milestone_ids, *new_ids]))
            except HoldfastError as error:
                if is_strict:
                    raise
                self.store.note(f"{error.message}: {error.hint}")
        return pages

    def unedited_page(self) -> str | None:
        """Return the path of the only page, if it is as Holdfast would write it now.

        Such a page agrees with the record, and needs no parser.
        """
        paths = self._pages()
        is_unedited = len(paths) == 1 and self.read(paths[0]) == new_page(self.initiative)
        return paths[0] if is_unedited else None

    def _pages(self) -> list[str]:
        workspace, folder = self.store.workspace, self.folder
        names = names_in(workspace, folder)
        root = os.path.join(workspace.root, folder)
        folders = [name for name in names if os.path.isdir(os.path.join(root, name))]
        others = [name for name in names if name.endswith(".md") and name not in [*folders, README]]
        below = [f"{name}/{README}" for name in folders]
        others += [name for name in below if os.path.isfile(os.path.join(root, name))]
        first = [README] if README in names else []
        pages = [f"{folder}/{name}" for name in [*first, *sorted(others, key=natural_key)]]
        if len(pages) > _MAX_PAGES:
            why = f"{folder} has {len(pages)} pages; the limit is {_MAX_PAGES}"
            raise Refused(
                "too_many", f"initiative: {why}", "move what is not a milestone elsewhere"
            )
        return pages


# What the sources say


def status_values(initiative: Initiative) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values of ``WORKFLOW-STATUS.yaml`` without the time, and its progress."""
    values = {"initiative": initiative["name"], "milestone": initiative["current_milestone"] or ""}
    values = {key: value for key, value in values.items() if value}
    progress = {milestone["id"]: str(milestone["status"]) for milestone in initiative["milestones"]}
    values["status"] = initiative["status"]
    forced = [f"{name} ({entry['reason']})" for name, entry in forced_of(initiative).items()]
    if forced:
        values[FORCED] = " ".join("; ".join(forced).split())
    return values, progress


def new_status_file(values: dict[str, str], progress: dict[str, str]) -> bytes:
    """Return a new ``WORKFLOW-STATUS.yaml``."""
    return (_HEADER + "\n".join(status_rows(values, progress)) + "\n").encode()


def is_as_written(raw: bytes, values: dict[str, str], progress: dict[str, str]) -> bool:
    """Return whether a file has these values on lines that Holdfast wrote. Needs no parser."""
    lines = raw.decode(errors="replace").splitlines()
    return all(row in lines for row in status_rows(values, progress) if row != f"{PROGRESS}:")


def status_rows(values: dict[str, str], progress: dict[str, str]) -> list[str]:
    """Return the lines of ``WORKFLOW-STATUS.yaml``."""
    top = [f"{key}: {quoted(value)}" for key, value in values.items()]
    below = [f"  {quoted(key)}: {quoted(value)}" for key, value in progress.items()]
    return [*top, f"{PROGRESS}:", *below]


def quoted(value: str) -> str:
    """Return a value without quotes if every YAML reader takes it for text (or for a time)."""
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _AMBIGUOUS_WORDS
    return value if is_plain else json_text.dumps(value)


def record_source(initiative: Initiative) -> Source:
    """Return what the record says."""
    _, progress = status_values(initiative)
    milestone, status = initiative["current_milestone"], initiative["status"]
    return Source(RECORD, initiative["updated_at"], milestone, status, progress)


def apply_source(
    initiative: Initiative, source: Source, store: Store, status: Status | None = None
) -> Initiative:
    """Return the initiative as a source has it, checked like an edit of the record.

    Raise ``BadFile`` if a value of the source is invalid, with its line in ``status``.
    """
    document, other_fields = record.render_initiative(initiative)
    document["status"] = source.status or document["status"]
    document["progress"] = {**document["progress"], **source.progress}
    origin = store.origin(NAME, store.workspace.name)
    document["currentMilestone"] = source.milestone or document["currentMilestone"]
    try:
        return record.parse_initiative(document, other_fields, origin)
    except Invalid as invalid:
        keys = [str(key).replace("currentMilestone", "milestone") for key in invalid.path]
        line = status.line_of(*keys[:2]) if status is not None and keys else 1
        raise BadFile(source.place, line, f"{'.'.join(keys)} {invalid.why}") from None


def disagreements_of(files: InitiativeFiles, pages: list[MilestonePage]) -> list[str]:
    """Return and note where the milestone pages differ from the record."""
    differences = disagreements(files.initiative, merge_pages(pages)[1])
    if differences:
        files.store.note(in_a_note(differences))
    return differences


class Conflict:
    """Sources that disagree with the record: ``WORKFLOW-STATUS.yaml``, a Memory server."""

    __slots__ = ("status", "verdict")

    def __init__(self, status: Status | None, verdict: Verdict) -> None:
        self.status = status
        self.verdict = verdict

    def describe(self) -> str:
        """Return a sentence on what each of them says."""
        own, *others = self.verdict.compared
        sentences = []
        for source in others:
            name = source.place or f"the {source.name}"
            if source.initiative:
                sentences.append(f"{name} is about {source.initiative}")
            elif source.differs(own):
                facts = " ".join([word for word in (source.milestone, source.status) if word])
                rows = [
                    f"{milestone} {status}"
                    for milestone, status in source.progress.items()
                    if own.progress.get(milestone, status) != status
                ]
                when = f" as of {source.at}" if source.at else ""
                facts_text = "; ".join([text for text in (facts, *rows[:_MAX_ROWS]) if text])
                sentences.append(f"{name} says {facts_text or 'something else'}{when}")
        return ", ".join(sentences)

    def notes(self) -> list[str]:
        """Return the notes of a look that shows the conflict."""
        remedy = f"{self.describe()}; {RECORD} does not: {SYNC_COMMAND} fixes that"
        return [self.verdict.warning, remedy] if self.verdict.warning else [remedy]


def find_conflict(files: InitiativeFiles, status: Status | None, ask: str) -> Conflict | None:
    """Compare the sources with the record; return ``None`` if they agree.

    ``status`` is the status file, unless there is none or it is as Holdfast wrote it.
    """
    store, initiative = files.store, files.initiative
    own, names = record_source(initiative), names_of(files.key, initiative)
    sources, now, server = [own], store.now(), None
    if status is not None and status.initiative not in (None, *names):
        # A file about another initiative is stale, whatever its time.
        stale = status.source(status.initiative)
        return Conflict(status, Verdict(own, [stale], None, [own, stale]))
    if status is not None:
        sources.append(status.source())
    if ask == ALWAYS or (ask == IF_UNCLEAR and is_unclear(sources, now)):
        checkpoints = read_checkpoints(store)
        server = next((checkpoints[name] for name in names if name in checkpoints), None)
    files.checkpoint = server
    verdict = weigh(sources, server, now)
    return None if verdict is None else Conflict(status, verdict)


# Recovery


def recovered(store: Store, state: InitiativesState, name: str | None) -> Fields:
    """Return the arguments of the command that records a recovered initiative.

    Milestone pages say the most. ``WORKFLOW-STATUS.yaml`` adds what boxes cannot say. Without
    either, a Memory server may still have the checkpoint. Raise ``Refused`` if there is nothing to
    recover, or several initiatives and no name.
    """
    if name is not None:
        existing = milestone_folders(store.workspace)
        names = [name, key_of(name), _folder_in(store, name)]
        folders = [folder for folder in names if folder in existing]
    else:
        folders = unknown_folders(store.workspace, state)
        if len(folders) > 1:
            raise Refused(
                "ambiguous",
                f"initiative recover: there are several folders: {', '.join(folders[:10])}",
                f"holdfast initiative recover {shell_word(folders[0])}",
                candidates=folders,
            )
    if not folders:
        return _recovered_from_server(store, state, name)
    folder = folders[0]
    files = InitiativeFiles(store, folder, initiative_from_pages(folder, [], store.now()))
    status, bad = _readable_status(files)
    milestone_pages = files.read_pages(status.progress if status else ())
    title, milestones = merge_pages(milestone_pages)
    if bad is not None and not milestones:
        raise bad
    if bad is not None:
        store.note(f"{bad.message}: {bad.fix}, then {SYNC_COMMAND}")
    title = title or (status.initiative if status else None) or folder
    stated = status.initiative if status is not None else None
    is_beside = files.status_file.startswith(f"{files.folder}/")
    if stated and is_beside and find_key(state, stated) is None:
        # Holdfast writes the name there; the title of a page is for people.
        title = stated
    initiative = initiative_from_pages(title, milestones, store.now())
    used = [page.path for page in milestone_pages if page.milestones]
    if status is not None and status.initiative in (None, title, folder):
        initiative = _with_status(store, initiative, status.source())
        used.append(files.status_file)
    if not initiative["milestones"]:
        raise Refused(
            "not_found",
            f"initiative recover: {files.folder} tells of no milestone",
            f"write headings such as '## M1: title' with boxes in {files.folder}/{README}, "
            f"or {CREATE}",
        )
    key = folder if key_of(folder) == folder else key_of(title)
    if key != folder:
        initiative["folder"] = folder
    return {"initiative": key, "state": initiative, "sources": used}


def _readable_status(files: InitiativeFiles) -> tuple[Status | None, BadFile | None]:
    """Return the status file, ``None`` if there is none or it is broken, and what is wrong."""
    try:
        return files.read_status(), None
    except BadFile as bad:
        return None, bad


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


def _folder_in(store: Store, path: str) -> str:
    """Return the milestone folder that a path leads to or into; empty if it leads to none.

    A relative path begins at the root, as answers print it.
    """
    root = store.workspace.root
    top = os.path.join(root, settings.load(root).milestones)
    if os.path.isabs(path):
        path, top = os.path.realpath(path), os.path.realpath(top)
    folder = os.path.relpath(os.path.join(root, path), top).partition(os.sep)[0]
    return "" if folder in (os.curdir, os.pardir) else folder


def _recovered_from_server(store: Store, state: InitiativesState, name: str | None) -> Fields:
    checkpoints = {
        title: source
        for title, source in read_checkpoints(store).items()
        if find_key(state, title) is None and name in (None, title, key_of(title))
    }
    if not checkpoints:
        what = f"folder for {name[:80]!r}" if name else "folder with milestones"
        hint = "holdfast initiative show" if state["all"] else CREATE
        raise Refused("not_found", f"initiative recover: there is no {what} to recover from", hint)
    if len(checkpoints) > 1:
        titles = list(checkpoints)
        why = f"the {GRAPH} has several initiatives: {', '.join(titles[:10])}"
        hint = f"holdfast initiative recover {shell_word(titles[0])}"
        raise Refused("ambiguous", f"initiative recover: {why}", hint, candidates=titles)
    title, source = next(iter(checkpoints.items()))
    blank = initiative_from_pages(title, [], store.now())
    try:
        initiative = apply_source(blank, source, store)
    except BadFile as bad:
        why = f"initiative recover: the {GRAPH} cannot be used: {bad.why}"
        raise Refused("invalid", why, CREATE) from None
    store.note(f"rebuilt from the memory graph as of {source.at}; tasks and titles are lost")
    return {"initiative": key_of(title), "state": initiative, "sources": [GRAPH]}
