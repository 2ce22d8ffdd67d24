"""Adopt workflows that the ledger does not know: from records, and from an agent's own notes.

Records come from another tool or from a clone, or they remain when the ledger was lost.

There are two kinds of notes: ``CLAUDE.local.md``, which names a workflow and its phase, and a plan
under ``CLAUDE/Plan/`` that is in progress. Each becomes a document in the formal format, as the
agent would have written it. When the notes of a workflow change, its phase moves to theirs and its
required reading is extended. Notes that did not change while the workflow continued are outdated
and ignored. A workflow that has ended stays ended until the notes return to an earlier phase.
"""

from __future__ import annotations

import os
from itertools import chain, count

from holdfast import formats
from holdfast.adopt import findings as adoption
from holdfast.adopt.findings import expiry_note
from holdfast.core import diff, json_text, selection
from holdfast.core.record_formats import FORMATS, format_of, slug
from holdfast.core.workflow import OPENING, is_active
from holdfast.core.workflow.edits import as_adopted
from holdfast.errors import Refused
from holdfast.formats import SignedRecord, parse_signed, schema
from holdfast.storage.ledger import ACTIVE
from holdfast.workspace.location import NOTES, PLANS, is_inside, outside, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.adopt import Store, Transaction
    from holdfast.core.types import Fields, Workflow

_SHARED = [spec.active for spec in FORMATS.values() if spec.is_slot]
"""The record paths that several workflows use, one after another."""
PLAN = "PLAN.md"
_MARKER = "workflow state"
_KINDS = ("planning", "qa-loop", "implementation")
_KEY_DECORATION = "#*_-> \t`|[]\ufeff"
_VALUE_DECORATION = "*_` \t|>"
_BEFORE_NAME = " -\u2013\u2014:.)`*_"
_MOVING = "🔄"
_DONE = "✅"
_IN_PROGRESS = f"{_MOVING} in progress"
_MARKS = f"{_MOVING}{_DONE}⬜⏳❌"
_MAX_BYTES = 256 * 1024
_MAX_FOLDERS = 2_000
_MAX_PLANS = 200
_MAX_PHASES = 200
_MAX_NAME = 200
_MAX_DIGITS = 6
_MAX_READING = 100
_FOLLOWED = ("phase", "phases", "required_reading")
"""The fields of a known workflow that notes can change."""


# Records


def adopt_all(tx: Transaction) -> bool:
    """Adopt every unknown record of this worktree; return True if there was one."""
    active_records = tx.store.ledger.active_records(tx.store.workspace.name)
    adopted = False
    for record in records_here(tx.store.workspace.root):
        if record not in active_records:
            adopted = adopt_file(tx, record) is not None or adopted
    return adopted


def peek_all(store: Store) -> list[Workflow]:
    """Return the states of the records here that the ledger does not know. Change nothing."""
    active_records = store.ledger.active_records(store.workspace.name)
    states: list[Workflow] = []
    try:
        records = records_here(store.workspace.root)
    except Refused:
        return []  # A folder is a link out of the workspace; adopting reports it.
    for record in records:
        if record in active_records and record not in _SHARED:
            continue
        try:
            read = _read(store, record)
        except (OSError, Refused):
            continue
        # Only an intact record can replace a known one at a path that workflows share (REPLACED).
        if read is None or (record in active_records and not read[2].is_intact):
            continue
        stored = store.stream(read[1]["id"])
        if stored is None:
            state: Workflow = {**read[1], "record": record, "worktree": store.workspace.name}
            if _has_run_out(store, state):
                store.note(f"{expiry_note(state)} (recorded by the next change)")
                state = {**state, "status": "expired"}
            states.append(as_adopted(state))
        elif record not in active_records and stored.row["hash"] != read[2].hash:
            _note_copy(store, stored.state, record)
    return states


def _has_run_out(store: Store, state: Workflow) -> bool:
    is_slot = FORMATS[format_of(state["record"])].is_slot
    return is_slot and selection.has_run_out(state, store.now_ms())


def announcement(state: Workflow) -> str:
    """Return the note that announces the adoption of an unknown record."""
    return f"{state['record']} is not in the ledger yet: holdfast resume {state['id']} adopts it"


def records_here(root: str) -> list[str]:
    """Return the paths, relative to the root, of all files that have the path of a record.

    Raise ``Refused`` if a folder on the way is outside the root.
    """
    records = []
    for spec in FORMATS.values():
        paths = [""]
        for part in spec.active.split("/"):
            start, star, end = part.partition("*")
            if not star:
                paths = [f"{path}{part}/" for path in paths]
                continue
            paths = [
                f"{path}{name}/"
                for path in paths
                for name in _names(root, path.rstrip("/"))
                if name.startswith(start) and name.endswith(end)
            ]
        records += [path.rstrip("/") for path in paths]
    return records


