"""What people changed on a loop's pages, taken into the ledger as commands of the core.

An edit is what a page says otherwise than when it was last written. One that the core refuses is
said, and stays on the page; of a page that is not understood nothing is taken, and it stays too.
"""

from __future__ import annotations

from holdfast.core.workflow.state import find_task
from holdfast.core.workflow.units import MAX_ITERATIONS
from holdfast.errors import Refused
from holdfast.loops import files, items, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields, Workflow
    from holdfast.engine import Engine

_PLANNED = ("description", "criteria", "files", "output", "max_iterations", "depends", "model")
_LESSON = ("name", *reading.GUARDRAIL)


def take_in(engine: Engine, state: Workflow) -> tuple[Workflow, str | None]:
    """The state with the edits, and the page of units if all of it was taken in."""
    folder = files.folder_of(engine, state)
    if folder is None:
        return state, None
    state = _take_lessons(engine, state, files.page(engine, folder, files.GUARDRAILS))
    name = files.units_name(state)
    text = files.page(engine, folder, name)
    if not text:
        return state, None
    if files.is_known(engine, state, text):
        return state, text
    told, complaints = reading.read_units(text, items.mode_of(state))
    if complaints:
        more = f" (and {len(complaints) - 3} more)" if len(complaints) > 3 else ""
        for complaint in complaints[:3]:
            engine.note(
                f"{name}, {complaint}{more}; nothing of the page is taken in until it is mended"
            )
        return state, None
    taking = _Taking(engine, state, name)
    said = files.last_said(engine, state).get("units", {})
    taking.look_at(told, said)
    if taking.was_refused:
        return taking.state, None
    # Before anything is recorded that the page does not say.
    files.keep_known(engine, taking.state, text)
    return taking.state, text


class _Taking:
    """One page of units, while it is taken in."""

    def __init__(self, engine: Engine, state: Workflow, page: str) -> None:
        self._engine = engine
        self._page = page
        self._mark = "R" if page == "plan.md" else "T"
        self.state = state
        self.was_refused = False

    def look_at(self, told: list[Fields], said: dict[str, Fields]) -> None:
        self._look_at_boxes(told)
        edits = [edit for unit in told if (edit := self._edit(unit, said)) is not None]
        waits = [
            {"task": edit["task"], "depends": edit.pop("depends")}
            for edit in edits
            if edit.get("depends")
        ]
        # First what depends on nobody: units may wait for others that stand below them.
        for edit in edits:
            self._do(edit)
        for wait in waits:
            if find_task(self.state, wait["task"]) is not None:
                self._do(wait)
        gone = said.keys() - {unit["id"] for unit in told}
        for name in sorted(gone):
            if find_task(self.state, name) is not None:
                self._engine.note(
                    f"{self._page}: {name} was taken out and is back; to leave it out: "
                    f"holdfast loop block {name} --reason TEXT"
                )

    def _look_at_boxes(self, told: list[Fields]) -> None:
        for unit in told:
            task = find_task(self.state, unit["id"])
            if unit["checked"] and (task is None or task["status"] != "completed"):
                self._engine.note(
                    f"{self._page}: {unit['id']} was ticked by hand; it is done when it was "
                    "confirmed and verified: holdfast loop next"
                )

    def _edit(self, unit: Fields, said: dict[str, Fields]) -> Fields | None:
        known = find_task(self.state, unit["id"])
        before: Fields = said.get(unit["id"], {**known} if known is not None else {})
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
            self._do({"task": unit["id"], "depends": []})
        return {"task": unit["id"], **changed} if changed else None

    def _do(self, args: Fields) -> None:
        name = args["task"]
        if find_task(self.state, name) is None and not name.startswith(self._mark):
            self._refuse(f"{name} is no unit of this mode; they are called {self._mark}1")
            return
        if len(args) == 1 and find_task(self.state, name) is not None:
            return
        try:
            drafts = self._engine.decide(self.state, "plan_unit", args)
        except Refused as refused:
            self._refuse(f"{refused.message}; the page stays as it is")
            return
        self.state, _ = self._engine.commit(self.state["id"], self.state, drafts)
        what = ", ".join(key for key in args if key != "task")
        self._engine.note(f"{self._page}: taken in: {name} ({what})")

    def _refuse(self, why: str) -> None:
        self.was_refused = True
        self._engine.note(f"{self._page}: {why}")


_EMPTY: Fields = {
    "files": [], "depends": [], "description": "", "max_iterations": MAX_ITERATIONS,
}  # fmt: skip
"""What a page shows where nobody ever said anything."""


def _take_lessons(engine: Engine, state: Workflow, text: str) -> Workflow:
    """The state with the lessons that people wrote or changed."""
    for lesson in reading.read_guardrails(text):
        known = {str(one.get("name")): one for one in state.get("guardrails", [])}
        given: Fields = {key: lesson[key] for key in _LESSON if lesson.get(key)}
        if not given.get("name") or given == known.get(given["name"]) or _has(state, given):
            continue
        try:
            drafts = engine.decide(state, "add_guardrail", {**given, "replace": True})
        except Refused as refused:
            engine.note(f"{files.GUARDRAILS}: {given['name'][:60]}: {refused.message}")
            continue
        state, _ = engine.commit(state["id"], state, drafts)
        engine.note(f"{files.GUARDRAILS}: taken in: {given['name'][:60]}")
    return state


def _has(state: Workflow, given: Fields) -> bool:
    """Whether a lesson says the same, under whatever name."""
    said = [given.get(key) for key in reading.GUARDRAIL]
    return any(said == [one.get(key) for key in reading.GUARDRAIL]
               for one in state.get("guardrails", []))  # fmt: skip
