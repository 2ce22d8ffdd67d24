"""Adopt workflows that the ledger does not know: from records, and from an agent's own notes.

Records come from another tool or from a clone, or they remain when the ledger was lost.

Notes become a document in the formal format, as the agent would have written it. Notes that an
active workflow requires as reading are about that workflow. When the notes of a workflow change,
its phase moves to theirs, and their reading, reminders and context are added. Notes that did not
change while the workflow continued are outdated and ignored. When they say that the work is
complete, its phases are; then, and when they are gone, the workflow gets a time to live. A workflow
that has ended stays ended until the notes return to an earlier phase.
"""

from __future__ import annotations

import os
from itertools import chain, count

from holdfast import formats
from holdfast.adopt import findings as adoption
from holdfast.adopt.agent_notes import PLAN, detect, why_over
from holdfast.adopt.findings import expiry_note
from holdfast.core import diff, json_text, selection
from holdfast.core import time as times
from holdfast.core.next_step import COMPLETE, LEFT
from holdfast.core.record_formats import FORMATS, format_of, slug
from holdfast.core.workflow import OPENING, is_active
from holdfast.core.workflow.edits import as_adopted
from holdfast.errors import Refused
from holdfast.formats import SignedRecord, parse_signed, schema
from holdfast.storage.ledger import ACTIVE, ENDED
from holdfast.workspace.location import NOTES, PLANS, is_inside, names_in, outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.adopt import Store, Transaction
    from holdfast.core.types import Fields, Workflow
    from holdfast.workspace.location import Workspace

_SHARED = [spec.active for spec in FORMATS.values() if spec.is_slot]
"""The record paths that several workflows use, one after another."""
_MAX_RECORDS = 200
_FOLLOWED = ("phase", "phases", "required_reading", "reminders", "context", "ttl")
"""The fields of a known workflow that notes can change."""
_FORMAL_HERE = f"{ACTIVE} AND worktree = ? AND format = 'formal'"
_OVER_TTL = "7d"
"""The time to live of a workflow whose notes are over."""
_MAX_ENDED = 50
"""The number of ended workflows that are asked whether a plan was theirs."""


# Records


def adopt_all(tx: Transaction, format_name: str | None = None) -> bool:
    """Adopt every unknown record of this worktree; return True if there was one.

    With ``format_name``, adopt only records of that format.
    """
    active_records = tx.store.ledger.active_records(tx.store.workspace.name)
    records = records_here(tx.store.workspace.root, format_name)
    unknown = [record for record in records if record not in active_records]
    adopted = [adopt_file(tx, record) for record in _first(tx.store, unknown)]
    return any(state is not None for state in adopted)


def peek_all(store: Store) -> list[Workflow]:
    """Return the states of the records here that the ledger does not know. Change nothing."""
    active_records = store.ledger.active_records(store.workspace.name)
    states: list[Workflow] = []
    try:
        records = records_here(store.workspace.root)
    except Refused:
        return []  # A folder is a link out of the workspace; adopting reports it.
    unknown = [name for name in records if name not in active_records or name in _SHARED]
    for record in _first(store, unknown):
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


def _first(store: Store, unknown: list[str]) -> list[str]:
    """Return as many unknown records as are looked at in one go; note that there are more."""
    rest = len(unknown) - _MAX_RECORDS
    if rest > 0:
        store.note(
            f"{rest} more files have the name of a record that the ledger does not know, after "
            f"{unknown[_MAX_RECORDS - 1]}; they are looked at when those before them are gone"
        )
    return unknown[:_MAX_RECORDS]


def _has_run_out(store: Store, state: Workflow) -> bool:
    is_slot = FORMATS[format_of(state["record"])].is_slot
    return is_slot and selection.has_run_out(state, store.now_ms())


def announcement(state: Workflow) -> str:
    """Return the note that announces the adoption of an unknown record."""
    return f"{state['record']} is not in the ledger yet: holdfast resume {state['id']} adopts it"


def records_here(root: str, format_name: str | None = None) -> list[str]:
    """Return the paths, relative to the root, of all files that have the path of a record.

    With ``format_name``, only those of that format. Raise ``Refused`` if a folder on the way is
    outside the root.
    """
    records = []
    specs = FORMATS.values() if format_name is None else [FORMATS[format_name]]
    for spec in specs:
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
    return [name for name in names_in(full) if not name.startswith(".")]


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
    state = formats.parse(format_of(record), signed, None, origin)
    if why := formats.outgrown_limit(formats.aggregate_of(state["id"]), state):
        raise schema.Invalid([], why)
    return raw, state, signed


