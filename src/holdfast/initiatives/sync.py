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
    initiative_from_pages,
)
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import stream_of
from holdfast.initiatives import BadFile, pages, sources
from holdfast.initiatives.sources import SYNC_COMMAND, InitiativeFiles, find_conflict
from holdfast.keeper.logs import LOG, has_initiatives
from holdfast.keeper.requests import fingerprint
from holdfast.storage import shared_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.types import Fields, Initiative, InitiativesState
    from holdfast.initiatives.sources import Conflict
    from holdfast.keeper.session import Receipt, Session

    T = TypeVar("T")
    Patch = Callable[[bytes | None], bytes | None]
    """From the bytes of a file to its new bytes; ``None`` is no file."""

LOCK = "initiatives.lock"
LOCK_WAIT_S = 5.0
_STREAM = stream_of(LOG)
_CORRECT = "correct_initiative"
_MAX_ROUNDS = 4


class Sync:
    """The sources of the current initiative in one worktree."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store
        self._compared: bytes | None = None
        """``WORKFLOW-STATUS.yaml`` as it was last compared with the record."""

    # The record

    def load(self) -> InitiativesState:
        """Load the record with its edits, and write it anew if it is gone. Return the state."""
        if not has_initiatives(self._session):
            return core.blank()
        workspace, record = self._store.workspace, self._session.log_path(LOG)
        was_written = self._store.ledger.record(workspace.name, record) is not None
        is_gone = was_written and not os.path.lexists(workspace.inside(workspace.root, record))
        with self._session.transaction() as tx:
            state: InitiativesState = tx.load(_STREAM)
        if is_gone:
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

    def find_repeat(self, id: str | None) -> Receipt | None:
        """Return the answer to a request that was carried out before."""
        if id is None or not has_initiatives(self._session):
            return None
        with self._session.transaction() as tx:
            events = tx.repeat(id, log=_STREAM, request_digest=fingerprint(_CORRECT, {}))
            if not events:
                return None
            seqs = [event["seq"] for event in events]
            return self._session.answer(tx.load(_STREAM), seqs)

    def check_status_file(self, command: str, args: Fields) -> None:
        """Raise ``Refused`` if the status file that a command would update is broken or outside."""
        state = self.state()
        key = state["current"]
        if command == "create_initiative":
            key = core.key_of(args["name"])
        elif command == "use_initiative":
            key = core.find_key(state, args["name"])
        elif command == "recover_initiative":
            key = args["initiative"]
        if key is not None:
            initiative = state["all"].get(key) or args.get("state")
            initiative = initiative or initiative_from_pages(key, [], self._store.now())
            InitiativeFiles(self._store, key, initiative).read_status()

    # Comparing and repairing

    def agree(self, *, is_strict: bool = False) -> list[int]:
        """Load the record, compare the sources and repair stale ones; return the seqs.

        A broken file becomes a note; if ``is_strict``, raise ``Refused``.
        """
        seqs: list[int] = []
        for _ in range(_MAX_ROUNDS):
            try:
                self.load()
                added = self._agree_once()
            except HoldfastError as error:
                if is_strict:
                    raise
                self._store.note(f"{error.message}: {error.hint}")
                break
            seqs += added
            if not added:
                break
        return seqs

    def _agree_once(self) -> list[int]:
        files = self._current()
        if files is None:
            return []
        self._compared = files.read(files.status_file)
        conflict = find_conflict(files, self._compared, ask_server=True)
        if conflict is None:
            return []
        for source in conflict.verdict.stale:
            folder = os.path.dirname(files.path(source.place)) if source.place else ""
            if folder and not os.access(folder, os.W_OK):
                # Else each change would add an event.
                self._store.note(f"{source.place} is stale, and its folder cannot be written")
                return []
        seqs = self._repair(files, conflict)
        self.write()
        return seqs

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
        id: str | None = None,
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
        receipt = self._session.do_log(LOG, _CORRECT, {**correction, **args}, id=id)
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

    def conflict(self, state: InitiativesState) -> Conflict | None:
        """Return the conflict of the status file with the record; ask no server.

        Raise ``Refused`` if the file is broken.
        """
        files = self._files_of(state)
        if files is None:
            return None
        return find_conflict(files, files.read(files.status_file), ask_server=False)

    def describe_files(self, key: str, initiative: Initiative) -> Fields:
        """Return the files of an initiative, and where its pages differ; note that too."""
        files = InitiativeFiles(self._store, key, initiative)
        fields: Fields = {"status_file": files.status_file}
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

    def compare_pages(self) -> None:
        """Note where the milestone pages differ; they are taken in only on request."""
        files = self.noting(self._current)
        if files is not None:
            self.describe_files(files.key, files.initiative)

    def take_pages(self, id: str | None = None) -> list[int]:
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
        return self._correct(files, right, stale, {"state": after}, id)

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
                    if not only_pages:
                        lost = self._write_status(files)
                    self._tick_pages(files)
            finally:
                disk.close(lock)
        except (OSError, HoldfastError) as error:
            why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            self._store.note(f"not all files could be written ({why}): {SYNC_COMMAND}")
        current = self._current() if lost else None
        if current is not None:
            self._correct(current, sources.record_source(current.initiative), lost, {})

    def check_written(self) -> None:
        """Raise a ``Fault`` if ``WORKFLOW-STATUS.yaml`` differs from the record after a write."""
        files = self._current()
        if files is None:
            return
        status = files.read_status()
        if status is None or status.source().differs(sources.record_source(files.initiative)):
            raise Fault(
                "not_written",
                f"initiative sync: {files.status_file} could not be written",
                f"make its folder writable, then run {SYNC_COMMAND}",
            )

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

        self._update(files, path, patch)
        return lost

    def _tick_pages(self, files: InitiativeFiles) -> None:
        """Tick the boxes of the pages; write Holdfast's own page anew if it is gone."""
        initiative = files.initiative
        readme = f"{files.folder}/{pages.README}"
        is_own = bool(initiative.get("files"))
        paths = [page.path for page in files.read_pages(is_strict=False)]
        if is_own and not os.path.lexists(files.path(readme)):
            paths.append(readme)
        for path in paths:

            def patch(raw: bytes | None, path: str = path) -> bytes | None:
                if raw is None:
                    return pages.new_page(initiative) if is_own and path == readme else None
                page = pages.MilestonePage(raw, path, files.milestone_ids)
                add_tasks = is_own and path.endswith(f"/{pages.README}")
                return page.ticked(initiative, add_tasks=add_tasks)

            self._update(files, path, patch)

    def _update(self, files: InitiativeFiles, name: str, patch: Patch) -> None:
        store, path = self._store, files.path(name)
        store.disk.make_folder(os.path.dirname(path))
        shared_file.update(store.disk, path, patch, name, store.note, store.pause)
