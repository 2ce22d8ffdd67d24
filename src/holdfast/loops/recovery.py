"""A loop's state made anew from its pages and git, and logged where they did not agree with it.

Where no ledger has the loop, its pages alone say what it was. Where one has it, they are compared:
somebody may have edited the record, or git may have lost a commit. Pages and git are trusted.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.core import diff, json_text
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.evidence import git
from holdfast.formats.schema import Invalid
from holdfast.formats.signature import SignedRecord
from holdfast.loops import page_files, page_reader, unit_item
from holdfast.loops.rebuild import rebuilt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Json, Workflow
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.system.disk import Disk

_PAGES = ("brief.md", "tasks.md", "plan.md", "guardrails.md")
_UNITS = {"development": "tasks.md", "knowledge": "plan.md"}
_OF_UNITS = (
    "status", "iterations_used", "confirmations_used", "verification_passed", "completed_at",
    "reason", "remaining", "blockers",
)  # fmt: skip
_COMPARED = ("status", "iterations_used", "confirmations_used")
_BRIEF = ("outcome", "done_when", "constraints", "notes")


def rebuild(tx: Transaction, slug: str) -> list[int]:
    """Make a loop's state anew, and note what did not agree; return the seqs.

    Raise ``Refused`` if it has ended, or if the pages do not tell of a loop.
    """
    before: Workflow | None = tx.load(slug)
    if before is None:
        return _from_pages_alone(tx, slug)
    if not is_active(before) or before["recipe"]["format"] != "loop":
        raise Refused(
            "ended",
            f"loop rebuild: {slug} is no active loop ({before['status']})",
            f"holdfast resume {slug}",
        )
    return _from_comparison(tx, before)


def _from_pages_alone(tx: Transaction, slug: str) -> list[int]:
    store = tx.store
    workspace = store.workspace
    record = formats.active_path("loop", slug, store.now())
    document, differences, parsed = _read_pages(store, slug, workspace.root, record)
    path = workspace.inside(workspace.root, record)
    raw = store.files.read(path)
    if raw is not None:
        differences += _differences(_document(raw), document, "state.json")
        kept = os.path.basename(store.files.set_aside(path, raw, path))
        store.note(f"the pages and git are trusted; the {record} that was there is now {kept}")
    state = {**parsed, "branch": workspace.branch(), "record": record}
    drafts = tx.decide_new("adopt_record", {"state": state, "record": record})
    opened = tx.append(slug, drafts)
    return [event["seq"] for event in opened] + _commit(tx, slug, differences)


def _from_comparison(tx: Transaction, before: Workflow) -> list[int]:
    store, slug = tx.store, before["id"]
    page_files.write_pages(store, before)
    root = page_files.root_of(store.workspace, before, "loop rebuild")
    document, differences, parsed = _read_pages(
        store, slug, root, before["record"], unit_item.mode_of(before)
    )
    current, _ = formats.module("loop").render(before)
    differences += _differences(current, document, "the state")
    target = _corrected(before, parsed)
    if target["phase"] != before["phase"]:
        was, now = before["phase"], target["phase"]
        differences.append(f"phase is {was!r} in the state and {now!r} by the log")
    changes = diff.diff(before, target)  # type: ignore[arg-type]
    if not differences and not changes:
        store.note(f"{slug}: its state, its pages and git agree")
        return []
    seqs: list[int] = []
    if changes:
        args = {"base": tx.subject(slug).seq, "changes": changes}
        seqs = [event["seq"] for event in tx.do(slug, "adopt_edit", args)]
    return seqs + _commit(tx, slug, differences)


def _commit(tx: Transaction, slug: str, differences: list[str]) -> list[int]:
    """Commit the rebuilt state with what did not agree; return the seqs of that."""
    events = tx.do(slug, "note_rebuild", {"found": differences})
    tx.commit(is_asked=True)
    for text in differences:
        tx.store.note(f"discrepancy: {text}")
    return [event["seq"] for event in events]


def _corrected(before: Workflow, parsed: Workflow) -> Workflow:
    """Return the state with what the log and git say of its units."""
    logged = {str(task["id"]): task for task in parsed["tasks"]}
    tasks = []
    for task in before["tasks"]:
        unit: Json = logged.get(str(task["id"]), task)
        kept = {key: value for key, value in task.items() if key not in _OF_UNITS}
        tasks.append({**kept, **{key: unit[key] for key in _OF_UNITS if key in unit}})
    changed: Json = {"tasks": tasks, "commits": parsed["commits"]}
    if tasks != before["tasks"]:
        # Else the phase is where the units brought it, or where a person moved it.
        changed |= {"phase": parsed["phase"], "phases": parsed["phases"]}
    after: Workflow = {**before, **changed}
    return after


def _read_pages(
    store: Store, slug: str, root: str, record: str, mode: str = ""
) -> tuple[Fields, list[str], Workflow]:
    """Return the document that the pages tell, what did not fit in them, and the state of it."""
    folder = os.path.dirname(store.workspace.inside(root, record))
    texts = {name: page_files.read_page(store.disk, folder, name) for name in _PAGES}
    log = _read_log(store.disk, slug, folder)
    if not (log or texts["tasks.md"] or texts["plan.md"]):
        raise Refused(
            "not_found",
            f"loop rebuild: {page_files.HOME}/{slug} has neither units nor a log",
            "holdfast loop status",
        )
    brief = page_reader.read_brief(texts["brief.md"])
    mode = mode or (brief["mode"] if brief["mode"] in _UNITS else "")
    if not mode:
        mode = "knowledge" if texts["plan.md"] and not texts["tasks.md"] else "development"
    units = texts[_UNITS[mode]]
    document, differences = rebuilt(
        texts["brief.md"], units, log, texts["guardrails.md"], slug, mode, _commits_of(root)
    )
    origin = store.origin(record, store.workspace.name)
    try:
        parsed = formats.parse("loop", SignedRecord(document, None, intact=False), None, origin)
    except Invalid as invalid:
        raise Refused(
            "invalid", f"loop rebuild: {slug}: {invalid}", f"look at {page_files.HOME}/{slug}/"
        ) from invalid
    wanted = {key: brief[key] for key in _BRIEF if brief[key]}
    return document, differences, {**parsed, "context": {**parsed["context"], **wanted}}


def _read_log(disk: Disk, slug: str, folder: str) -> str:
    """Return the log; raise ``Refused`` where none can be read: it would say nothing was done."""
    log = page_files.read_log(disk, folder)
    if log is None:
        page = f"{page_files.HOME}/{slug}/{page_files.PROGRESS}"
        raise Refused(
            "invalid",
            f"loop rebuild: {page} {page_files.NO_FILE}, and nothing else tells what was done",
            f"put the log back in its place, then: holdfast loop rebuild {slug}",
        )
    return log


def _commits_of(root: str) -> Callable[[str], bool]:
    """Return whether git has a commit; without git, nobody can say that it has not."""
    if git.head(root) is None:
        return lambda _commit: True
    return lambda commit: git.line(root, "cat-file", "-t", commit) == "commit"


def _document(raw: bytes) -> Fields:
    try:
        document = json_text.loads(raw, strict=True)
    except json_text.BadJson:
        return {}
    return document if isinstance(document, dict) else {}


def _differences(theirs: Fields, ours: Fields, name: str) -> list[str]:
    """Return where a record and the pages do not say the same of a unit."""
    key = "phases" if ours["mode"] == "knowledge" else "tasks"
    listed = theirs.get(key)
    units: Fields = listed if isinstance(listed, dict) else {}
    differences = [f"{name} does not know {unit}" for unit in ours[key] if unit not in units]
    differences += [
        f"{name} has {unit}, the pages have not" for unit in units if unit not in ours[key]
    ]
    for unit, logged in ours[key].items():
        known = units.get(unit)
        if not isinstance(known, dict):
            continue
        for field in _COMPARED:
            if known.get(field) != logged.get(field):
                differences.append(
                    f"{unit}: {field} is {known.get(field)!r} in {name} "
                    f"and {logged.get(field)!r} by the log"
                )
    return differences