def _read(store: Store, record: str) -> tuple[bytes, Workflow, SignedRecord] | None:
    """Read a record as ``read`` does; return ``None`` and add a note if the file is not one."""
    try:
        return read(store, record)
    except Refused as refused:
        store.note(f"{refused.message}; left as it is")
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


# Adopting and following notes


def take_in(tx: Transaction) -> list[str]:
    """Adopt or update every workflow that the notes describe; return the ids of those changed.

    Records that the ledger does not know must be adopted before.
    """
    store = tx.store
    # An agent that writes a record itself may choose another id than the slug of the title.
    known: dict[str, list[str]] = {}
    for stored in store.ledger.states(f"{ACTIVE} AND worktree = ?", store.workspace.name):
        for name in (slug(stored.state["title"]), *stored.state["required_reading"]):
            known.setdefault(name, []).append(stored.state["id"])
    changed, described = [], []
    for document in detect(store.workspace.root):
        stream, state = _find_workflow(tx, known, document)
        described.append(stream)
        reading = document["required_reading"]
        document["required_reading"] = [p for p in reading if store.workspace.contains(p[1:])]
        notes: Fields = {name: document.pop(name) for name in ("source", "said", "is_over")}
        notes |= {"reminders": document["key_reminders"], "context": document["context"]}
        try:
            if state is None or _is_begun_anew(store, state, notes):
                if notes["is_over"]:
                    continue
                _adopt(tx, stream, document, notes)
            elif not _follow(tx, state, document, notes):
                continue
            changed.append(stream)
        except schema.Invalid as invalid:
            store.note(f"the notes on {document['workflow'][:60]!r} make no sense: {invalid}")
    for state, why in over(store):
        if state["id"] not in described and _end_notes(tx, tx.load(state["id"]), why):
            changed.append(state["id"])
    return changed


def over(store: Store) -> list[tuple[Workflow, str]]:
    """Return the active workflows here whose notes are over, and why they are."""
    states = [stored.state for stored in store.ledger.states(_FORMAL_HERE, store.workspace.name)]
    now_ms = store.now_ms()
    reasons = [
        (state, over_reason(store.workspace, state))
        for state in states
        if not selection.has_run_out(state, now_ms)
    ]
    return [(state, why) for state, why in reasons if why]


def over_reason(workspace: Workspace, state: Workflow) -> str:
    """Return why the notes that a workflow was adopted from are over; empty if they are not.

    On another branch, or in another worktree, they are not expected.
    """
    source = state.get("notes_file")
    is_here = state["worktree"] == workspace.name and state["branch"] in (None, workspace.branch())
    if source is None or not is_here:
        return ""
    return why_over(workspace.root, source, state["title"])


def _find_workflow(
    tx: Transaction, known: dict[str, list[str]], document: Fields
) -> tuple[str, Workflow | None]:
    """Return the id and state of the workflow that the notes describe; a free id if it is new.

    It is the one of their name, else one that requires them as reading.
    """
    stem, source = slug(document["workflow"]), document["source"]
    numbered = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    readers = [*known.get(f"@{source}", []), *_ended_readers(tx.store, source)]
    for stream in chain(known.get(stem, []), readers, numbered):
        state: Workflow | None = tx.load(stream)
        if state is None or not _is_another(tx.store, state, document, source):
            return stream, state
    raise AssertionError("numbers end")


def _ended_readers(store: Store, source: str) -> list[str]:
    """Return the workflows that required a plan as reading and ended after its last change."""
    if source == NOTES:
        return []
    try:
        changed_ms = 1_000 * os.path.getmtime(os.path.join(store.workspace.root, source))
    except OSError:
        return []
    query = f"{ENDED} AND worktree = ? ORDER BY updated_at DESC LIMIT {_MAX_ENDED}"
    return [
        stored.state["id"]
        for stored in store.ledger.states(query, store.workspace.name)
        if f"@{source}" in stored.state["required_reading"]
        and (times.epoch_ms(stored.state["updated_at"]) or 0) >= changed_ms
    ]


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
    state: Workflow = {**parsed, "branch": store.workspace.branch(), "record": record}
    state["notes_file"] = notes["source"]
    args = {"state": state, "record": record, "notes": notes}
    tx.append(stream, tx.decide_new("adopt_record", args), ("adopt_record", args))


def _is_begun_anew(store: Store, state: Workflow, notes: Fields) -> bool:
    """Return True if the notes of an ended workflow have returned to an earlier phase.

    A plan does not count: a checkout may have restored an older version of it.
    """
    if is_active(state) or notes["source"] != NOTES:
        return False
    last = _last_followed(store, state["id"], NOTES).get("said", {})
    return "current" in notes["said"] and notes["said"]["current"] < last.get("current", 0)


