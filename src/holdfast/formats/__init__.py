"""L1: one JSON file per workflow, in the format of its recipe.

Each module below knows one format: where its record stands, how a state becomes the document that
people and other tools know, and how the document becomes a state again.
"""

from __future__ import annotations

import os

from holdfast.core.record_formats import FORMATS, format_of, spec_of
from holdfast.formats import signature
from holdfast.system.disk import is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.core.types import Fields, Origin, Workflow

__all__ = ["FORMATS", "format_of", "spec_of"]


def module(name: str) -> ModuleType:
    """The module of a format; only the one that is needed is loaded.

    ``importlib`` would do the same, and import ``warnings`` for it.
    """
    loaded: ModuleType = __import__(f"holdfast.formats.{name}", fromlist=("render",))
    return loaded


def render(state: Workflow, ledger: str, seq: int, event_hash: str) -> bytes:
    """The record of a state, as bytes."""
    document, rest = module(state["recipe"]["format"]).render(state)
    return signature.seal(document, rest, ledger, seq, event_hash)


def parse(name: str, sealed: signature.Sealed, rest: Fields | None, origin: Origin) -> Workflow:
    """The state of a record; ``schema.Invalid`` when the document makes no sense."""
    held = sealed.rest if rest is None else rest
    parsed: Workflow = module(name).parse(sealed.document, held or {}, origin)
    return parsed


def check_edit(base: Workflow, edited: Workflow) -> None:
    """``schema.Invalid`` where an edit of a record says what only a command may."""
    if base["recipe"]["format"] == edited["recipe"]["format"] == "loop":
        module("loop").check_edit(base, edited)


def next_cycle(base: Workflow, edited: Workflow) -> Workflow:
    """The edited state; in its next cycle, if the edit began one."""
    if "cycles_at" not in edited["recipe"]:
        return edited
    from holdfast.formats import phase_fields

    return phase_fields.next_cycle(base, edited)


def active_path(format_name: str, workflow_id: str, created_at: str) -> str:
    """Where an active workflow's record stands, from the worktree's root."""
    path: str = module(format_name).path(workflow_id, created_at)
    return path


def place(state: Workflow) -> str | None:
    """Where the record of this state stands; ``None`` when it has none."""
    spec, status = spec_of(state), state["status"]
    if status in ("in_progress", "blocked"):
        return state["record"]
    if not spec.is_kept or status == "expired" or "cleaned_at" in state:
        return None
    return spec.completed_path(state["id"]) or state["record"]


def is_reset(state: Workflow) -> bool:
    """Whether an empty object stays in the place of the record that went."""
    return spec_of(state).leaves_empty and state["status"] == "expired"


def is_archived(record: str) -> bool:
    """Whether a record stands in the archive of its format, which nothing is taken away from."""
    return any(spec.archive and record.startswith(spec.archive) for spec in FORMATS.values())


def has_completed_copy(state: Workflow, root: str) -> bool:
    """Whether something stands where the completed record of an active workflow would."""
    path = spec_of(state).completed_path(state["id"])
    return path is not None and is_there(os.path.join(root, path))
