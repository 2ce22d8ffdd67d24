"""Workflows that were noticed in an agent's own notes, taken into the ledger and kept up with.

Each is a formal workflow. Noticed again, it is the same one: its phase follows the notes when they
say something new, its required reading grows by theirs. Notes that stand still while the workflow
goes on are behind it, and not followed. One that has ended stays ended, whatever they still say,
until they begin anew.
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
"""What the notes have a say in, once the workflow is known."""


def take_in(session: Session, tx: Transaction) -> list[str]:
    """Take in every workflow that the notes tell of; return those that changed."""
    store = session.store
    session.adopt_unknown(tx)
    named = _named(store)
    changed = []
    for document in note_parser.detect(store.workspace.root):
        reading = document["required_reading"]
        document["required_reading"] = [p for p in reading if store.workspace.contains(p[1:])]
        notes = {"source": document.pop("source"), "said": document.pop("said")}
        stream, state = _known(tx, named, document, notes["source"])
        try:
            if state is None or _is_begun_anew(store, state, notes):
                _adopt(tx, stream, document, notes)
                changed.append(stream)
            elif _follow(tx, state, document, notes):
                changed.append(stream)
        except Invalid as invalid:
            store.note(f"the notes on {document['workflow'][:60]!r} make no sense: {invalid}")
    return changed


def _named(store: Store) -> dict[str, list[str]]:
    """Return the active workflows of this worktree by what their titles are in a path.

    An agent that makes a record itself may call its folder otherwise.
    """
    named: dict[str, list[str]] = {}
    for row in store.ledger.rows(f"{ACTIVE} AND worktree = ?", store.workspace.name):
        named.setdefault(start.slug(row["title"]), []).append(row["id"])
    return named


def _known(
    tx: Transaction, named: dict[str, list[str]], document: Fields, source: str
) -> tuple[str, Workflow | None]:
    """Return the workflow that the notes tell of; without one, the name that is free for it."""
    stem = start.slug(document["workflow"])
    numbered = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    for stream in chain(named.get(stem, []), numbered):
        state: Workflow | None = tx.load(stream)
        if state is None or not _is_another(tx.store, state, document, source):
            return stream, state
    raise AssertionError("numbers end")


def _is_another(store: Store, state: Workflow, document: Fields, source: str) -> bool:
    """Whether a workflow has the name of this one, and no more than that.

    A plan is the same one in every worktree; the notes that git does not have are one worktree's.
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
    """Whether notes on a workflow that ended are back at an earlier phase than they had told of.

    A plan may be an older one that git brought back; git does not have the notes.
    """
    if is_active(state) or notes["source"] != note_parser.NOTES:
        return False
    heard = _heard(store, state["id"], note_parser.NOTES) or {}
    return "current" in notes["said"] and notes["said"]["current"] < heard.get("current", 0)


def _follow(tx: Transaction, state: Workflow, document: Fields, notes: Fields) -> bool:
    """Moves a known workflow to where the notes say it stands; says whether that was news."""
    store = tx.store
    is_here = state["worktree"] == store.workspace.name
    if not is_active(state) or not is_here or state["recipe"]["format"] != "formal":
        return False
    shown, rest = formats.module("formal").render(state)
    reading = [*state["required_reading"], *document["required_reading"]]
    told: Fields = {"required_reading": list(dict.fromkeys(reading))}
    phase = _moved(shown["phase"], [phase["name"] for phase in state["phases"]], notes["said"])
    heard = _heard(store, state["id"], notes["source"])
    if notes["said"] != heard and (
        heard is not None or phase["current"] >= shown["phase"]["current"]
    ):
        told["phase"] = phase
    origin = store.origin(state["record"], state["worktree"])
    after = formats.parse(
        "formal", SignedRecord({**shown, **told}, None, intact=False), rest, origin
    )
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


def _moved(shown: Fields, names: list[str], said: Fields) -> Fields:
    """The phase that the record would show; what the notes leave unsaid stays as it is."""
    if not said:
        return shown
    after = {**shown, "status": "in_progress", **said}
    if "current" not in said and said["name"] in names:
        after["current"] = names.index(said["name"]) + 1
    return {**after, "total": max(after["total"], after["current"])}


def _heard(store: Store, stream: str, source: str) -> Fields | None:
    """Return what these notes said when they were last followed."""
    for event in store.ledger.newest(stream):
        notes = event["data"].get("notes")
        if isinstance(notes, dict) and notes.get("source") == source:
            said: Fields = notes["said"]
            return said
        if event["type"] in OPENING:
            break
    return None