def _follow(tx: Transaction, state: Workflow, document: Fields, notes: Fields) -> bool:
    """Move a known workflow to the phase in the notes; return True if anything changed."""
    store = tx.store
    is_here = state["worktree"] == store.workspace.name
    if not is_active(state) or not is_here or state["recipe"]["format"] != "formal":
        return False
    last = _last_followed(store, state["id"], notes["source"])
    reading = [*state["required_reading"], *document["required_reading"]]
    updates: Fields = {"required_reading": list(dict.fromkeys(reading))}
    if notes["source"] == NOTES:
        new = [text for text in notes["reminders"] if text not in last.get("reminders", ())]
        updates["key_reminders"] = list(dict.fromkeys([*state["reminders"], *new]))
        was = last.get("context", {})
        values = {k: v for k, v in notes["context"].items() if k not in was or was[k] != v}
        updates["context"] = {**state["context"], **values}
    phase = _followed_phase(state, document, notes, last.get("said"))
    if phase is not None:
        updates["phase"] = phase
    ttl = state["ttl"]
    if "notes_file" in state:
        ttl = _OVER_TTL if notes["is_over"] else state["recipe"].get("ttl")
    return _edit(tx, state, updates, notes, ttl)


def _followed_phase(
    state: Workflow, document: Fields, notes: Fields, last: Fields | None
) -> Fields | None:
    """Return the phase that the notes say, as the record has it; ``None`` if they say nothing new.

    Fields that they do not state are kept. If they are not of this workflow's name, it only reads
    them, and its phases are its own: they are followed if there are as many of them, and only
    name one that has no name.
    """
    phase: Fields = formats.module("formal").render(state)[0]["phase"]
    stated = dict(notes["said"])
    if not stated or stated == last:
        return None
    names = [other["name"] for other in state["phases"]]
    if slug(state["title"]) != slug(document["workflow"]):
        if stated.get("total") != len(names):
            return None
        number = stated.get("current", 0)
        if names[number - 1] != f"Phase {number}":
            stated.pop("name", None)
    after = {**phase, "status": "in_progress", **stated}
    if "current" not in stated and stated.get("name") in names:
        after["current"] = names.index(stated["name"]) + 1
    total = after["total"] = max(after["total"], after["current"])
    if notes["is_over"] and after["current"] < total:
        after |= {"current": total, "name": names[-1] if total == len(names) else f"Phase {total}"}
    is_behind = last is None and after["current"] < phase["current"]
    return None if is_behind else after


def _end_notes(tx: Transaction, state: Workflow, why: str) -> bool:
    """Record that the notes of a workflow are over; return True if that changed anything.

    The notes that say so are complete, or gone: the workflow remains as it is, for a while.
    """
    if not is_active(state):
        return False
    updates: Fields = {}
    if why == COMPLETE and state["phases"]:
        last = state["phases"][-1]["name"]
        total = len(state["phases"])
        updates["phase"] = {"current": total, "total": total, "name": last, "status": "completed"}
    source = state.get("notes_file", "")
    before = _last_followed(tx.store, state["id"], source)
    notes: Fields = {"said": {}, **before, "source": source, "is_over": True}
    return _edit(tx, state, updates, notes, _OVER_TTL)


def _edit(
    tx: Transaction, state: Workflow, updates: Fields, notes: Fields, ttl: str | None
) -> bool:
    """Adopt an edit of the document by notes; return True if it changes anything."""
    store = tx.store
    document, rest = formats.module("formal").render(state)
    origin = store.origin(state["record"], state["worktree"])
    signed = SignedRecord({**document, **updates}, None, is_intact=False)
    followed: Any = {**formats.parse("formal", signed, rest, origin), "ttl": ttl}
    if notes["is_over"] and "phase" in updates:
        # What is complete has no open phase, also where the notes went past one.
        followed["phases"] = [
            phase if phase["status"] in LEFT else schema.with_status(phase, "completed")
            for phase in followed["phases"]
        ]
    changes = diff.diff(state, followed)  # type: ignore[arg-type]
    changes = [change for change in changes if change[0][0] in _FOLLOWED]
    if not changes:
        return False
    args = {"base": store.ledger.head_seq, "changes": changes, "notes": notes}
    tx.do(state["id"], "adopt_edit", args)
    return True


def _last_followed(store: Store, stream: str, source: str) -> Fields:
    """Return these notes as they were when the workflow last followed them; empty if never."""
    for event in store.ledger.newest(stream):
        notes = event["data"].get("notes")
        if isinstance(notes, dict) and notes.get("source") == source:
            return notes
        if event["type"] in OPENING:
            break
    return {}