def _names(root: str, folder: str) -> list[str]:
    full = os.path.join(root, folder)
    if not os.path.isdir(full):
        return []
    if not is_inside(full, root):
        raise outside(folder, root)
    return sorted(name for name in os.listdir(full) if not name.startswith("."))


def read(store: Store, record: str) -> tuple[bytes, Workflow, SignedRecord] | None:
    """Return a record's bytes, its state and its signature; ``None`` if there is no record.

    Raise ``BadJson`` or ``Invalid`` if the file is not a record.
    """
    path = store.workspace.inside(store.workspace.root, record)
    raw = None if os.path.isdir(path) else store.files.read(path)
    if raw is None or not raw.strip():
        return None
    json_text.loads(raw, strict=True)
    signed = parse_signed(raw)
    if not signed.document:
        return None
    origin = store.origin(record, store.workspace.name)
    return raw, formats.parse(format_of(record), signed, None, origin), signed


def _read(store: Store, record: str) -> tuple[bytes, Workflow, SignedRecord] | None:
    """Read a record as ``read`` does; return ``None`` and add a note if the file is not one."""
    try:
        return read(store, record)
    except json_text.BadJson as bad:
        store.note(f"{record} is not a record (line {bad.line}: {bad.why}); left as it is")
    except schema.Invalid as invalid:
        store.note(f"{record} is not a record ({invalid}); left as it is")
    return None


def adopt_file(tx: Transaction, record: str) -> Workflow | None:
    """Adopt the record at this path; return ``None`` if it is not one, or its workflow is known."""
    store = tx.store
    read = _read(store, record)
    if read is None:
        return None
    raw, parsed, signed = read
    stored = store.stream(parsed["id"])
    if stored is not None:
        if stored.row["hash"] != signed.hash:
            _note_copy(store, tx.load(parsed["id"]), record)
        return None
    parsed = {**parsed, "record": record, "worktree": store.workspace.name}
    adopted: Workflow = adoption.adopt(tx, parsed, record, expected=raw)
    if _has_run_out(store, parsed):
        # It ran out before it was adopted, and adopting it is not an activity of the workflow.
        store.note(expiry_note(parsed))
        tx.do(parsed["id"], "expire_workflow", {})
        tx.commit()
        adopted = tx.load(parsed["id"])
    return adopted


def _note_copy(store: Store, state: Workflow, record: str) -> None:
    """Add a note that a file is a copy of a workflow with another record, or one that has ended."""
    if state["record"] != record:
        store.note(f"{record} is a copy of {state['id']}, whose record is {state['record']}")
    elif state["status"] not in selection.ACTIVE:
        store.note(
            f"{record} is a copy of {state['id']} from before it ended ({state['status']}); "
            f"holdfast resume {state['id']} brings it back"
        )


# Reading notes


def detect(root: str) -> list[Fields]:
    """Return a document for each workflow that the notes in this folder describe.

    ``said`` has the phase as written in the notes, and ``source`` is the path of the notes.
    """
    notes = from_notes(read_text(root, NOTES, _MAX_BYTES))
    try:
        folders = sorted(os.listdir(os.path.join(root, PLANS)))
    except OSError:
        folders = []
    # Plans are numbered in the order of their creation and never removed: the newest come last.
    paths = [os.path.join(PLANS, name, PLAN) for name in folders[-_MAX_FOLDERS:]]
    plans = [from_plan(read_text(root, path, _MAX_BYTES), path) for path in paths]
    documents = [plan for plan in plans if plan is not None]
    return [*([] if notes is None else [notes]), *documents[-_MAX_PLANS:]]


def from_notes(text: str) -> Fields | None:
    """Return the workflow of notes with a marker, ``Workflow:`` and ``Phase:``; else ``None``."""
    if _MARKER not in text.lower():
        return None
    values = _values(text, ("workflow", "phase"))
    name = values.get("workflow", "")
    if not name or "phase" not in values:
        return None
    return _document(NOTES, name, _parse_phase(values["phase"]), _reading(text), {})


def from_plan(text: str, path: str) -> Fields | None:
    """Return the workflow of a plan in progress that has phases or a workflow; else ``None``."""
    low = text.lower()
    if _IN_PROGRESS not in low or not ("phase" in low or "workflow" in low):
        return None
    folder = os.path.basename(os.path.dirname(path))
    values = _values(text, ("workflow", "phase", "plan"))
    has_total = "/" in values.get("phase", "")
    phase = _parse_phase(values["phase"]) if has_total else _phase_from_headings(text)
    titles = (line.lstrip("#").strip() for line in text.splitlines() if line.startswith("# "))
    name = values.get("workflow") or next(filter(None, titles), folder)
    number = folder.partition("-")[0]
    context: Fields = {"plan": folder}
    if number.isascii() and number.isdigit() and len(number) < 10:
        context["plan_number"] = int(number)
    return _document(path, name, phase, [f"@{path}", *_reading(text)], context)


