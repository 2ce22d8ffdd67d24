"""Initiatives, for the library: goals that last for months, and where they stand.

Every change goes to the ledger and the record first, then to ``WORKFLOW-STATUS.yaml`` and the
graph where the moment asks for it, then to the boxes of the milestone pages. Before and after, the
sources are compared; who is wrong is mended, and what it said is kept in an event.
"""

from __future__ import annotations

from holdfast.core import initiatives as core
from holdfast.core.choice import ACTIVE, listed
from holdfast.errors import Refused
from holdfast.initiatives.layers import Layers
from holdfast.small import Noted, Small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields
    from holdfast.core.small_shapes import Initiative
    from holdfast.core.small_shapes import Initiatives as State


class Initiatives:
    """The initiatives of a workspace."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._small = Small(caller, "initiatives")
        self._layers = Layers(caller, self._small)

    # Changing

    def create(
        self, name: str, milestones: Sequence[str], *, files: bool = False, id: str | None = None
    ) -> Noted:
        """Begins an initiative with milestones such as ``M1: title``; it is the current one."""
        args = {"name": name, "milestones": [_milestone(text) for text in milestones]}
        return self._changed("create_initiative", {**args, "files": files}, id)

    def start(self, milestone: str, *, id: str | None = None) -> Noted:
        """Starts a milestone, or goes back to one that is open."""
        return self._changed("start_milestone", {"milestone": milestone}, id)

    def task(
        self, milestone: str, text: str, *, done: bool = False, id: str | None = None
    ) -> Noted:
        """Adds a task to a milestone, or ticks it."""
        args = {"milestone": milestone, "text": text, "done": done}
        noted = self._small.do("record_milestone_task", args, id=id)
        self._layers.tick()
        return self._finished(noted)

    def complete(self, milestone: str, *, id: str | None = None) -> Noted:
        """Completes a milestone; the next one is current."""
        noted = self._changed("complete_milestone", {"milestone": milestone}, id)
        noted.notes.extend(self._still_open(milestone))
        return noted

    def _still_open(self, milestone: str) -> list[str]:
        """What is said of workflows that go on after their milestone."""
        from holdfast.initiatives.overview import workflows

        state = self.all()
        rows = workflows(self._caller, str(state["current"]), state["all"][str(state["current"])])
        left = [r["id"] for r in rows if r["milestone"] == milestone and r["status"] in ACTIVE]
        said = [f"of {milestone} there is still open: {listed(left)}"] if left else []
        return [*self._caller.notes(), *said]

    def block(self, reason: str, *, id: str | None = None) -> Noted:
        """Says that the current initiative cannot go on, and why."""
        return self._changed("block_initiative", {"reason": reason}, id)

    def unblock(self, *, id: str | None = None) -> Noted:
        """Says that the current initiative goes on."""
        return self._changed("unblock_initiative", {}, id)

    def finish(
        self, *, force: bool = False, reason: str | None = None, id: str | None = None
    ) -> Noted:
        """Completes the current initiative, for good; with open milestones by force alone."""
        return self._changed("finish_initiative", {"force": force, "reason": reason}, id)

    def archive(self, *, id: str | None = None) -> Noted:
        """Archives the current initiative, which is completed."""
        return self._changed("archive_initiative", {}, id)

    def use(self, name: str, *, id: str | None = None) -> Noted:
        """Makes another initiative the current one."""
        return self._changed("use_initiative", {"name": name}, id)

    def sync(self, *, source: str | None = None, id: str | None = None) -> Noted:
        """Compares all sources and mends those that are stale; ``files`` takes the pages' word."""
        if source not in (None, "files"):
            hint = "holdfast initiative sync --from files"
            raise Refused("invalid", f"initiative sync: {source[:40]!r} is no source", hint)
        if id is not None and (before := self._layers.repeated(id)) is not None:
            return before
        if self.current() is None:
            hint = "holdfast initiative show, which names what can be recovered"
            raise Refused("not_found", "initiative sync: there is no initiative", hint)
        seqs = self._layers.agree(is_strict=True, is_deep=True)
        if source == "files":
            seqs += self._layers.take_files(id)
        self._layers.spread()
        seqs += self._layers.mend_graph()
        noted = self._finished(Noted(self._small.state(), seqs, []))
        self._layers.check_written()
        self._layers.compare_pages()
        noted.notes.extend(self._caller.notes())
        return noted

    def recover(self, name: str | None = None, *, id: str | None = None) -> Noted:
        """Makes a checkpoint from what is left: milestone files, YAML, graph."""
        from holdfast.initiatives import recovery

        args = recovery.found(self._caller, self._small.state(), name)  # type: ignore[arg-type]
        return self._changed("recover_initiative", args, id)

    def _changed(self, command: str, args: Fields, id: str | None) -> Noted:
        """The way of a change that every layer hears of."""
        before = self._layers.agree(is_strict=True)
        self._layers.check(command, args)
        noted = self._small.do(command, args, id=id)
        noted.seqs[:0] = before
        if noted.seqs:
            self._layers.spread()
        return self._finished(noted)

    def _finished(self, noted: Noted) -> Noted:
        """The answer after the sources were compared once more."""
        noted.seqs.extend(self._layers.agree())
        noted.state = self._small.state()
        noted.notes.extend(self._caller.notes())
        return noted

    # Looking

    def all(self) -> State:
        """Every initiative by its key, and which one is current, edits of the record included."""
        state: State = self._small.state()  # type: ignore[assignment]
        return state

    def current(self) -> Initiative | None:
        """The current initiative; ``None`` where there is none."""
        return core.current_of(self.all())

    def resume(self) -> Initiative | None:
        """The current initiative after its sources were compared and mended."""
        self._layers.agree(is_deep=True)
        self._layers.compare_pages()
        return self.current()

    def show(self, name: str | None = None) -> tuple[Fields, list[str]]:
        """An initiative with its files and workflows, what else there is, and what was noticed."""
        from holdfast.initiatives import overview

        self._layers.agree(is_deep=True)
        state = self.all()
        key = state["current"] if name is None else core.found(state, name)
        if name is not None and key is None:
            no = core.no_such(state, "show", name)
            raise Refused(no.code, no.message, no.hint)
        return overview.of(self._caller, self._layers.places(), state, key), self._caller.notes()


def _milestone(text: str) -> Fields:
    """``M1: title`` as its id and its title."""
    name, _, title = text.partition(":")
    return {"id": name.strip(), "title": title.strip()}
