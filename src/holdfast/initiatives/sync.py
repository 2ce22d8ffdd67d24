"""Keep ``WORKFLOW-STATUS.yaml`` and the milestone pages in step with the record of initiatives.

Every change runs through here. The record is loaded first, with edits of it. Then the sources are
compared: the newest is taken in, stale ones are written anew, and an event keeps what those said.
The files belong to people too, so they are patched, under a lock of their own and never under the
ledger's. What is written is always the state of now, so a missed write is made good by the next.
"""

from __future__ import annotations

import os

from holdfast.core import initiatives as core
from holdfast.core.initiative_sources import Source, apply_pages, correction_text
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats import stream_of
from holdfast.initiatives import BadFile, pages, sources, status_yaml
from holdfast.initiatives.sources import SYNC_COMMAND, InitiativeFiles, compare
from holdfast.keeper.logs import LOG, has_initiatives
from holdfast.keeper.session import Receipt
from holdfast.storage import shared_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.initiative_sources import Verdict
    from holdfast.core.types import Fields, Initiative, InitiativesState
    from holdfast.initiatives.sources import Comparison
    from holdfast.keeper.session import Session

    Patch = Callable[[bytes | None], bytes | None]
    """From the bytes of a file to its new bytes; ``None`` is no file."""

LOCK = "initiatives.lock"
LOCK_WAIT_S = 5.0
_STREAM = stream_of(LOG)
_MAX_ROUNDS = 4