def _document(source: str, name: str, phase: Fields, reading: list[str], context: Fields) -> Fields:
    words = name.lower().replace(" ", "-")
    current = phase.get("current", 1)
    return {
        "source": source,
        "said": phase,
        "workflow": name[:_MAX_NAME],
        "workflow_type": next((kind for kind in _KINDS if kind in words), "custom"),
        "phase": {
            "current": current,
            "total": phase.get("total", current),
            "name": phase.get("name", f"Phase {current}"),
            "status": "in_progress",
        },
        "required_reading": list(dict.fromkeys(reading))[:_MAX_READING],
        "context": context,
        "key_reminders": [],
    }


def _values(text: str, keys: tuple[str, ...]) -> dict[str, str]:
    """Return the value of the first ``Key: value`` line of each key. Ignore Markdown around it."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, after_colon = line.partition(":")
        name = key.strip(_KEY_DECORATION).lower()
        value = after_colon.strip(_VALUE_DECORATION)
        if colon and name in keys and value:
            values.setdefault(name, value)
    return values


def _parse_phase(text: str) -> Fields:
    """Parse ``4/10 - SEO Generation``, ``4 of 10: Build`` or ``Build``.

    Return only those of ``current``, ``total`` and ``name`` that the text contains.
    """
    if text[:5].lower() == "phase":
        text = text[5:].strip() or text
    current, tail = _number(text)
    total: int | None = None
    if current is not None:
        tail = tail.lstrip()
        for between in ("/", "of "):
            if total is None and tail.lower().startswith(between):
                total, tail = _number(tail[len(between) :].lstrip())
    phase: Fields = {}
    if current is not None:
        phase["current"] = min(max(current, 1), _MAX_PHASES)
    if total is not None:
        phase["total"] = min(max(total, phase["current"]), _MAX_PHASES)
    # The name has no punctuation and no status marks around it.
    name = tail.lstrip(_BEFORE_NAME + _MARKS)
    for mark in _MARKS:
        name = name.partition(mark)[0]
    name = name.rstrip(f"{_VALUE_DECORATION} -(:[")[:_MAX_NAME]
    return {**phase, "name": name} if name else phase


def _number(text: str) -> tuple[int | None, str]:
    """Return the number at the beginning of a text, or ``None``, and the text after it."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    tail = text[len(digits) :]
    if not digits or tail[:1].isalpha():
        return None, text
    return int(digits[:_MAX_DIGITS]), tail


def _phase_from_headings(text: str) -> Fields:
    """Return the current phase of a plan whose headings are its phases.

    It is the first phase in progress, else the first that is not done. The status mark is in the
    heading or in a ``Status:`` line below it.
    """
    phases: list[str] = []
    marks: list[str] = []
    for line in text.splitlines():
        title = line.lstrip("# ")
        if line.startswith("#") and title.lower().startswith("phase "):
            phases.append(title)
            marks.append(title)
        elif phases and "status" in _values(line, ("status",)):
            marks[-1] += line
    if not phases:
        return {}
    moving = [index for index, mark in enumerate(marks) if _MOVING in mark]
    not_done = [index for index, mark in enumerate(marks) if _DONE not in mark]
    current = [*moving, *not_done, len(phases) - 1][0]
    phase = _parse_phase(phases[current])
    return {**phase, "current": current + 1, "total": min(len(phases), _MAX_PHASES)}


def _reading(text: str) -> list[str]:
    """Return the ``@path`` of each line that has nothing else, or is such an item of a list."""
    items = (line.strip().lstrip("-*+ ").strip("`") for line in text.splitlines())
    return [item for item in items if item.startswith("@") and " " not in item and len(item) > 1]


# Adopting and following notes


