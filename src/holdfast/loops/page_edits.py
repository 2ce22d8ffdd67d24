"""What people changed on a loop's pages, taken into the ledger as commands of the core.

An edit is what a page says otherwise than when it was last written. One that the core refuses is
said, and stays on the page; of a page that is not understood nothing is taken, and it stays too.
A look carries out the same commands on the state alone, and so shows what the next change will do.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.core.workflow.state import find_task
from holdfast.core.workflow.units import MAX_ITERATIONS
from holdfast.errors import Refused
from holdfast.formats.aggregates import aggregate_of
from holdfast.loops import page_files, page_reader, pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_PLANNED = ("description", "criteria", "files", "output", "max_iterations", "depends", "model")
_LESSON = ("name", *page_reader.GUARDRAIL)
_MAX_COMPLAINTS = 3


def take_in(tx: Transaction, stream: str) -> str | None:
    """Record the edits of a loaded loop's pages; return the page of units if all was taken in."""
    state = tx.state(stream)
    path = page_files.folder_of(tx.store.workspace, state)
    if path is None:
        return None
    folder = page_files.LoopFolder(tx.store, state, path)
    text = _Edits(tx.store, folder, _Recorder(tx, stream)).take_in()
    tx.commit()
    if text is not None:
        # Before anything is recorded that the page does not say.
        folder.remembered.learn(text)
    return text


def preview(store: Store, state: Workflow) -> Workflow:
    """Return the state as the next change will find it after the edits. Change nothing."""
    path = page_files.folder_of(store.workspace, state)
    if path is None:
        return state
    folder = page_files.LoopFolder(store, state, path)
    previewer = _Previewer(store, state)
    _Edits(store, folder, previewer).take_in()
    folder.examine()
    return previewer.state


class _Recorder:
    """Carries out edits in a transaction."""

    TAKEN = "taken in"
    BACK = "is back"

    def __init__(self, tx: Transaction, stream: str) -> None:
        self._tx = tx
        self._stream = stream

    @property
    def state(self) -> Workflow:
        state: Workflow = self._tx.state(self._stream)
        return state

    def do(self, kind: str, args: Fields) -> None:
        """Record a command; raise ``Refused``."""
        self._tx.do(self._stream, kind, args)


class _Previewer:
    """Carries out edits on a state alone."""

    TAKEN = "taken in by the next change"
    BACK = "comes back with the next change"

    def __init__(self, store: Store, state: Workflow) -> None:
        self._store = store
        self.state = state

    def do(self, kind: str, args: Fields) -> None:
        """Apply a command to the state; raise ``Refused``."""
        at = self._store.now()
        aggregate = aggregate_of(self.state["id"])
        drafts = aggregate.decide(self.state, {"type": kind, "at": at, "args": args})
        if isinstance(drafts, Refusal):
            raise Refused(drafts.code, drafts.message, drafts.hint, **drafts.details)
        for draft in drafts:
            event: Any = {**draft, "at": at, "stream": self.state["id"]}
            self.state = aggregate.evolve(self.state, event)


