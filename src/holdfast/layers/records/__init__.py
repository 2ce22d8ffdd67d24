"""L1: one JSON file per workflow, in the format of its recipe.

Each module below knows one format: where its record stands, how a state becomes the document that
people and other tools know, and how the document becomes a state again.
"""

from __future__ import annotations

from holdfast.disk import is_there
from holdfast.layers.records import envelope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.core.shapes import Fields, Origin, Workflow

FORMATS = ("verb", "formal", "skill", "loop")
_SKILL_ACTIVE = "/.claude/workflow-state/active/"
_SKILL_COMPLETED = "/.claude/workflow-state/completed/"


def module(name: str) -> ModuleType:
    """The module of a format; only the one that is needed is loaded.

    ``importlib`` would do the same, and import ``warnings`` for it.
    """
    loaded: ModuleType = __import__(f"holdfast.layers.records.{name}", fromlist=("render",))
    return loaded


def render(state: Workflow, ledger: str, seq: int, event_hash: str) -> bytes:
    """The record of a state, as bytes."""
    document, rest = module(state["recipe"]["format"]).render(state)
    return envelope.seal(document, rest, ledger, seq, event_hash)


def parse(name: str, sealed: envelope.Sealed, rest: Fields | None, origin: Origin) -> Workflow:
    """The state of a record; ``fields.Invalid`` when the document makes no sense."""
    held = sealed.rest if rest is None else rest
    parsed: Workflow = module(name).parse(sealed.document, held or {}, origin)
    return parsed


def check_edit(base: Workflow, edited: Workflow) -> None:
    """``fields.Invalid`` where an edit of a record says what only a command may."""
    if base["recipe"]["format"] == edited["recipe"]["format"] == "loop":
        module("loop").check_edit(base, edited)


def next_cycle(base: Workflow, edited: Workflow) -> Workflow:
    """The edited state; in its next cycle, if the edit began one."""
    if "cycles_at" not in edited["recipe"]:
        return edited
    from holdfast.layers.records import position

    return position.next_cycle(base, edited)


def active_path(format_name: str, workflow_id: str, created_at: str) -> str:
    """Where an active workflow's record stands, from the worktree's root."""
    path: str = module(format_name).path(workflow_id, created_at)
    return path


def place(state: Workflow) -> str | None:
    """Where the record of this state stands; ``None`` when it has none."""
    name, status = state["recipe"]["format"], state["status"]
    if status in ("in_progress", "blocked"):
        return state["record"]
    if name == "formal" or status == "expired" or "cleaned_at" in state:
        return None
    if name == "skill":
        completed: str = module("skill").completed_path(state["id"])
        return completed
    return state["record"]


def is_reset(state: Workflow) -> bool:
    """Whether an empty object stays in the place of the record that went."""
    return state["recipe"]["format"] == "verb" and state["status"] == "expired"


def is_archived(record: str) -> bool:
    """Whether a record stands in the archive of loops, which nothing is taken away from."""
    return record.startswith(".claude/iterative/archive/")


def has_completed_copy(path: str, workflow_id: str) -> bool:
    """Whether something stands where the completed record of an active skill workflow would."""
    return any(is_there(place) for place in places(path, workflow_id)[1:])


def places(path: str, workflow_id: str) -> list[str]:
    """Where a record with this absolute path may stand: there, and where it goes at the end."""
    folder, found, _ = path.rpartition(_SKILL_ACTIVE)
    return [path, f"{folder}{_SKILL_COMPLETED}{workflow_id}.json"] if found else [path]


def format_of(path: str) -> str:
    """The format of a record by its place."""
    if path.startswith(".claude/workflow-state/"):
        return "skill"
    if path.startswith("untracked/"):
        return "formal"
    if path.startswith(".claude/iterative/"):
        return "loop"
    return "verb"
