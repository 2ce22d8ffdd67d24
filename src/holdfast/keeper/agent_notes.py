"""Adopt workflows that an agent's own notes describe, and follow later changes of the notes.

Each becomes a formal workflow. When its notes change, its phase moves to theirs and its required
reading is extended. Notes that did not change while the workflow went on are outdated and ignored.
A workflow that has ended stays ended until the notes return to an earlier phase.
"""

from __future__ import annotations

import os
from itertools import chain, count

from holdfast import formats
from holdfast.adopt import note_parser
from holdfast.core import diff
from holdfast.core.workflow import OPENING
from holdfast.core.workflow.state import is_active
from holdfast.formats.schema import Invalid
from holdfast.formats.signature import SignedRecord
from holdfast.keeper import start
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

_FOLLOWED = ("phase", "phases", "required_reading")
"""The fields of a known workflow that notes can change."""


def take_in(session: Session, tx: Transaction) -> list[str]:
    """Adopt or update every workflow that the notes describe; return the ids of those changed."""
    store = session.store
    session.adopt_unknown(tx)
    # An agent that writes a record itself may choose another id than the slug of the title.
    by_slug: dict[str, list[str]] = {}
    for row in store.ledger.rows(f"{ACTIVE} AND worktree = ?", store.workspace.name):
        by_slug.setdefault(start.slug(row["title"]), []).append(row["id"])
    changed = []
    for document in note_parser.detect(store.workspace.root):
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
        except Invalid as invalid:
            store.note(f"the notes on {document['workflow'][:60]!r} make no sense: {invalid}")
    return changed


def _find_workflow(
    tx: Transaction, by_slug: dict[str, list[str]], document: Fields, source: str
) -> tuple[str, Workflow | None]:
    """Return the id and state of the workflow that the notes describe; a free id if it is new."""
    stem = start.slug(document["workflow"])
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
    if source == note_parser.NOTES:
        return state["worktree"] != store.workspace.name
    plan = state["context"].get("plan")
    if not isinstance(plan, str) or plan == document["context"]["plan"] or "\0" in plan:
        return False
    return os.path.isfile(
        os.path.join(store.workspace.root, note_parser.PLANS, plan, note_parser.PLAN)
    )


def _adopt(tx: Transaction, stream: str, document: Fields, notes: Fields) -> None:
    store = tx.store
    now = store.now()
    record = formats.active_path("formal", stream, now)
    origin = store.origin(record, store.workspace.name)
    sealed = SignedRecord({**document, "created_at": now}, None, intact=False)
    parsed = formats.parse("formal", sealed, None, origin)
    state = {**parsed, "branch": store.workspace.branch(), "record": record}
    args = {"state": state, "record": record, "notes": notes}
    tx.append(stream, tx.decide_new("adopt_record", args))


def _is_begun_anew(store: Store, state: Workflow, notes: Fields) -> bool:
    """Return True if the notes of an ended workflow have returned to an earlier phase.

    A plan does not count: a checkout may have restored an older version of it.
    """
    if is_active(state) or notes["source"] != note_parser.NOTES:
        return False
    last = _last_followed(store, state["id"], note_parser.NOTES) or {}
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
    names = [phase["name"] for phase in state["phases"]]
    phase = _phase_after(document_now["phase"], names, notes["said"])
    last = _last_followed(store, state["id"], notes["source"])
    if notes["said"] != last and (
        last is not None or phase["current"] >= document_now["phase"]["current"]
    ):
        updates["phase"] = phase
    origin = store.origin(state["record"], state["worktree"])
    sealed = SignedRecord({**document_now, **updates}, None, intact=False)
    after = formats.parse("formal", sealed, rest, origin)
    changes = [
        change
        for change in diff.diff(state, after)  # type: ignore[arg-type]
        if change[0][0] in _FOLLOWED
    ]
    if not changes:
        return False
    args = {"base": store.ledger.head_seq, "changes": changes, "notes": notes}
    tx.do(state["id"], "adopt_edit", args)
    return True


def _phase_after(phase: Fields, names: list[str], noted: Fields) -> Fields:
    """Return the record's phase updated by the notes. Fields missing in the notes are kept."""
    if not noted:
        return phase
    after = {**phase, "status": "in_progress", **noted}
    if "current" not in noted and noted["name"] in names:
        after["current"] = names.index(noted["name"]) + 1
    return {**after, "total": max(after["total"], after["current"])}


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