class _Edits:
    """The pages of one loop, while their edits are taken in."""

    def __init__(
        self, store: Store, folder: page_files.LoopFolder, doer: _Recorder | _Previewer
    ) -> None:
        self._store = store
        self._folder = folder
        self._doer = doer
        self._page = folder.units_name
        self._mark = "R" if folder.mode == "knowledge" else "T"
        self._was_refused = False

    def take_in(self) -> str | None:
        """Take in lessons and units; return the page of units if all of it was taken in."""
        self._take_lessons()
        text = self._folder.read(self._page)
        if not text:
            return None
        if self._folder.remembered.knows(text):
            return text
        planned, complaints = page_reader.read_units(text, self._folder.mode)
        if complaints:
            extra = len(complaints) - _MAX_COMPLAINTS
            more = f" (and {extra} more)" if extra > 0 else ""
            for complaint in complaints[:_MAX_COMPLAINTS]:
                self._store.note(
                    f"{self._page}, {complaint}{more}; "
                    "nothing of the page is taken in until it is mended"
                )
            return None
        self._take_units(planned, self._folder.remembered_units())
        return None if self._was_refused else text

    # Units

    def _take_units(self, planned: list[Fields], remembered: dict[str, Fields]) -> None:
        self._check_boxes(planned)
        edits = [edit for unit in planned if (edit := self._edit(unit, remembered)) is not None]
        waits = [
            {"task": edit["task"], "depends": edit.pop("depends")}
            for edit in edits
            if edit.get("depends")
        ]
        # First what depends on nobody: units may wait for others that stand below them.
        for edit in edits:
            self._plan(edit)
        for wait in waits:
            if self._task(wait["task"]) is not None:
                self._plan(wait)
        gone = remembered.keys() - {unit["id"] for unit in planned}
        for name in sorted(gone):
            if self._task(name) is not None:
                self._store.note(
                    f"{self._page}: {name} was taken out and {self._doer.BACK}; to leave it out: "
                    f"holdfast loop block {name} --reason TEXT"
                )

    def _task(self, name: str) -> Any:
        return find_task(self._doer.state, name)

    def _check_boxes(self, planned: list[Fields]) -> None:
        for unit in planned:
            task = self._task(unit["id"])
            if unit["checked"] and (task is None or task["status"] != "completed"):
                self._store.note(
                    f"{self._page}: {unit['id']} was ticked by hand; it is done when it was "
                    "confirmed and verified: holdfast loop next"
                )

    def _edit(self, unit: Fields, remembered: dict[str, Fields]) -> Fields | None:
        """Return what the page says of a unit otherwise than before; ``None`` if nothing."""
        known = self._task(unit["id"])
        before: Fields = remembered.get(unit["id"], {**known} if known is not None else {})
        now = {key: unit[key] for key in _PLANNED if key in unit}
        if known is None:
            return {"task": unit["id"], **now}
        changed = {
            key: value
            for key, value in now.items()
            if value != before.get(key, _EMPTY.get(key))
            and value != known.get(key, _EMPTY.get(key))
        }
        if changed.get("depends") and known.get("depends"):
            # What it waited for may now wait for it: first it waits for nobody.
            self._plan({"task": unit["id"], "depends": []})
        return {"task": unit["id"], **changed} if changed else None

    def _plan(self, args: Fields) -> None:
        name = args["task"]
        is_known = self._task(name) is not None
        if not is_known and not name.startswith(self._mark):
            self._refuse(f"{name} is no unit of this mode; they are called {self._mark}1")
            return
        if is_known and len(args) == 1:
            return
        try:
            self._doer.do("plan_unit", args)
        except Refused as refused:
            self._refuse(f"{refused.message}; the page stays as it is")
            return
        what = ", ".join(key for key in args if key != "task")
        self._store.note(f"{self._page}: {self._doer.TAKEN}: {name} ({what})")

    def _refuse(self, why: str) -> None:
        self._was_refused = True
        self._store.note(f"{self._page}: {why}")

    # Lessons

    def _take_lessons(self) -> None:
        """Take in the lessons that people wrote or changed."""
        page = page_files.GUARDRAILS
        text = self._folder.read(page)
        if text == pages.guardrails(self._doer.state):
            return
        for lesson in page_reader.read_guardrails(text):
            lessons = self._doer.state.get("guardrails", [])
            known = {str(other.get("name")): other for other in lessons}
            edit: Fields = {key: lesson[key] for key in _LESSON if lesson.get(key)}
            name = edit.get("name")
            if not name or edit == known.get(name) or _is_among(lessons, edit):
                continue
            try:
                self._doer.do("add_guardrail", {**edit, "replace": True})
            except Refused as refused:
                self._store.note(f"{page}: {name[:60]}: {refused.message}")
                continue
            self._store.note(f"{page}: {self._doer.TAKEN}: {name[:60]}")


_EMPTY: Fields = {
    "files": [], "depends": [], "description": "", "max_iterations": MAX_ITERATIONS,
}  # fmt: skip
"""What a page shows where nobody ever said anything."""


def _is_among(lessons: list[Fields], lesson: Fields) -> bool:
    """True if a lesson says the same, under whatever name."""
    body = [lesson.get(key) for key in page_reader.GUARDRAIL]
    return any(body == [other.get(key) for key in page_reader.GUARDRAIL] for other in lessons)
