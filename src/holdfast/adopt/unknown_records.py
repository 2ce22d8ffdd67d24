"""Adopt records in a worktree that the ledger does not know.

They come from another tool or from a clone, or they remain when the ledger was lost.
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.adopt import record as adoption
from holdfast.adopt.findings import expiry_note
from holdfast.core import json_text, selection
from holdfast.core.record_formats import FORMATS, format_of
from holdfast.core.workflow.evidence import with_claims
from holdfast.errors import Refused
from holdfast.formats import schema
from holdfast.workspace.location import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.adopt import Store, Transaction
    from holdfast.core.types import Workflow
    from holdfast.formats import SignedRecord

_SHARED = [spec.active for spec in FORMATS.values() if spec.is_slot]
"""The record paths that several workflows use, one after another."""


def adopt_all(tx: Transaction) -> bool:
    """Adopt every unknown record of this worktree; return True if there was one."""
    known = tx.store.ledger.active_records(tx.store.workspace.name)
    adopted = False
    for record in records_here(tx.store.workspace.root):
        if record not in known:
            adopted = adopt_file(tx, record) is not None or adopted
    return adopted


def peek_all(store: Store) -> list[Workflow]:
    """Return the states of the records here that the ledger does not know. Change nothing."""
    known = store.ledger.active_records(store.workspace.name)
    states: list[Workflow] = []
    try:
        records = records_here(store.workspace.root)
    except Refused:
        return []  # A folder is a link out of the workspace; adopting reports it.
    for record in records:
        if record in known and record not in _SHARED:
            continue
        try:
            read = _read(store, record)
        except (OSError, Refused):
            continue
        # Only an intact record can replace a known one at a path that workflows share (REPLACED).
        if read is None or (record in known and not read[2].intact):
            continue
        held = store.stream(read[1]["id"])
        if held is None:
            state: Workflow = {**read[1], "record": record, "worktree": store.workspace.name}
            if _has_run_out(store, state):
                store.note(f"{expiry_note(state)} (recorded by the next change)")
                state = {**state, "status": "expired"}
            states.append(with_claims(None, state))
        elif record not in known and held.row["hash"] != read[2].hash:
            _note_copy(store, held.state, record)
    return states


def _has_run_out(store: Store, state: Workflow) -> bool:
    is_slot = FORMATS[format_of(state["record"])].is_slot
    return is_slot and selection.has_run_out(state, store.now_ms())


def announcement(state: Workflow) -> str:
    """Return a sentence that says how an unknown record is adopted."""
    return f"{state['record']} is not in the ledger yet: holdfast resume {state['id']} adopts it"


def records_here(root: str) -> list[str]:
    """Return the paths, relative to the root, of all files that have the path of a record."""
    return [path for spec in FORMATS.values() for path in _matches(root, spec.active)]


def _matches(root: str, pattern: str) -> list[str]:
    """Return the paths that match a pattern. Raise ``Refused`` if a folder is outside the root."""
    paths = [""]
    for part in pattern.split("/"):
        if "*" not in part:
            paths = [f"{path}{part}/" for path in paths]
            continue
        start, _, end = part.partition("*")
        paths = [
            f"{path}{name}/"
            for path in paths
            for name in _names(root, path.rstrip("/"))
            if name.startswith(start) and name.endswith(end)
        ]
    return [path.rstrip("/") for path in paths]


def _names(root: str, folder: str) -> list[str]:
    full = os.path.join(root, folder)
    if not os.path.isdir(full):
        return []
    if not is_inside(full, root):
        raise Refused(
            "outside",
            f"{folder} leads out of the workspace {root}",
            "remove the symbolic link, or move the folder into the workspace",
        )
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
    sealed = formats.parse_signed(raw)
    if not sealed.document:
        return None
    origin = store.origin(record, store.workspace.name)
    return raw, formats.parse(format_of(record), sealed, None, origin), sealed


def _read(store: Store, record: str) -> tuple[bytes, Workflow, SignedRecord] | None:
    """Return what ``read`` returns; ``None``, with a note, if the file is not a record."""
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
    raw, parsed, sealed = read
    held = store.stream(parsed["id"])
    if held is not None:
        if held.row["hash"] != sealed.hash:
            _note_copy(store, tx.load(parsed["id"]), record)
        return None
    parsed = {**parsed, "record": record, "worktree": store.workspace.name}
    adopted: Workflow = adoption.adopt(tx, parsed, record, expected=raw)
    if _has_run_out(store, parsed):
        # It ran out before it was adopted, and adopting it is not an activity of the workflow.
        store.note(expiry_note(parsed))
        tx.do(parsed["id"], "expire_workflow", {})
        tx.commit()
        adopted = tx.state(parsed["id"])
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
