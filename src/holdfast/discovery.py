"""Records that stand in a worktree and that the ledger does not know: another tool's, a fresh
clone's, or all that is left when the ledger is gone. They are adopted as they stand.
"""

from __future__ import annotations

import os

from holdfast import expiry, jsontext, reconcile
from holdfast.core import choice
from holdfast.errors import Refused
from holdfast.layers import records
from holdfast.layers.records import envelope, fields
from holdfast.workspace import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Workflow
    from holdfast.engine import Engine


def discover(engine: Engine) -> bool:
    """Adopts every record of this worktree that is not known; says whether there was one."""
    known = _known_records(engine)
    found = False
    for record in records_here(engine.workspace.root):
        if record not in known:
            found = adopt_file(engine, record) is not None or found
    return found


def unknown(engine: Engine, known: set[str]) -> list[str]:
    """The records of this worktree that are none of these, as far as they look like records."""
    try:
        found = [place for place in records_here(engine.workspace.root) if place not in known]
    except Refused:
        return []  # A folder that leads elsewhere: whoever adopts says so.
    return [place for place in found if _looks_like_one(engine, place)]


def _looks_like_one(engine: Engine, place: str) -> bool:
    try:
        raw = engine.store.read(engine.workspace.inside(engine.workspace.root, place))
        sealed = None if raw is None else envelope.unseal(raw)
    except (OSError, Refused, jsontext.BadJson):
        return False
    if sealed is None or not sealed.document:
        return False
    # A copy of a record that stands elsewhere shows an event that is known.
    return not sealed.hash or engine.ledger.at(sealed.seq, sealed.hash) is None


def _known_records(engine: Engine) -> set[str]:
    return {
        row["record"]
        for row in engine.rows()
        if row["worktree"] == engine.workspace.name and row["status"] in ("in_progress", "blocked")
    }


def records_here(root: str) -> list[str]:
    """The paths, from the root, of all files that stand where records stand."""
    found = [".claude/workflow-state.json"]
    active = ".claude/workflow-state/active"
    found += [f"{active}/{name}" for name in _names(root, active)]
    for folder in _names(root, "untracked/workflow-state"):
        inner = f"untracked/workflow-state/{folder}"
        found += [f"{inner}/{name}" for name in _names(root, inner) if name.startswith("state-")]
    found += [f".claude/iterative/{slug}/state.json" for slug in _names(root, ".claude/iterative")]
    return [record for record in found if record.endswith(".json")]


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


def adopt_file(engine: Engine, record: str) -> Workflow | None:
    """Adopts the record at this path, if it is one and belongs to no known workflow."""
    worktree = engine.workspace.name
    path = engine.workspace.inside(engine.workspace.root, record)
    if os.path.isdir(path):
        return None
    raw = engine.store.read(path)
    if raw is None or not raw.strip():
        return None
    try:
        jsontext.loads(raw, strict=True)
        sealed = envelope.unseal(raw)
        if not sealed.document:
            return None
        origin = engine.origin(record, worktree)
        parsed = records.parse(records.format_of(record), sealed, None, origin)
        if not engine.ledger.head_seq:
            from holdfast import readback

            parsed = readback.newest_of(engine, parsed)
    except jsontext.BadJson as bad:
        engine.note(f"{record} is not a record (line {bad.line}: {bad.why}); left as it is")
        return None
    except fields.Invalid as invalid:
        engine.note(f"{record} is not a record ({invalid}); left as it is")
        return None
    if engine.position(parsed["id"]) is not None:
        return _known_elsewhere(engine, parsed, record, sealed)
    engine.expect(parsed["id"], raw)
    adopted = reconcile.adopt(engine, {**parsed, "worktree": worktree}, record, None)
    if records.format_of(record) == "verb" and choice.has_run_out(parsed, engine.now_ms()):
        # Nobody was there to see it run out: adopting it is no sign of life.
        return expiry.expire(engine, adopted)
    return adopted


def _known_elsewhere(
    engine: Engine, parsed: Workflow, record: str, sealed: envelope.Sealed
) -> Workflow | None:
    """A copy of a workflow whose record stands, or stood, elsewhere."""
    position = engine.position(parsed["id"])
    if position is None or position.hash == sealed.hash:
        return None
    state = engine.load(position)
    if state["record"] != record:
        engine.note(f"{record} is a copy of {parsed['id']}, whose record is {state['record']}")
    elif state["status"] not in ("in_progress", "blocked") and sealed.document:
        engine.note(
            f"{record} is a copy of {parsed['id']} from before it ended ({state['status']}); "
            f"holdfast resume {parsed['id']} brings it back"
        )
    return None
