"""Initiatives, for the library: goals that last for months, and where they stand.

Every change goes to the ledger and the record first, then to ``WORKFLOW-STATUS.yaml`` where the
moment asks for it, then to the boxes of the milestone pages. Before and after, the sources are
compared and mended. A look compares them too, and says what a change would mend.
"""

from __future__ import annotations

from holdfast.core import initiatives as core
from holdfast.core.selection import ACTIVE, listed
from holdfast.errors import HoldfastError, Refused
from holdfast.initiatives import LOG
from holdfast.keeper.session import Receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.types import Fields, Initiative
    from holdfast.core.types import Initiatives as State
    from holdfast.initiatives.sync import Layers
    from holdfast.keeper.session import Session


class Initiatives:
    """The initiatives of a workspace."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store
        self._opened: Layers | None = None

    @property
    def _layers(self) -> Layers:
        """What follows the record; a look at the record alone does without it."""
        if self._opened is None:
            from holdfast.initiatives.sync import Layers

            self._opened = Layers(self._session)
        return self._opened

    # Changing

    def create(
        self, name: str, milestones: Sequence[str], *, files: bool = False, id: str | None = None
    ) -> Receipt:
        """Begin an initiative with milestones such as ``M1: title``; it is the current one."""
        args = {"name": name, "milestones": [_milestone(text) for text in milestones]}
        return self._change("create_initiative", {**args, "files": files}, id)

    def start(self, milestone: str, *, id: str | None = None) -> Receipt:
        """Start a milestone, or go back to one that is open."""
        return self._change("start_milestone", {"milestone": milestone}, id)

    def task(
        self, milestone: str, text: str, *, done: bool = False, id: str | None = None
    ) -> Receipt:
        """Add a task to a milestone, or tick it."""
        args = {"milestone": milestone, "text": text, "done": done}
        receipt = self._session.do_log(LOG, "record_milestone_task", args, id=id)
        self._layers.tick()
        return self._finish(receipt)

    def complete(self, milestone: str, *, id: str | None = None) -> Receipt:
        """Complete a milestone; the next one is current."""
        receipt = self._change("complete_milestone", {"milestone": milestone}, id)
        left = self._still_open(milestone)
        if left:
            receipt.notes.append(f"of {milestone} there is still open: {listed(left)}")
        return receipt

    def _still_open(self, milestone: str) -> list[str]:
        """Return the workflows that go on after their milestone."""
        from holdfast.initiatives.overview import workflows

        state = self._layers.state()
        key = str(state["current"])
        rows = workflows(self._store, key, state["all"][key])
        return [r["id"] for r in rows if r["milestone"] == milestone and r["status"] in ACTIVE]

    def block(self, reason: str, *, id: str | None = None) -> Receipt:
        """Say that the current initiative cannot go on, and why."""
        return self._change("block_initiative", {"reason": reason}, id)

    def unblock(self, *, id: str | None = None) -> Receipt:
        """Say that the current initiative goes on."""
        return self._change("unblock_initiative", {}, id)

    def finish(
        self, *, force: bool = False, reason: str | None = None, id: str | None = None
    ) -> Receipt:
        """Complete the current initiative, for good; with open milestones by force alone."""
        return self._change("finish_initiative", {"force": force, "reason": reason}, id)

    def archive(self, *, id: str | None = None) -> Receipt:
        """Archive the current initiative, which is completed."""
        return self._change("archive_initiative", {}, id)

    def use(self, name: str, *, id: str | None = None) -> Receipt:
        """Make another initiative the current one."""
        return self._change("use_initiative", {"name": name}, id)

    def sync(self, *, source: str | None = None, id: str | None = None) -> Receipt:
        """Compare all sources and mend those that are stale; ``files`` takes the pages' word."""
        if source not in (None, "files"):
            hint = "holdfast initiative sync --from files"
            raise Refused("invalid", f"initiative sync: {source[:40]!r} is no source", hint)
        repeated = self._layers.repeat(id)
        if repeated is not None:
            return repeated
        if core.current_of(self._layers.settle()) is None:
            hint = "holdfast initiative show, which names what can be recovered"
            raise Refused("not_found", "initiative sync: there is no initiative", hint)
        seqs = self._layers.agree(is_strict=True)
        if source == "files":
            seqs += self._layers.take_files(id)
        self._layers.write()
        receipt = self._finish(Receipt(self._layers.state(), seqs, []))
        self._layers.check_written()
        self._layers.compare_pages()
        receipt.notes.extend(self._store.take_notes())
        return receipt

    def recover(self, name: str | None = None, *, id: str | None = None) -> Receipt:
        """Make a checkpoint from what is left: milestone files, YAML, a Memory server."""
        from holdfast.initiatives import recovery

        args = recovery.rebuild(self._store, self._layers.settle(), name)
        return self._change("recover_initiative", args, id)

    def resume(self) -> Initiative | None:
        """Compare and mend the sources; return the current initiative."""
        self._layers.agree()
        self._layers.compare_pages()
        return core.current_of(self._layers.state())

    def _change(self, command: str, args: Fields, id: str | None) -> Receipt:
        """Carry out a change that every file hears of."""
        seqs = self._layers.agree(is_strict=True)
        self._layers.check(command, args)
        receipt = self._session.do_log(LOG, command, args, id=id)
        receipt.seqs[:0] = seqs
        if receipt.seqs:
            self._layers.write()
        return self._finish(receipt)

    def _finish(self, receipt: Receipt) -> Receipt:
        """Compare the sources once more, and complete the answer."""
        receipt.seqs.extend(self._layers.agree())
        receipt.state = self._layers.state()
        receipt.notes.extend(self._store.take_notes())
        return receipt

    # Looking

    def all(self) -> State:
        """Return every initiative by its key, and which is current, with edits of the record."""
        state: State = self._session.log_state(LOG)
        return state

    def current(self) -> Initiative | None:
        """Return the current initiative; ``None`` where there is none."""
        return core.current_of(self.all())

    def show(self, name: str | None = None) -> tuple[Fields, list[str]]:
        """Return an initiative with its files and workflows, what else there is, and notes."""
        from holdfast.initiatives import overview

        state = self.all()
        key = state["current"] if name is None else core.find_key(state, name)
        if name is not None and key is None:
            no = core.no_such(state, "show", name)
            raise Refused(no.code, no.message, no.hint)
        self._note_difference(state)
        fields = overview.of(self._store, self._layers.places(), state, key)
        return fields, self._store.take_notes()

    def _note_difference(self, state: State) -> None:
        """Note where the status file of the current initiative says something else."""
        from holdfast.initiatives.comparison import MEND, glance
        from holdfast.initiatives.sources import RECORD

        one = core.current_of(state)
        if one is None:
            return
        try:
            compared = glance(self._store, self._layers.places(), str(state["current"]), one)
        except HoldfastError as error:
            self._store.note(f"{error.message}: {error.hint}")
            return
        if compared is None or compared.verdict is None:
            return
        if compared.verdict.warning:
            self._store.note(compared.verdict.warning)
        self._store.note(f"{compared.describe()}; {RECORD} does not: {MEND} mends that")


def _milestone(text: str) -> Fields:
    """Return the id and the title of ``M1: title``."""
    name, _, title = text.partition(":")
    return {"id": name.strip(), "title": title.strip()}
