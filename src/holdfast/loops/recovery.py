"""A loop's state made anew from its pages and git, and logged where they did not agree with it.

Where no ledger has the loop, its pages alone say what it was. Where one has it, they are compared:
somebody may have edited the record, or git may have lost a commit. Pages and git are trusted.
"""

from __future__ import annotations

import os

from holdfast import jsontext
from holdfast.caller import Receipt
from holdfast.core import edits as core_edits
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.evidence import git
from holdfast.layers import records
from holdfast.layers.records.envelope import Sealed
from holdfast.layers.records.fields import Invalid
from holdfast.loops import edits, files, items, reading
from holdfast.loops.rebuild import rebuilt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.caller import Caller
    from holdfast.core.shapes import Draft, Fields, Json, Workflow
    from holdfast.engine import Engine

_PAGES = ("brief.md", "tasks.md", "plan.md", "guardrails.md")
_UNITS = {"development": "tasks.md", "knowledge": "plan.md"}
_OF_UNITS = (
    "status", "iterations_used", "confirmations_used", "verification_passed", "completed_at",
    "reason", "remaining", "blockers",
)  # fmt: skip
_COMPARED = ("status", "iterations_used", "confirmations_used")
_BRIEF = ("outcome", "done_when", "constraints", "notes")


def rebuild(engine: Engine, caller: Caller, slug: str) -> Receipt:
    """Under the lock. The receipt's notes say what was found."""
    position = engine.position(slug)
    if position is None:
        state, seqs = _from_pages_alone(engine, slug)
    else:
        before = caller.current(position)
        if not is_active(before) or before["recipe"]["format"] != "loop":
            raise Refused(
                "ended",
                f"loop rebuild: {slug} is no active loop ({before['status']})",
                f"holdfast resume {slug}",
            )
        state, seqs = _compared(engine, before)
    state, seen = edits.take_in(engine, state)
    files.write_pages(engine, state, seen=seen)
    return Receipt(state, seqs, caller.notes())


def _from_pages_alone(engine: Engine, slug: str) -> tuple[Workflow, list[int]]:
    record = records.active_path("loop", slug, engine.now())
    document, found, parsed = _told(engine, slug, engine.workspace.root, record)
    path = engine.workspace.inside(engine.workspace.root, record)
    raw = engine.store.read(path)
    if raw is not None:
        found += _differences(_document(raw), document, "state.json")
        kept = os.path.basename(engine.store.set_aside(path, raw, path))
        engine.note(f"the pages and git are trusted; the {record} that was there is now {kept}")
    state = {**parsed, "branch": engine.workspace.branch(), "record": record}
    drafts = engine.decide(None, "adopt_record", {"state": state, "record": record})
    drafts += engine.decide(parsed, "note_rebuild", {"found": found})
    return _committed(engine, slug, None, drafts, found)


def _compared(engine: Engine, before: Workflow) -> tuple[Workflow, list[int]]:
    files.write_pages(engine, before)
    root = files.root_of(engine, before, "loop rebuild")
    document, found, parsed = _told(
        engine, before["id"], root, before["record"], items.mode_of(before)
    )
    shown, _ = records.module("loop").render(before)
    found += _differences(shown, document, "the state")
    target = _corrected(before, parsed)
    if target["phase"] != before["phase"]:
        was, now = before["phase"], target["phase"]
        found.append(f"phase is {was!r} in the state and {now!r} by the log")
    changes = core_edits.diff(before, target)  # type: ignore[arg-type]
    if not found and not changes:
        engine.note(f"{before['id']}: its state, its pages and git agree")
        return before, []
    position = engine.position(before["id"])
    base = position.seq if position is not None else 0
    drafts = engine.decide(before, "adopt_edit", {"base": base, "changes": changes})
    drafts += engine.decide(before, "note_rebuild", {"found": found})
    return _committed(engine, before["id"], before, drafts if changes else drafts[1:], found)


def _committed(
    engine: Engine, slug: str, before: Workflow | None, drafts: list[Draft], found: list[str]
) -> tuple[Workflow, list[int]]:
    state, events = engine.commit(slug, before, drafts, is_asked=True)
    for text in found:
        engine.note(f"discrepancy: {text}")
    return state, [event["seq"] for event in events]


