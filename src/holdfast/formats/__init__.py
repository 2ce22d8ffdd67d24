"""L1: one JSON file per workflow, in the format of its recipe.

Each format is a module with ``path``, ``render`` (state to document and rest) and ``parse`` (back).
A new format is one entry of ``core.record_formats`` and one such module.
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


_modules: dict[str, ModuleType] = {}


def module(name: str) -> ModuleType:
    """Return the module of a format; only those in use are imported."""
    if name not in _modules:
        _modules[name] = _IMPORTS[name]()
    return _modules[name]


def _import_verb() -> ModuleType:
    from holdfast.formats import verb

    return verb


def _import_formal() -> ModuleType:
    from holdfast.formats import formal

    return formal


def _import_skill() -> ModuleType:
    from holdfast.formats import skill

    return skill


def _import_loop() -> ModuleType:
    from holdfast.formats import loop

    return loop


_IMPORTS = {
    "verb": _import_verb,
    "formal": _import_formal,
    "skill": _import_skill,
    "loop": _import_loop,
}


def render(state: Workflow, ledger: str, seq: int, event_hash: str) -> bytes:
    """Return the bytes of a workflow's record."""
    document, rest = module(state["recipe"]["format"]).render(state)
    return signature.sign(document, rest, ledger, seq, event_hash)


def parse(
    name: str, record: signature.SignedRecord, rest: Fields | None, origin: Origin
) -> Workflow:
    """Return the state of a record; raise ``schema.Invalid`` if a field has no valid value.

    ``rest`` replaces the record's own.
    """
    kept = record.rest if rest is None else rest
    parsed: Workflow = module(name).parse(record.document, kept or {}, origin)
    return parsed


def check_edit(base: Workflow, edited: Workflow) -> None:
    """Raise ``schema.Invalid`` if an edit changes what only a command may change."""
    if base["recipe"]["format"] == edited["recipe"]["format"] == "loop":
        module("loop").check_edit(base, edited)


def next_cycle(base: Workflow, edited: Workflow) -> Workflow:
    """Return the edited state, moved to its next cycle if the edit began one."""
    if "cycles_at" not in edited["recipe"]:
        return edited
    from holdfast.formats import phase_fields

    return phase_fields.next_cycle(base, edited)


def active_path(format_name: str, workflow_id: str, created_at: str) -> str:
    """Return the path of an active workflow's record from the worktree's root."""
    path: str = module(format_name).path(workflow_id, created_at)
    return path


def place(state: Workflow) -> str | None:
    """Return the path of the record from the worktree's root; ``None`` if there is none."""
    spec, status = spec_of(state), state["status"]
    if status in ("in_progress", "blocked"):
        return state["record"]
    if not spec.is_kept or status == "expired" or "cleaned_at" in state:
        return None
    return spec.completed_path(state["id"]) or state["record"]


def is_reset(state: Workflow) -> bool:
    """Return whether an empty object replaces the removed record."""
    return spec_of(state).leaves_empty and state["status"] == "expired"


def is_archived(record: str) -> bool:
    """Return whether a path lies in its format's archive, from which nothing is removed."""
    return any(spec.archive and record.startswith(spec.archive) for spec in FORMATS.values())


def has_completed_copy(state: Workflow, root: str) -> bool:
    """Return whether a file is where the completed record of an active workflow would be."""
    path = spec_of(state).completed_path(state["id"])
    return path is not None and is_there(os.path.join(root, path))