def take_in(tx: Transaction) -> list[str]:
    """Adopt or update every workflow that the notes describe; return the ids of those changed.

    Records that the ledger does not know must be adopted before.
    """
    store = tx.store
    # An agent that writes a record itself may choose another id than the slug of the title.
    by_slug: dict[str, list[str]] = {}
    for row in store.ledger.rows(f"{ACTIVE} AND worktree = ?", store.workspace.name):
        by_slug.setdefault(slug(row["title"]), []).append(row["id"])
    changed = []
    for document in detect(store.workspace.root):
        reading = document["required_reading"]
        document["required_reading"] = [p for p in reading if store.workspace.contains(p[1:])]
        notes = {"source": document.pop("source"), "said": document.pop("said")}
        stream, state = _find_workflow(tx, by_slug, document, notes["source"])
        try:
            if state is None or _is_begun_anew(store, state, notes):
                _adopt(tx, stream, document, notes)
            elif not _follow(tx, state, document, notes):
                continue
            changed.append(stream)
        except schema.Invalid as invalid:
            store.note(f"the notes on {document['workflow'][:60]!r} make no sense: {invalid}")
    return changed


def _find_workflow(
    tx: Transaction, by_slug: dict[str, list[str]], document: Fields, source: str
) -> tuple[str, Workflow | None]:
    """Return the id and state of the workflow that the notes describe; a free id if it is new."""
    stem = slug(document["workflow"])
    numbered = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    for stream in chain(by_slug.get(stem, []), numbered):
        state: Workflow | None = tx.load(stream)
        if state is None or not _is_another(tx.store, state, document, source):
            return stream, state
    raise AssertionError("numbers end")


def _is_another(store: Store, state: Workflow, document: Fields, source: str) -> bool:
    """Return True if a workflow has the name of the described one but is a different workflow.

    A plan is in git, so every worktree shares it. ``CLAUDE.local.md`` belongs to one worktree.
    """
    if source == NOTES:
        return state["worktree"] != store.workspace.name
    plan = state["context"].get("plan")
    if not isinstance(plan, str) or plan == document["context"]["plan"] or "\0" in plan:
        return False
    return os.path.isfile(os.path.join(store.workspace.root, PLANS, plan, PLAN))


def _adopt(tx: Transaction, stream: str, document: Fields, notes: Fields) -> None:
    store = tx.store
    now = store.now()
    record = formats.active_path("formal", stream, now)
    origin = store.origin(record, store.workspace.name)
    signed = SignedRecord({**document, "created_at": now}, None, is_intact=False)
    parsed = formats.parse("formal", signed, None, origin)
    state = {**parsed, "branch": store.workspace.branch(), "record": record}
    args = {"state": state, "record": record, "notes": notes}
    tx.append(stream, tx.decide_new("adopt_record", args))


def _is_begun_anew(store: Store, state: Workflow, notes: Fields) -> bool:
    """Return True if the notes of an ended workflow have returned to an earlier phase.

    A plan does not count: a checkout may have restored an older version of it.
    """
    if is_active(state) or notes["source"] != NOTES:
        return False
    last = _last_followed(store, state["id"], NOTES) or {}
    return "current" in notes["said"] and notes["said"]["current"] < last.get("current", 0)


def _follow(tx: Transaction, state: Workflow, document: Fields, notes: Fields) -> bool:
    """Move a known workflow to the phase in the notes; return True if anything changed."""
    store = tx.store
    is_here = state["worktree"] == store.workspace.name
    if not is_active(state) or not is_here or state["recipe"]["format"] != "formal":
        return False
    document_now, rest = formats.module("formal").render(state)
    reading = [*state["required_reading"], *document["required_reading"]]
    updates: Fields = {"required_reading": list(dict.fromkeys(reading))}
    phase, stated = document_now["phase"], notes["said"]
    last = _last_followed(store, state["id"], notes["source"])
    if stated and stated != last:
        # Fields of the phase that the notes do not state are kept.
        after = {**phase, "status": "in_progress", **stated}
        names = [other["name"] for other in state["phases"]]
        if "current" not in stated and stated["name"] in names:
            after["current"] = names.index(stated["name"]) + 1
        if last is not None or after["current"] >= phase["current"]:
            updates["phase"] = {**after, "total": max(after["total"], after["current"])}
    origin = store.origin(state["record"], state["worktree"])
    signed = SignedRecord({**document_now, **updates}, None, is_intact=False)
    followed: Any = formats.parse("formal", signed, rest, origin)
    changes = diff.diff(state, followed)  # type: ignore[arg-type]
    changes = [change for change in changes if change[0][0] in _FOLLOWED]
    if not changes:
        return False
    args = {"base": store.ledger.head_seq, "changes": changes, "notes": notes}
    tx.do(state["id"], "adopt_edit", args)
    return True


def _last_followed(store: Store, stream: str, source: str) -> Fields | None:
    """Return the phase in these notes when the workflow last followed them, or ``None``."""
    for event in store.ledger.newest(stream):
        notes = event["data"].get("notes")
        if isinstance(notes, dict) and notes.get("source") == source:
            phase: Fields = notes["said"]
            return phase
        if event["type"] in OPENING:
            break
    return None