class Sync:
    """The sources of the current initiative in one worktree."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store
        self._files: InitiativeFiles | None = None
        self._compared: bytes | None = None
        """``WORKFLOW-STATUS.yaml`` as it was last compared with the record."""

    @property
    def files(self) -> InitiativeFiles:
        """The files of initiatives. Raises ``Refused`` if the settings are broken."""
        if self._files is None:
            self._files = InitiativeFiles(self._store)
        return self._files

    # The record

    def load(self) -> InitiativesState:
        """Load the record with its edits, and write it anew if it is gone. Return the state."""
        if not has_initiatives(self._session):
            return core.blank()
        workspace, place = self._store.workspace, self._session.log_path(LOG)
        was_written = self._store.ledger.record(workspace.name, place) is not None
        is_gone = was_written and not os.path.lexists(workspace.inside(workspace.root, place))
        with self._session.transaction() as tx:
            state: InitiativesState = tx.load(_STREAM)
        if is_gone:
            self._store.note(f"{place} was gone and is written anew")
        return state

    def state(self) -> InitiativesState:
        """Return the state as of the last event."""
        stream = self._store.ledger.stream(_STREAM)
        return core.blank() if stream is None else stream.state

    def _current(self) -> tuple[str, Initiative] | None:
        """Return the key of the current initiative, and the initiative."""
        state = self.state()
        initiative = core.current_of(state)
        return None if initiative is None else (str(state["current"]), initiative)

    def find_repeat(self, id: str | None) -> Receipt | None:
        """Return the answer to a request that was carried out before."""
        if id is None or not has_initiatives(self._session):
            return None
        with self._session.transaction() as tx:
            events = tx.repeat(id, log=_STREAM)
            if not events:
                return None
            seqs = [event["seq"] for event in events]
            return Receipt(tx.load(_STREAM), seqs, self._session.notes())

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
            self.files.read_status(self.files.status_file(key, initiative))

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
        current = self._current()
        if current is None:
            return []
        comparison = compare(self._store, self.files, *current, ask_server=True)
        self._compared = comparison.raw
        if comparison.verdict is None:
            return []
        for source in comparison.verdict.stale:
            folder = os.path.dirname(self.files.path(source.place)) if source.place else ""
            if folder and not os.access(folder, os.W_OK):
                # Else each change would add an event.
                self._store.note(f"{source.place} is stale, and its folder cannot be written")
                return []
        seqs = self._repair(*current, comparison, comparison.verdict)
        self.write()
        return seqs

    def _repair(
        self, key: str, initiative: Initiative, comparison: Comparison, verdict: Verdict
    ) -> list[int]:
        """Take in the source that is right; return the seqs.

        Raise ``BadFile`` if the status file is right and has an invalid value.
        """
        right = verdict.authoritative
        args: Fields = {}
        if right.name != sources.RECORD:
            try:
                args["state"] = sources.apply_source(
                    initiative, right, self._store, comparison.status
                )
            except BadFile as bad:
                if right.name == status_yaml.NAME:
                    raise
                return self._keep_record(key, initiative, verdict, bad.why)
        if verdict.warning:
            self._store.note(verdict.warning)
        try:
            return self._correct(key, initiative, right, verdict.stale, args)
        except Refused as refused:
            if refused.code != "wrong_order":
                raise
            return self._keep_record(key, initiative, verdict, refused.message)

    def _keep_record(
        self, key: str, initiative: Initiative, verdict: Verdict, why: str
    ) -> list[int]:
        """Keep the record although another source is newer, because that one is invalid."""
        self._store.note(f"{verdict.authoritative.name} is not taken: {why}")
        own = sources.record_source(initiative)
        stale = [source for source in verdict.compared if source.differs(own)]
        return self._correct(key, initiative, own, stale, {})

    def _correct(
        self, key: str, initiative: Initiative, right: Source, stale: list[Source], args: Fields,
        id: str | None = None,
    ) -> list[int]:  # fmt: skip
        """Record which source is right, and what the stale ones said; return the seqs."""
        summary = correction_text(stale, right)
        correction = {
            "initiative": key,
            "authoritative": right.name,
            "stale": [source.name for source in stale],
            "lost": {source.name: source.content() for source in stale},
            "said": summary,
            "seen": initiative["updated_at"],
        }
        receipt = self._session.do_log(LOG, "correct_initiative", {**correction, **args}, id=id)
        for note in [*receipt.notes, *([summary] if receipt.seqs else [])]:
            self._store.note(note)
        return receipt.seqs

    # Milestone pages

    def compare_pages(self) -> None:
        """Note where the milestone pages differ; they are taken in only on request."""
        current = self._current()
        if current is None:
            return
        try:
            if self.files.unedited_page(*current) is None:
                read = self.files.read_pages(*current, is_strict=False)
                sources.disagreements_of(self._store, current[1], read)
        except HoldfastError as error:
            self._store.note(f"{error.message}: {error.hint}")

    def take_pages(self, id: str | None = None) -> list[int]:
        """Let the record follow the milestone pages; return the seqs.

        Raise ``Refused`` if a page is broken or none has a milestone.
        """
        current = self._current()
        if current is None:
            return []
        key, initiative = current
        _, milestones = pages.merge_pages(self.files.read_pages(key, initiative))
        if not milestones:
            where = self.files.folder(key, initiative)
            why = f"initiative sync: {where} has no page with milestones"
            raise Refused("not_found", why, "write headings such as '## M1: title' with boxes")
        after = apply_pages(initiative, milestones)
        if after == initiative:
            return []
        right = Source(sources.FILES, None, None, None, {})
        stale = [sources.record_source(initiative)]
        return self._correct(key, initiative, right, stale, {"state": after}, id)

    # Writing the files

    def write(self) -> None:
        """Bring every file to the state of the record; an error becomes a note.

        A status file that was saved since it was compared is overwritten, and an event keeps it.
        """
        lost: list[Source] = []

        def write(key: str, initiative: Initiative) -> None:
            lost.extend(self._write_status(key, initiative))
            self._tick_pages(key, initiative)

        self._write_locked(write)
        current = self._current()
        if lost and current is not None:
            self._correct(*current, sources.record_source(current[1]), lost, {})

    def tick(self) -> None:
        """Tick the boxes of the pages, and write nothing else."""
        self._write_locked(self._tick_pages)

    def check_written(self) -> None:
        """Raise a ``Fault`` if ``WORKFLOW-STATUS.yaml`` differs from the record after a write."""
        current = self._current()
        if current is None:
            return
        place = self.files.status_file(*current)
        status = self.files.read_status(place)
        own = sources.record_source(current[1])
        if status is None or status.source().differs(own):
            raise Fault(
                "not_written",
                f"initiative sync: {place} could not be written",
                f"make its folder writable, then run {SYNC_COMMAND}",
            )

    def _write_locked(self, write: Callable[[str, Initiative], None]) -> None:
        disk, home = self._store.disk, self._store.workspace.home
        try:
            lock = disk.lock(os.path.join(home, LOCK), LOCK_WAIT_S)
            try:
                current = self._current()
                if current is not None:
                    write(*current)
            finally:
                disk.close(lock)
        except (OSError, HoldfastError) as error:
            why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            self._store.note(f"not all files could be written ({why}): {SYNC_COMMAND}")

    def _write_status(self, key: str, initiative: Initiative) -> list[Source]:
        """Update ``WORKFLOW-STATUS.yaml``; return what was saved there since it was compared."""
        place = self.files.status_file(key, initiative)
        values, progress = sources.status_values(initiative)
        values["updated"] = initiative["updated_at"]
        lost: list[Source] = []

        def patch(raw: bytes | None) -> bytes | None:
            nonlocal lost
            lost = []
            if raw is None or not raw.strip():
                return status_yaml.fresh(values, progress)
            status = status_yaml.Status(raw, place)
            saved = status.source()
            if raw != self._compared and saved.differs(sources.record_source(initiative)):
                lost = [saved]
            return status.with_values(values, progress)

        self._update(place, patch)
        return lost

    def _tick_pages(self, key: str, initiative: Initiative) -> None:
        """Tick the boxes of the pages; write Holdfast's own page anew if it is gone."""
        readme = f"{self.files.folder(key, initiative)}/{pages.README}"
        is_own = bool(initiative.get("files"))
        known = [milestone["id"] for milestone in initiative["milestones"]]
        read = self.files.read_pages(key, initiative, is_strict=False)
        places = [place for place, _ in read]
        if is_own and not os.path.lexists(self.files.path(readme)):
            places.append(readme)
        for place in places:

            def patch(raw: bytes | None, place: str = place) -> bytes | None:
                if raw is None:
                    return pages.new_page(initiative) if is_own and place == readme else None
                page = pages.MilestonePage(raw, place, known)
                add_tasks = is_own and place.endswith(f"/{pages.README}")
                return page.ticked(initiative, add_tasks=add_tasks)

            self._update(place, patch)

    def _update(self, place: str, patch: Patch) -> None:
        store, path = self._store, self.files.path(place)
        store.disk.make_folder(os.path.dirname(path))
        shared_file.update(store.disk, path, patch, place, store.note, store.pause)
