"""Keep ``WORKFLOW-STATUS.yaml`` and the milestone pages in step with the record of initiatives.

Every change runs through here. The record is loaded first, with edits of it. Then the sources are
compared: the newest is taken in, stale ones are written again, and an event keeps what those said.
The files belong to people too, so they are patched, under a lock of their own and never under the
ledger's. What is written is always the state of now, so a missed write is made good by the next.
"""

from __future__ import annotations

import os

from holdfast.core import initiatives as core
from holdfast.core.initiative_sources import (
    Source,
    apply_pages,
    correction_text,
)
from holdfast.core.text_merge import merge_lines
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import stream_of
from holdfast.initiatives import ALWAYS, IF_UNCLEAR, NEVER, BadFile, pages, sources
from holdfast.initiatives.sources import SYNC_COMMAND, InitiativeFiles, find_conflict
from holdfast.keeper.checkpoints import server_of, unknown_checkpoints
from holdfast.keeper.logs import LOG, has_initiatives, initiative_view
from holdfast.layers.graph import mcp_delivery
from holdfast.storage import shared_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.types import Fields, Initiative, InitiativesState
    from holdfast.initiatives.sources import Conflict
    from holdfast.initiatives.status_yaml import Status
    from holdfast.keeper.session import Receipt, Session
    from holdfast.storage.shared_file import Merge

    T = TypeVar("T")
    Patch = Callable[[bytes | None], bytes | None]
    """From the bytes of a file to its new bytes; ``None`` is no file."""

LOCK = "initiatives.lock"
LOCK_WAIT_S = 5.0
_STREAM = stream_of(LOG)
_CORRECT = "correct_initiative"
_MAX_ROUNDS = 4
_MAX_PREVIEWS = 5