def _corrected(before: Workflow, parsed: Workflow) -> Workflow:
    """The state with what the log and git say of its units."""
    told = {str(task["id"]): task for task in parsed["tasks"]}
    tasks = []
    for task in before["tasks"]:
        said: Json = told.get(str(task["id"]), task)
        kept = {key: value for key, value in task.items() if key not in _OF_UNITS}
        tasks.append({**kept, **{key: said[key] for key in _OF_UNITS if key in said}})
    changed: Json = {"tasks": tasks, "commits": parsed["commits"]}
    if tasks != before["tasks"]:
        # Else the phase is where the units brought it, or where a person moved it.
        changed |= {"phase": parsed["phase"], "phases": parsed["phases"]}
    after: Workflow = {**before, **changed}
    return after


def _told(
    engine: Engine, slug: str, root: str, record: str, mode: str = ""
) -> tuple[Fields, list[str], Workflow]:
    """The document that the pages tell, what did not fit in them, and the state of it."""
    folder = os.path.dirname(engine.workspace.inside(root, record))
    texts = {name: files.page(engine, folder, name) for name in _PAGES}
    log = _log(engine, slug, folder)
    if not (log or texts["tasks.md"] or texts["plan.md"]):
        raise Refused(
            "not_found",
            f"loop rebuild: {files.HOME}/{slug} has neither units nor a log",
            "holdfast loop status",
        )
    brief = reading.read_brief(texts["brief.md"])
    mode = mode or (brief["mode"] if brief["mode"] in _UNITS else "")
    if not mode:
        mode = "knowledge" if texts["plan.md"] and not texts["tasks.md"] else "development"
    units = texts[_UNITS[mode]]
    document, found = rebuilt(
        texts["brief.md"], units, log, texts["guardrails.md"], slug, mode, _commits_of(root)
    )
    origin = engine.origin(record, engine.workspace.name)
    try:
        parsed = records.parse("loop", Sealed(document, None, intact=False), None, origin)
    except Invalid as invalid:
        raise Refused(
            "invalid", f"loop rebuild: {slug}: {invalid}", f"look at {files.HOME}/{slug}/"
        ) from invalid
    said = {key: brief[key] for key in _BRIEF if brief[key]}
    return document, found, {**parsed, "context": {**parsed["context"], **said}}


def _log(engine: Engine, slug: str, folder: str) -> str:
    """The log; without one that can be read, it would tell that nothing was ever done."""
    log = files.log(engine, folder)
    if log is None:
        page = f"{files.HOME}/{slug}/{files.PROGRESS}"
        raise Refused(
            "invalid",
            f"loop rebuild: {page} {files.NO_FILE}, and nothing else tells what was done",
            f"put the log back in its place, then: holdfast loop rebuild {slug}",
        )
    return log


def _commits_of(root: str) -> Callable[[str], bool]:
    """Whether git has a commit; without git, nobody can say that it has not."""
    if git.head(root) is None:
        return lambda _commit: True
    return lambda commit: git.line(root, "cat-file", "-t", commit) == "commit"


def _document(raw: bytes) -> Fields:
    try:
        found = jsontext.loads(raw, strict=True)
    except jsontext.BadJson:
        return {}
    return found if isinstance(found, dict) else {}


def _differences(theirs: Fields, ours: Fields, name: str) -> list[str]:
    """Where a record and the pages do not say the same of a unit."""
    key = "phases" if ours["mode"] == "knowledge" else "tasks"
    said = theirs.get(key)
    units: Fields = said if isinstance(said, dict) else {}
    found = [f"{name} does not know {unit}" for unit in ours[key] if unit not in units]
    found += [f"{name} has {unit}, the pages have not" for unit in units if unit not in ours[key]]
    for unit, told in ours[key].items():
        known = units.get(unit)
        if not isinstance(known, dict):
            continue
        for field in _COMPARED:
            if known.get(field) != told.get(field):
                found.append(
                    f"{unit}: {field} is {known.get(field)!r} in {name} "
                    f"and {told.get(field)!r} by the log"
                )
    return found
