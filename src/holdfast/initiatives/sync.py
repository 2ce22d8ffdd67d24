"""Keep the sources of the current initiative in step with its record. All of this is for changes.

The record is settled first. Then the sources are compared; one that is newer is taken in, one that
is stale is written anew, and what the loser said is kept in an event.
"""

from __future__ import annotations

import os

from holdfast.core import initiatives as core
from holdfast.core import source_of_truth
from holdfast.core.milestones import apply_pages, disagreements, in_a_note
from holdfast.core.source_of_truth import Source
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.formats.aggregates import stream_of
from holdfast.initiatives import LOG, pages, sources, status_yaml
from holdfast.initiatives.comparison import MEND, compare
from holdfast.initiatives.files import Files
from holdfast.initiatives.paths import Places, bad_file
from holdfast.initiatives.workflow_link import is_known
from holdfast.keeper.session import Receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.source_of_truth import Verdict
    from holdfast.core.types import Fields, Initiative, Initiatives
    from holdfast.initiatives.comparison import Comparison
    from holdfast.keeper.session import Session

_STREAM = stream_of(LOG)
_MAX_ROUNDS = 4


class Layers:
    """What follows the record of initiatives in one worktree."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store
        self._places: Places | None = None
        self._files: Files | None = None

    def places(self) -> Places:
        if self._places is None:
            self._places = Places(self._store)
        return self._places

    def _all_files(self) -> Files:
        if self._files is None:
            self._files = Files(self._store, self.places(), self._current)
        return self._files

    # The record

    def settle(self) -> Initiatives:
        """Take in an edit of the record, and write it anew if it is gone. Return the state."""
        if not is_known(self._session):
            return core.blank()
        workspace, place = self._store.workspace, self._session.log_path(LOG)
        path = workspace.inside(workspace.root, place)
        was_written = self._store.ledger.record(workspace.name, place) is not None
        is_gone = was_written and not os.path.lexists(path)
        with self._session.transaction() as tx:
            state: Initiatives = tx.load(_STREAM)
        if is_gone:
            self._store.note(f"{place} was gone and is written anew")
        return state

    def state(self) -> Initiatives:
        """Return the state as of the last event."""
        held = self._store.ledger.stream(_STREAM)
        return core.blank() if held is None else held.state

    def _current(self) -> tuple[str, Initiative] | None:
        state = self.state()
        one = core.current_of(state)
        return None if one is None else (str(state["current"]), one)

    def repeat(self, id: str | None) -> Receipt | None:
        """Return the answer to a request that was carried out before."""
        if id is None or not is_known(self._session):
            return None
        with self._session.transaction() as tx:
            before = tx.repeat(id, log=_STREAM)
            if not before:
                return None
            seqs = [event["seq"] for event in before]
            return Receipt(tx.load(_STREAM), seqs, self._session.notes())

    def check(self, command: str, args: Fields) -> None:
        """Refuse a change while the file that would have to tell of it is broken or outside."""
        state = self.state()
        key = state["current"]
        if command == "create_initiative":
            key = core.key_of(args["name"])
        elif command == "use_initiative":
            key = core.find_key(state, args["name"])
        elif command == "recover_initiative":
            key = args["initiative"]
        if key is not None:
            one = state["all"].get(key) or args.get("state")
            self.places().read_status(self.places().status(key, one))

    # Comparing and mending

    def agree(self, *, is_strict: bool = False) -> list[int]:
        """Settle the record, compare the sources and mend the stale ones; return the events.

        ``is_strict``: a broken file is refused, not only noted.
        """
        seqs: list[int] = []
        for _ in range(_MAX_ROUNDS):
            try:
                self.settle()
                made = self._agree_once()
            except HoldfastError as error:
                if is_strict:
                    raise
                self._store.note(f"{error.message}: {error.hint}")
                break
            seqs += made
            if not made:
                break
        return seqs

    def _agree_once(self) -> list[int]:
        here = self._current()
        if here is None:
            return []
        compared = compare(self._store, self.places(), *here, asks_server=True)
        self._all_files().compared = compared.raw
        if compared.verdict is None or not self._can_mend(compared.verdict.stale):
            return []
        seqs = self._mend(*here, compared, compared.verdict)
        self.write()
        return seqs

    def _can_mend(self, stale: list[Source]) -> bool:
        """Say whether every stale file can be written; else each change would add an event."""
        for source in stale:
            folder = os.path.dirname(self.places().path(source.place)) if source.place else ""
            if folder and not os.access(folder, os.W_OK):
                self._store.note(f"{source.place} is stale, and its folder cannot be written")
                return False
        return True

    def _mend(self, key: str, one: Initiative, compared: Comparison, verdict: Verdict) -> list[int]:
        right = verdict.authoritative
        args: Fields = {}
        if right.name != sources.RECORD:
            try:
                args["state"] = sources.apply(one, right, self._store)
            except status_yaml.BadStatus as bad:
                if right.name == status_yaml.NAME and compared.status is not None:
                    keys = bad.why.partition(" ")[0].split(".", 1)
                    line = compared.status.line_of(*keys)
                    raise bad_file(right.place, status_yaml.BadStatus(line, bad.why)) from None
                return self._keep_record(key, one, verdict, bad.why)
        if verdict.warning:
            self._store.note(verdict.warning)
        try:
            return self._correct(key, one, right, verdict.stale, args)
        except Refused as refused:
            if refused.code != "wrong_order":
                raise
            return self._keep_record(key, one, verdict, refused.message)

    def _keep_record(self, key: str, one: Initiative, verdict: Verdict, why: str) -> list[int]:
        """Let the newer source follow the record after all: what it says cannot be."""
        self._store.note(f"{verdict.authoritative.name} is not taken: {why}")
        own = sources.of_record(one)
        stale = [source for source in verdict.asked if source.differs(own)]
        return self._correct(key, one, own, stale, {})

    def _correct(
        self, key: str, one: Initiative, right: Source, stale: list[Source], args: Fields,
        id: str | None = None,
    ) -> list[int]:  # fmt: skip
        """Record which source is right, and what the others said."""
        said = source_of_truth.corrected(stale, right)
        correction = {
            "initiative": key,
            "authoritative": right.name,
            "stale": [source.name for source in stale],
            "lost": {source.name: source.content() for source in stale},
            "said": said,
            "seen": one["updated_at"],
        }
        receipt = self._session.do_log(LOG, "correct_initiative", {**correction, **args}, id=id)
        for note in [*receipt.notes, *([said] if receipt.seqs else [])]:
            self._store.note(note)
        return receipt.seqs

    # The files

    def write(self) -> None:
        """Bring all files to what the record says now."""
        lost = self._all_files().write()
        here = self._current()
        if lost and here is not None:
            self._correct(*here, sources.of_record(here[1]), lost, {})

    def tick(self) -> None:
        """Tick the boxes of the pages, and write nothing else."""
        self._all_files().tick()

    def check_written(self) -> None:
        """Raise ``Fault`` if ``WORKFLOW-STATUS.yaml`` could not be brought to what is recorded."""
        here = self._current()
        if here is None:
            return
        place = self.places().status(*here)
        written = self.places().read_status(place)
        own = sources.of_record(here[1])
        if written is None or written.source(status_yaml.NAME, place).differs(own):
            raise Fault(
                "not_written",
                f"initiative sync: {place} could not be written",
                f"make its folder writable, then run {MEND}",
            )

    def compare_pages(self) -> None:
        """Note where the milestone files say something else; they are taken only when asked."""
        here = self._current()
        if here is None:
            return
        key, one = here
        known = [each["id"] for each in one["milestones"]]
        try:
            if self.places().own_page(key, one) is not None:
                return
            read = self.places().read_pages(key, one, known, is_strict=False)
        except HoldfastError as error:
            self._store.note(f"{error.message}: {error.hint}")
            return
        apart = disagreements(one, pages.merged(read)[1])
        if apart:
            self._store.note(in_a_note(apart))

    def take_files(self, id: str | None = None) -> list[int]:
        """Let the record follow the milestone files."""
        here = self._current()
        if here is None:
            return []
        key, one = here
        known = [each["id"] for each in one["milestones"]]
        _, milestones = pages.merged(self.places().read_pages(key, one, known))
        if not milestones:
            where = self.places().folder(key, one)
            why = f"initiative sync: {where} has no page with milestones"
            raise Refused("not_found", why, "write headings such as '## M1: title' with boxes")
        after = apply_pages(one, milestones)
        if after == one:
            return []
        right = Source(sources.FILES, None, None, None, {})
        return self._correct(key, one, right, [sources.of_record(one)], {"state": after}, id)
