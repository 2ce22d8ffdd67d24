"""Take the edits of a loop's pages into the ledger, as commands of the core.

An edit is a difference between a page and what was last written there. An edit that the core
refuses is reported and stays on the page. If a page cannot be understood, nothing of it is taken
in. A look applies the same commands to a copy of the state, to show what the next change will do.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.core.workflow.state import find_task
from holdfast.core.workflow.tasks import MAX_ITERATIONS
from holdfast.errors import Refused
from holdfast.formats import aggregate_of
from holdfast.keeper.loop_folder import folder_of
from holdfast.loops import pages
from holdfast.loops.page_files import GUARDRAILS, LoopFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Fields, Task, Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_UNIT_FIELDS = ("description", "criteria", "files", "output", "max_iterations", "depends", "model")
_UNIT_DEFAULTS: Fields = {
    "files": [], "depends": [], "description": "", "max_iterations": MAX_ITERATIONS,
}  # fmt: skip
"""What a page shows for a unit without such a value."""
_MAX_COMPLAINTS = 3


def take_in(tx: Transaction, stream: str) -> str | None:
    """Record the edits of a loaded loop's pages.

    Return the page of units if all its edits were taken in, else ``None``.
    """
    state = tx.state(stream)
    path = folder_of(tx.store.workspace, state)
    if path is None:
        return None
    folder = LoopFolder(tx.store, state, path)
    text = _EditReader(tx.store, folder, _Recorder(tx, stream)).take_in()
    tx.commit()
    if text is not None:
        # Before an event is recorded that is not on the page yet.
        folder.memory.learn(text)
    return text


def preview(store: Store, state: Workflow) -> Workflow:
    """Return the state as the next change will have it after the edits. Change nothing."""
    path = folder_of(store.workspace, state)
    if path is None:
        return state
    folder = LoopFolder(store, state, path)
    previewer = _Previewer(store, state)
    _EditReader(store, folder, previewer).take_in()
    folder.note_problems()
    return previewer.state


class _Recorder:
    """Carries out commands in a transaction."""

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
    """Carries out commands on a state alone."""

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


class _EditReader:
    """Finds the edits of one loop's pages and carries them out."""

    def __init__(self, store: Store, folder: LoopFolder, doer: _Recorder | _Previewer) -> None:
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
        if self._folder.memory.knows(text):
            return text
        from holdfast.loops.page_reader import read_units

        units, complaints = read_units(text, self._folder.mode)
        if complaints:
            extra = len(complaints) - _MAX_COMPLAINTS
            more = f" (and {extra} more)" if extra > 0 else ""
            for complaint in complaints[:_MAX_COMPLAINTS]:
                self._store.note(
                    f"{self._page}, {complaint}{more}; "
                    "nothing of the page is taken in until it is mended"
                )
            return None
        self._take_units(units, self._folder.remembered_units())
        return None if self._was_refused else text

    # Units

    def _task(self, name: str) -> Task | None:
        return find_task(self._doer.state, name)

    def _take_units(self, units: list[Fields], remembered: dict[str, Fields]) -> None:
        for unit in units:
            task = self._task(unit["id"])
            if unit["checked"] and (task is None or task["status"] != "completed"):
                self._store.note(
                    f"{self._page}: {unit['id']} was ticked by hand; it is done when it was "
                    "confirmed and verified: holdfast loop next"
                )
        edits = [edit for unit in units if (edit := self._edit(unit, remembered)) is not None]
        dependencies = [
            {"task": edit["task"], "depends": edit.pop("depends")}
            for edit in edits
            if edit.get("depends")
        ]
        # Dependencies come last: a unit may depend on one further down the page.
        for edit in edits:
            self._plan(edit)
        for edit in dependencies:
            if self._task(edit["task"]) is not None:
                self._plan(edit)
        for name in sorted(remembered.keys() - {unit["id"] for unit in units}):
            if self._task(name) is not None:
                self._store.note(
                    f"{self._page}: {name} was taken out and {self._doer.BACK}; to leave it out: "
                    f"holdfast loop block {name} --reason TEXT"
                )

    def _edit(self, unit: Fields, remembered: dict[str, Fields]) -> Fields | None:
        """Return the arguments of ``plan_unit`` for an edited unit; ``None`` if it is unedited."""
        task = self._task(unit["id"])
        values = {key: unit[key] for key in _UNIT_FIELDS if key in unit}
        if task is None:
            return {"task": unit["id"], **values}
        before: Fields = remembered.get(unit["id"], {**task})
        changed = {
            key: value
            for key, value in values.items()
            if value != before.get(key, _UNIT_DEFAULTS.get(key))
            and value != task.get(key, _UNIT_DEFAULTS.get(key))
        }
        if changed.get("depends") and task.get("depends"):
            # Drop the old dependencies first: the page may have turned one around.
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
        text = self._folder.read(GUARDRAILS)
        if text in ("", pages.render_guardrails(self._doer.state)):
            return
        from holdfast.loops.page_reader import read_guardrails

        for lesson in read_guardrails(text):
            fields = {key: lesson[key] for key in ("name", *pages.LESSON_FIELDS) if lesson.get(key)}
            name = fields.get("name")
            if not name or self._has_lesson(fields):
                continue
            try:
                self._doer.do("add_guardrail", {**fields, "replace": True})
            except Refused as refused:
                self._store.note(f"{GUARDRAILS}: {name[:60]}: {refused.message}")
                continue
            self._store.note(f"{GUARDRAILS}: {self._doer.TAKEN}: {name[:60]}")

    def _has_lesson(self, lesson: Fields) -> bool:
        """Return whether the state has a lesson with this content, under any name."""

        def content(fields: Fields) -> list[object]:
            return [fields.get(key) for key in pages.LESSON_FIELDS]

        lessons = self._doer.state.get("guardrails", [])
        return any(content(lesson) == content(known) for known in lessons)