class Sync:
    """The sources of the current initiative in one worktree."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store
        self._compared: bytes | None = None
        """``WORKFLOW-STATUS.yaml`` as it was last compared with the record."""
        self._unusable: dict[str, HoldfastError] = {}
        """Why a status file is left as it is, by its path."""
        self._senseless: bytes | None = None
        """A status file that was the newest source, and whose values make no sense."""
        self._checkpoint: Source | None = None
        """The last answer of a Memory server about the current initiative."""
        self._is_set_aside = False
        """True if a record that could not be read was set aside, and no initiative is known."""

    # The record

    def load(self) -> InitiativesState:
        """Load the record with its edits, and write it anew if it is gone. Return the state."""
        if not has_initiatives(self._session):
            return core.blank()
        workspace, record = self._store.workspace, self._session.log_path(LOG)
        path = workspace.inside(workspace.root, record)
        was_written = self._store.ledger.record(workspace.name, record) is not None
        was_there = os.path.lexists(path)
        with self._session.transaction() as tx:
            state: InitiativesState = tx.load(_STREAM)
        if was_there and not state["all"] and not os.path.lexists(path):
            self._is_set_aside = True
        if was_written and not was_there and os.path.lexists(path):
            self._store.note(f"{record} was missing and was written again")
        return state

    def state(self) -> InitiativesState:
        """Return the state as of the last event."""
        stream = self._store.ledger.stream(_STREAM)
        return core.blank() if stream is None else stream.state

    def _current(self) -> InitiativeFiles | None:
        """Return the current initiative with its files; raise ``Refused`` for broken settings."""
        return self._files_of(self.state())

    def _files_of(self, state: InitiativesState) -> InitiativeFiles | None:
        initiative = core.current_of(state)
        if initiative is None:
            return None
        return InitiativeFiles(self._store, str(state["current"]), initiative)

    def find_repeat(self, id: str | None, request_digest: str) -> Receipt | None:
        """Return the answer to a request that was carried out before."""
        if id is None or not has_initiatives(self._session):
            return None
        with self._session.transaction() as tx:
            events = tx.repeat(id, log=_STREAM, request_digest=request_digest)
            if not events:
                return None
            seqs = [event["seq"] for event in events]
            return self._session.answer(tx.load(_STREAM), seqs)

    def rebuild(self) -> list[int]:
        """Rebuild an initiative whose record was set aside; return the seqs.

        Raise ``Refused`` if several could be meant.
        """
        if not self._is_set_aside:
            return []
        self._is_set_aside = False
        try:
            args = sources.recovered(self._store, self.state(), None)
        except Refused as refused:
            if refused.code != "not_found":
                raise
            return []
        receipt = self._session.do_log(LOG, "recover_initiative", args)
        self._store.note(f"{sources.RECORD} was rebuilt from {', '.join(args['sources'])}")
        for note in receipt.notes:
            self._store.note(note)
        return receipt.seqs

    # Comparing and repairing

    def agree(self, *, is_strict: bool = False, ask: str = IF_UNCLEAR) -> list[int]:
        """Load the record, compare the sources and repair stale ones; return the seqs.

        ``ask``: when to ask a Memory server. A status file that cannot be used is noted and left as
        it is. Any other error becomes a note too; if ``is_strict``, raise it.
        """
        seqs: list[int] = []
        for _ in range(_MAX_ROUNDS):
            try:
                self.load()
                added = self._agree_once(ask)
            except HoldfastError as error:
                if is_strict:
                    raise
                self._store.note(f"{error.message}: {error.hint}")
                break
            seqs += added
            if not added:
                break
            # What it says was weighed, and is told by then.
            ask = IF_UNCLEAR if ask == ALWAYS else ask
        return seqs

    def _agree_once(self, ask: str) -> list[int]:
        files = self._current()
        if files is None:
            return []
        conflict = self._compare(files, ask)
        if conflict is None:
            return []
        for source in conflict.verdict.stale:
            folder = os.path.dirname(files.path(source.place)) if source.place else ""
            if folder and not os.access(folder, os.W_OK):
                # Else each change would add an event.
                self._store.note(f"{source.place} is stale, and its folder cannot be written")
                return []
        try:
            seqs = self._repair(files, conflict)
        except BadFile as bad:
            self._senseless = self._compared
            self._leave(files, bad)
            return []
        self.write()
        return seqs

    def _compare(self, files: InitiativeFiles, ask: str) -> Conflict | None:
        """Compare the sources; note a status file that cannot be used, and do without it."""
        status = None
        try:
            status = self._read_status(files)
        except HoldfastError as error:
            self._leave(files, error)
        conflict = find_conflict(files, status, ask)
        if ask == ALWAYS:
            self._checkpoint = files.checkpoint
        return conflict

    def _read_status(self, files: InitiativeFiles) -> Status | None:
        """Return the parsed status file; ``None`` without one, or if it has nothing new.

        Raise ``BadFile`` if it makes no sense, also after a program that was writing it has ended.
        """
        self._compared = files.read(files.status_file)
        if self._compared is not None and self._compared == self._senseless:
            return None
        self._unusable.pop(files.status_file, None)
        try:
            return files.parse_changed(self._compared)
        except BadFile:
            path = files.path(files.status_file)
            complete = shared_file.read_complete(self._store.disk, path, self._store.pause)
            if complete == self._compared:
                raise
            self._compared = complete
            return files.parse_changed(complete)

    def _leave(self, files: InitiativeFiles, error: HoldfastError) -> None:
        """Note why the status file cannot be used; it is not written until that is fixed."""
        self._unusable[files.status_file] = error
        fix = error.fix if isinstance(error, BadFile) else error.hint.partition(", then")[0]
        self._store.note(f"{error.message}: {fix}, then {SYNC_COMMAND}")

    def _repair(self, files: InitiativeFiles, conflict: Conflict) -> list[int]:
        """Take in the source that is right; return the seqs.

        Keep the record if another source is right and invalid. Raise ``BadFile`` if that is the
        status file, which a person can fix.
        """
        verdict, status = conflict.verdict, conflict.status
        right = verdict.authoritative
        args: Fields = {}
        why = ""
        if right.name != sources.RECORD:
            try:
                args["state"] = sources.apply_source(files.initiative, right, self._store, status)
            except BadFile as bad:
                if right.name == sources.NAME:
                    raise
                why = bad.why
        if not why:
            if verdict.warning:
                self._store.note(verdict.warning)
            try:
                return self._correct(files, right, verdict.stale, args)
            except Refused as refused:
                if refused.code != "wrong_order":
                    raise
                why = refused.message
        self._store.note(f"{right.name} is not taken: {why}")
        own = sources.record_source(files.initiative)
        stale = [source for source in verdict.compared if source.differs(own)]
        return self._correct(files, own, stale, {})

    def _correct(
        self, files: InitiativeFiles, right: Source, stale: list[Source], args: Fields,
        id: str | None = None, request_digest: str = "",
    ) -> list[int]:  # fmt: skip
        """Record which source is right, and what the stale ones said; return the seqs."""
        summary = correction_text(stale, right)
        correction = {
            "initiative": files.key,
            "authoritative": right.name,
            "stale": [source.name for source in stale],
            "lost": {source.name: source.content() for source in stale},
            "said": summary,
            "seen": files.initiative["updated_at"],
        }
        receipt = self._session.do_log(
            LOG, _CORRECT, {**correction, **args}, id=id, request_digest=request_digest
        )
        for note in [*receipt.notes, *([summary] if receipt.seqs else [])]:
            self._store.note(note)
        return receipt.seqs

    # Looking

    def noting(self, look: Callable[[], T]) -> T | None:
        """Return the result of a look at files; note an error and return ``None``."""
        try:
            return look()
        except HoldfastError as error:
            self._store.note(f"{error.message}: {error.hint}")
            return None

    def conflict(self, state: InitiativesState, *, ask: str = NEVER) -> Conflict | None:
        """Return what disagrees with the record; note a status file that cannot be used.

        Raise ``Refused`` if the settings are broken.
        """
        files = self._files_of(state)
        return None if files is None else self._compare(files, ask)

    @property
    def status_error(self) -> str:
        """Why the status file that was last compared cannot be used; empty if it can."""
        return next((error.message for error in self._unusable.values()), "")

    def previews(self, folders: list[str]) -> list[Fields]:
        """Return the initiatives that milestone folders tell of, as ``recover`` would make them."""
        views = []
        for folder in folders[:_MAX_PREVIEWS]:
            args = self.noting(lambda: sources.recovered(self._store, core.blank(), folder))  # noqa: B023
            if args is not None:
                view = initiative_view(args["initiative"], args["state"])
                views.append({**view, "folder": folder, "sources": args["sources"]})
        return views

    def known_to_server(self, state: InitiativesState) -> list[str]:
        """Return the names of initiatives that only a Memory server knows."""
        return unknown_checkpoints(self._store, state)

    def describe_files(self, key: str, initiative: Initiative) -> Fields:
        """Return the files of an initiative, and where its pages differ; note that too."""
        files = InitiativeFiles(self._store, key, initiative)
        is_there = os.path.lexists(os.path.join(self._store.workspace.root, files.status_file))
        fields: Fields = {"status_file": files.status_file if is_there else None}
        page = self.noting(files.unedited_page)
        if page is not None:
            return {**fields, "pages": [page]}
        milestone_pages = self.noting(lambda: files.read_pages(is_strict=False)) or []
        paths = [page.path for page in milestone_pages if page.milestones]
        disagreements = sources.disagreements_of(files, milestone_pages)
        return {**fields, "pages": paths, "disagreements": disagreements}

    def recovered(self, name: str | None) -> Fields:
        """Return the arguments of the command that records a recovered initiative."""
        return sources.recovered(self._store, self.load(), name)

    # Milestone pages

    def compare_pages(self) -> bool:
        """Note where the milestone pages differ; return whether they do.

        They are taken in only on request.
        """
        files = self.noting(self._current)
        return files is not None and bool(
            self.describe_files(files.key, files.initiative).get("disagreements")
        )

    def take_pages(self, id: str | None = None, request_digest: str = "") -> list[int]:
        """Let the record follow the milestone pages; return the seqs.

        Raise ``Refused`` if a page is broken or none has a milestone.
        """
        files = self._current()
        if files is None:
            return []
        _, milestones = pages.merge_pages(files.read_pages())
        if not milestones:
            why = f"initiative sync: {files.folder} has no page with milestones"
            raise Refused("not_found", why, "write headings such as '## M1: title' with boxes")
        after = apply_pages(files.initiative, milestones)
        if after == files.initiative:
            return []
        right = Source(sources.FILES, None, None, None, {})
        stale = [sources.record_source(files.initiative)]
        return self._correct(files, right, stale, {"state": after}, id, request_digest)

    # Writing the files

    def write(self, *, only_pages: bool = False) -> None:
        """Bring every file to the state of the record; an error becomes a note.

        A status file that was saved since it was compared is overwritten, and an event keeps it.
        """
        disk, home = self._store.disk, self._store.workspace.home
        lost: list[Source] = []
        try:
            lock = disk.lock(os.path.join(home, LOCK), LOCK_WAIT_S)
            try:
                files = self._current()
                if files is not None:
                    if not only_pages and files.status_file not in self._unusable:
                        lost = self._noting_fault(lambda: self._write_status(files)) or []
                    self._noting_fault(lambda: self._tick_pages(files))
            finally:
                disk.close(lock)
        except (OSError, HoldfastError) as error:
            self._note_unwritten(error)
        current = self._current() if lost else None
        if current is not None:
            self._correct(current, sources.record_source(current.initiative), lost, {})

    def _noting_fault(self, write: Callable[[], T]) -> T | None:
        """Write one kind of file; an error is noted, and keeps no other file from being written."""
        try:
            return write()
        except (OSError, HoldfastError) as error:
            self._note_unwritten(error)
            return None

    def _note_unwritten(self, error: OSError | HoldfastError) -> None:
        if isinstance(error, BadFile):
            self._store.note(f"{error.message}: {error.fix}, then {SYNC_COMMAND}")
            return
        why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
        self._store.note(f"not all files could be written ({why}): {SYNC_COMMAND}")

    def check_written(self, seqs: list[int]) -> None:
        """Raise if ``WORKFLOW-STATUS.yaml`` differs from the record after a write.

        ``seqs`` are what was recorded: with any, that is a ``Fault`` and no refusal.
        """
        files = self._current()
        if files is None:
            return
        error = self._unusable.get(files.status_file)
        if error is not None and not seqs:
            raise error
        if error is not None:
            message = f"initiative sync: the record is written, but {error.message}"
            raise Fault("not_written", message, error.hint)
        status = files.read_status()
        if status is None or status.source().differs(sources.record_source(files.initiative)):
            raise Fault(
                "not_written",
                f"initiative sync: {files.status_file} could not be written",
                f"make its folder writable, then run {SYNC_COMMAND}",
            )

    def update_server(self) -> bool:
        """Bring a Memory server up to date if its checkpoint was stale; return whether it was."""
        files, checkpoint = self._current(), self._checkpoint
        if files is None or checkpoint is None:
            return False
        own = sources.record_source(files.initiative)
        server = server_of(self._store) if checkpoint.differs(own) else None
        if server is None:
            return False
        # A server that has every event and says something else was edited by another program.
        is_edited = mcp_delivery.delivered_seq(self._store) >= self._store.ledger.head_seq
        delivery = mcp_delivery.deliver(self._store, server, everything=is_edited)
        if not delivery["why"]:
            self._store.note(correction_text([checkpoint], own))
        return True

    def _write_status(self, files: InitiativeFiles) -> list[Source]:
        """Update ``WORKFLOW-STATUS.yaml``; return what was saved there since it was compared."""
        initiative, path = files.initiative, files.status_file
        values, progress = sources.status_values(initiative)
        values["updated"] = initiative["updated_at"]
        lost: list[Source] = []

        def patch(raw: bytes | None) -> bytes | None:
            nonlocal lost
            lost = []
            if raw is None or not raw.strip():
                return sources.new_status_file(values, progress)
            status = files.parse_status(raw)
            saved = status.source()
            if raw != self._compared and saved.differs(sources.record_source(initiative)):
                lost = [saved]
            others = {} if status.forced is None else {sources.FORCED: "none"}
            return status.with_values({**others, **values}, progress)

        self._update(files, path, patch)  # Two saves of a YAML file are not merged by lines.
        return lost

    def _tick_pages(self, files: InitiativeFiles) -> None:
        """Tick the boxes of the pages; write Holdfast's own page anew if it is gone."""
        initiative = files.initiative
        readme = f"{files.folder}/{pages.README}"
        is_own = bool(initiative.get("files"))
        all_pages = files.read_pages(is_strict=False)
        paths = [page.path for page in all_pages]
        others = [page for page in all_pages if page.path != readme]
        elsewhere = {milestone for page in others for milestone in page.milestones}
        if is_own and not os.path.lexists(files.path(readme)):
            paths.append(readme)
        for path in paths:

            def patch(raw: bytes | None, path: str = path) -> bytes | None:
                if raw is None:
                    return pages.new_page(initiative) if is_own and path == readme else None
                page = pages.MilestonePage(raw, path, files.milestone_ids)
                return page.ticked(
                    initiative, is_own=is_own and path == readme, elsewhere=elsewhere
                )

            self._update(files, path, patch, merge_lines)

    def _update(
        self, files: InitiativeFiles, name: str, patch: Patch, merge: Merge | None = None
    ) -> None:
        store, path = self._store, files.path(name)
        store.disk.make_folder(os.path.dirname(path))
        shared_file.update(store.disk, path, patch, name, store.note, store.pause, merge)
