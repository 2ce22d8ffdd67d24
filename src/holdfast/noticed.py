"""Workflows that were noticed in an agent's own notes, taken into the ledger and kept up with.

Each is a formal workflow. Noticed again, it is the same one: its phase follows the notes, its
required reading grows by theirs. One that has ended stays ended, whatever the notes still say.
"""

from __future__ import annotations

import os

from holdfast import detection, opening, reconcile
from holdfast.core import edits
from holdfast.core.workflow.state import is_active
from holdfast.layers import records
from holdfast.layers.records.envelope import Sealed
from holdfast.layers.records.fields import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields, Workflow
    from holdfast.engine import Engine
    from holdfast.loop import Loop

_FOLLOWED = ("phase", "phases", "required_reading")
"""What the notes have a say in, once the workflow is known."""


def take_in(loop: Loop) -> list[str]:
    """Takes in every workflow that the notes tell of, under the lock; gives those that changed."""
    engine = loop.engine
    changed = []
    for document in detection.detect(engine.workspace.root):
        document["required_reading"] = _inside(engine, document["required_reading"])
        stream = opening.slug(document["workflow"])
        position = engine.position(stream)
        try:
            if position is None:
                changed.append(_adopted(engine, stream, document)["id"])
            elif _followed(loop, loop.current(position), document):
                changed.append(stream)
        except Invalid as invalid:
            engine.note(f"the notes on {document['workflow'][:60]!r} make no sense: {invalid}")
    return changed


def _inside(engine: Engine, reading: list[str]) -> list[str]:
    top = os.path.join(os.path.realpath(engine.workspace.root), "")
    return [
        path
        for path in reading
        if "\0" not in path
        and (os.path.realpath(os.path.join(top, path[1:])) + os.sep).startswith(top)
    ]


def _adopted(engine: Engine, stream: str, document: Fields) -> Workflow:
    now = engine.now()
    record = records.active_path("formal", stream, now)
    origin = engine.origin(record, engine.workspace.name)
    sealed = Sealed({**document, "created_at": now}, None, intact=False)
    parsed = records.parse("formal", sealed, None, origin)
    branch = engine.workspace.branch()
    return reconcile.adopt(engine, {**parsed, "branch": branch}, record, None)


def _followed(loop: Loop, state: Workflow, document: Fields) -> bool:
    """Moves a known workflow to where the notes say it stands; says whether that was news."""
    engine = loop.engine
    if not is_active(state) or state["recipe"]["format"] != "formal":
        return False
    shown, rest = records.module("formal").render(state)
    reading = [*state["required_reading"], *document["required_reading"]]
    told = {"phase": document["phase"], "required_reading": list(dict.fromkeys(reading))}
    origin = engine.origin(state["record"], state["worktree"])
    after = records.parse("formal", Sealed({**shown, **told}, None, intact=False), rest, origin)
    changes = [
        change
        for change in edits.diff(state, after)  # type: ignore[arg-type]
        if change[0][0] in _FOLLOWED
    ]
    if not changes:
        return False
    args = {"base": engine.ledger.head_seq, "changes": changes}
    engine.commit(state["id"], state, engine.decide(state, "adopt_edit", args))
    return True
